"""Python files as syntax trees: constants with their values, classes with their docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = {
    "virtuallog": ROOT,
    "virtuallog_loglets": ROOT / "loglets",
    "virtuallog_metastore": ROOT / "metastore",
    "virtuallog_database": ROOT / "database",
    "virtuallog_server": ROOT / "server",
    "pyspark_virtuallog": ROOT / "spark",
    "virtuallog_console": ROOT / "console",
}
"""Packages of the product -> the folder that each is in."""
WRITTEN: Final = "% Written by `python -m docs._generate`; change the code instead.\n\n"
"""First line of each page; a comment of MyST."""
_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Pow: lambda a, b: a**b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
    ast.BitOr: lambda a, b: a | b,
}


class UnknownValueError(ValueError):
    """The value of an expression cannot be told without running the program."""


@attrs.frozen
class Constant:
    """A constant of a module."""

    module: str
    name: str
    value: ast.expr
    doc: str
    """The string below it; empty if there is none."""


def module_names(*packages: str) -> Iterator[str]:
    """Dotted names of all modules of these packages, sorted."""
    for package in packages:
        folder = PACKAGES[package]
        for path in sorted((folder / package).rglob("*.py")):
            dotted = ".".join(path.relative_to(folder).with_suffix("").parts)
            yield dotted.removesuffix(".__init__")


def module_path(module: str) -> Path:
    """The file of a module of the product."""
    base = PACKAGES[module.partition(".")[0]].joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def is_module(dotted: str) -> bool:
    """True if this is a module of the product."""
    return dotted.partition(".")[0] in PACKAGES and module_path(dotted).is_file()


@cache
def parsed(module: str) -> ast.Module:
    """The syntax tree of a module of the product."""
    return ast.parse(module_path(module).read_text(encoding="utf-8"))


def documented(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.Assign | ast.AnnAssign, str]]:
    """Each assignment with the string below it, or with an empty one."""
    for at, statement in enumerate(body):
        if isinstance(statement, ast.Assign | ast.AnnAssign):
            below = body[at + 1] if at + 1 < len(body) else None
            is_doc = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            doc = below.value.value if is_doc else ""  # type: ignore[union-attr]
            yield statement, inspect.cleandoc(doc) if isinstance(doc, str) else ""


def constants(module: str) -> Iterator[Constant]:
    """Upper-case names that a module gives a value."""
    for statement, doc in documented(parsed(module).body):
        target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
        if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z][A-Z0-9_]*", target.id) and statement.value is not None:
            yield Constant(module, target.id, statement.value, doc)


@cache
def _scope(module: str) -> dict[str, ast.expr | str]:
    """Constants of a module, and modules or `module:name` that its imports bind."""
    found: dict[str, ast.expr | str] = {}
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in node.names:
                inner = f"{node.module}.{name.name}"
                found[name.asname or name.name] = inner if is_module(inner) else f"{node.module}:{name.name}"
    for statement in parsed(module).body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
            if isinstance(target, ast.Name):
                found[target.id] = statement.value
    return found


def value_of(node: ast.expr, module: str, names: dict[str, Any] | None = None) -> Any:
    """The value of a constant expression in a module.

    Args:
        node: the expression.
        module: where it stands.
        names: values of local names.

    Raises:
        UnknownValueError: it is none.
    """
    names = names or {}
    match node:
        case ast.Constant(value=value):
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](value_of(left, module, names), value_of(right, module, names))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return 0 - value_of(operand, module, names)
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return tuple(value_of(each, module, names) for each in elements)
        case ast.JoinedStr(values=parts):
            return "".join(
                str(value_of(part.value if isinstance(part, ast.FormattedValue) else part, module, names))
                for part in parts
            )
        case ast.Name(id=name) if isinstance(names.get(name), ast.expr):
            return value_of(names[name], module, {key: value for key, value in names.items() if key != name})
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.Name(id=name):
            return _imported(_scope(module).get(name), module)
        case ast.Attribute(value=ast.Name(id=base), attr=name):
            where = _scope(module).get(base)
            if isinstance(where, str) and is_module(where):
                return _imported(_scope(where).get(name), where)
    raise UnknownValueError(ast.unparse(node))


def _imported(found: ast.expr | str | None, module: str) -> Any:
    if isinstance(found, ast.expr):
        return value_of(found, module)
    if isinstance(found, str) and ":" in found:
        where, _, name = found.partition(":")
        if is_module(where):
            return _imported(_scope(where).get(name), where)
    raise UnknownValueError(str(found))


def classes(*packages: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Classes at the top of modules, with their module."""
    for module in module_names(*packages):
        yield from ((module, node) for node in parsed(module).body if isinstance(node, ast.ClassDef))


def class_named(name: str, below: str) -> tuple[str, ast.ClassDef]:
    """The class of this name in the modules below a package or module, and its module.

    Raises:
        LookupError: there is none, or more than one.
    """
    package = below.partition(".")[0]
    found = [
        (module, node) for module, node in classes(package) if node.name == name and f"{module}.".startswith(below)
    ]
    if len(found) != 1:
        raise LookupError(f"{len(found)} classes {name} below {below}, not one")
    return found[0]


def docstring(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Without indentation, and without what marks pure modules."""
    return re.sub(r" *Pure\.$", "", ast.get_docstring(node) or "", flags=re.MULTILINE)


def first_paragraph(text: str) -> str:
    """In one line."""
    return " ".join(text.split("\n\n", maxsplit=1)[0].split())


def cell(text: str) -> str:
    """A text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
