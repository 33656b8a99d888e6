"""The page of the public API: `virtuallog`, its front doors, the contract for authors of loglets, the test kit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from docs._generate.source import WRITTEN, cell, class_named, docstring, documented, is_module, parsed

Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
HEAD: Final = """# Python API

What programs import. All other modules may change from version to version. Signatures and texts are those of the code;
[errors](errors.md) has what is raised, [configuration](configuration.md) the options of a client.

"""
FRONT: Final = (
    ("virtuallog", "For programs that append and read."),
    ("virtuallog.embedded", ""),
    ("virtuallog.replica", ""),
    ("virtuallog.state", ""),
    ("virtuallog.table", ""),
    ("virtuallog.aio", ""),
    ("virtuallog.aio.embedded", ""),
    ("virtuallog.aio.replica", ""),
    ("virtuallog.aio.state", ""),
    ("virtuallog.aio.table", ""),
)
"""Modules whose `__all__` is shown name by name."""
DATABASE: Final = (
    "DatabaseClient",
    "Session",
    "Transaction",
)
"""Classes of the database that a program works with."""
AUTHORS: Final = (
    "virtuallog.contract.loglet", "virtuallog.contract.provider", "virtuallog.contract.metastore", "virtuallog.testing.loglet_suite",
    "virtuallog.testing.metastore_suite",
)  # fmt: skip
"""Modules for authors of loglets and MetaStores."""


def page() -> str:
    """Front doors, the database's client, the contracts."""
    text = WRITTEN + HEAD
    for module, note in FRONT:
        text += f"## {module}\n\n{note or docstring(parsed(module))}\n\n"
        text += "".join(_defined(*_definition(module, name)) for name in _exported(module))
    text += "## The client of the database\n\nWhat `open_embedded` and `open_replica` give.\n\n"
    text += "".join(_defined(*class_named(name, "virtuallog_database.client."), name) for name in DATABASE)
    for module in AUTHORS:
        text += f"## {module}\n\n{_prose(docstring(parsed(module)))}\n\n"
        for node in parsed(module).body:
            if isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_"):
                text += _defined(module, node, node.name)
    return text.rstrip() + "\n"


def _exported(module: str) -> list[str]:
    for node in parsed(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [each.value for each in node.value.elts]  # type: ignore[attr-defined]
    return []


def _definition(module: str, name: str) -> tuple[str, ast.stmt, str]:
    """Return the module, the statement and the name that define an exported name."""
    body = parsed(module).body
    for node in [*body, *(inner for each in body if isinstance(each, ast.If) for inner in each.body)]:
        if isinstance(node, ast.ClassDef | Function) and node.name == name:
            return module, node, name
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if ast.unparse(target) == name:
                return module, node, name
        if isinstance(node, ast.ImportFrom) and node.module and is_module(node.module):
            for each in node.names:
                if (each.asname or each.name) == name:
                    return _definition(node.module, each.name)
    raise LookupError(f"{module} exports {name}, and does not define it")


def _defined(module: str, node: ast.stmt, name: str) -> str:
    head = f"### {name}\n\n"
    match node:
        case ast.ClassDef():
            return f"{head}`class {module}.{name}`\n\n{_prose(docstring(node))}\n\n{_members(node)}"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return f"{head}{_signature(node, name)}\n{_prose(docstring(node))}\n\n"
    doc = next((doc for each, doc in documented(parsed(module).body) if each is node), "")
    return f"{head}```python\n{ast.unparse(node)}\n```\n\n{_prose(doc)}\n\n"


def _signature(node: Function, name: str) -> str:
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    decorators = {ast.unparse(each) for each in node.decorator_list}
    manager = "async with" if "asynccontextmanager" in decorators else "with" if "contextmanager" in decorators else ""
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    arguments = ", ".join(_spaced(each) for each in _split(ast.unparse(node.args)))
    line = f"{word} {name}({arguments}){returns}: ..."
    if len(line) > 100:
        parts = _split(arguments)
        line = f"{word} {name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returns}: ..."
    with_ = f"@{'async' if manager.startswith('async') else ''}contextmanager\n" if manager else ""
    return f"```python\n{with_}{line}\n```\n"


def _spaced(argument: str) -> str:
    """With spaces around the `=` of a default, if there is an annotation."""
    name, colon, rest = argument.partition(": ")
    annotation, equals, default = rest.rpartition("=")
    return f"{name}: {annotation} = {default}" if colon and equals else argument


def _split(arguments: str) -> list[str]:
    """At commas that are not inside of brackets or strings."""
    parts, depth, current = [], 0, ""
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += letter
    return [part for part in (*parts, current.strip()) if part]


def _members(node: ast.ClassDef) -> str:
    """Documented attributes, then public methods."""
    rows = [
        f"* `{ast.unparse(field.target)}`: `{ast.unparse(field.annotation)}`. {cell(doc)}\n".replace("\\|", "|")
        for field, doc in documented(node.body)
        if isinstance(field, ast.AnnAssign) and not ast.unparse(field.target).startswith("_")
    ]
    text = "".join(rows) + ("\n" if rows else "")
    for method in _methods(node):
        is_property = any(ast.unparse(each) == "property" for each in method.decorator_list)
        shown = f"`{node.name}.{method.name}`\n" if is_property else _signature(method, method.name)
        text += f"#### {node.name}.{method.name}\n\n{shown}\n{_prose(docstring(method))}\n\n"
    return text


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    for each in node.body:
        if isinstance(each, Function) and not each.name.startswith("_"):
            yield each


def _prose(text: str) -> str:
    """Sections `Args:`, `Returns:` and `Raises:` as lists, bare lines of code as they are."""
    out: list[str] = []
    in_section = False
    for line in text.splitlines():
        if re.fullmatch(r"(Args|Raises|Returns|Yields|Cancel)( \([^)]*\))?:", line):
            out += ["", f"**{line[:-1]}**", ""]
            in_section = True
        elif in_section and (item := re.match(r"    (\w[\w, ]*): (.*)", line)):
            out.append(f"* `{item[1]}`: {item[2]}")
        elif in_section and line.startswith("    "):
            out.append(f"  {line.strip()}")
        else:
            in_section = in_section and not line.strip()
            out.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip()
