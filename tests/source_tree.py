"""Input of the guards of this folder: our packages, their modules, our documents."""

from __future__ import annotations

import ast
import gc
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
SHIPPED = (
    "virtuallog", "loglets/virtuallog_loglets", "metastore/virtuallog_metastore", "database/virtuallog_database", "server/virtuallog_server",
    "simulation/virtuallog_simulation", "spark/pyspark_virtuallog",
    "console/virtuallog_console", "lab/virtuallog_lab",
)  # fmt: skip
"""The packages of the wheel, relative to the checkout."""


@cache
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def modules(*folders: str) -> list[Path]:
    """Every Python file below `folders`, relative to the checkout."""
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(path.relative_to(ROOT) for path in found)


def path_of(module: str) -> Path:
    """The file of a module of ours, by its dotted name."""
    root, *inner = module.split(".")
    (package,) = (folder for folder in SHIPPED if Path(folder).name == root)
    path = Path(package, *inner)
    return path / "__init__.py" if (ROOT / path).is_dir() else path.with_suffix(".py")


@cache
def parsed(module: Path) -> ast.Module:
    """The tree of a module, kept. The garbage collector does not visit it: with the trees of all modules each pass takes seconds."""
    gc.disable()
    try:
        return ast.parse((ROOT / module).read_text(), filename=str(module))
    finally:
        gc.enable()
        gc.freeze()


def functions(module: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function and method of a module."""
    return [node for node in ast.walk(parsed(module)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def attributes(module: Path) -> list[tuple[int, str]]:
    """Uses of imported modules by a module: (line, dotted name) of each `module.name` and `from module import name`."""
    imported = _imported(parsed(module))
    found = []
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            found.append((node.lineno, f"{imported[node.value.id]}.{node.attr}"))
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(node.lineno, f"{node.module}.{name.name}") for name in node.names]
    return found


def _imported(tree: ast.Module) -> dict[str, str]:
    """Module names by the names that `import x` or `import x as y` binds."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    return {name.asname or name.name: name.name for node in imports for name in node.names}


def imported_roots(module: Path) -> set[str]:
    """First names of all that a module imports: `os` for `os.path`."""
    roots = set()
    for node in ast.walk(parsed(module)):
        if isinstance(node, ast.Import):
            roots |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            roots.add(node.module.partition(".")[0])
    return roots


def requirement_name(requirement: str) -> str:
    """`trio` of `trio==0.35.*`."""
    match = re.match(r"[\w-]+", requirement)
    assert match is not None
    return match[0].lower()


def documents() -> list[Path]:
    """Every Markdown file of ours, relative to the checkout. Each folder with a package has a README."""
    signs = [ROOT / package.partition("/")[0] / "README.md" for package in SHIPPED]
    found = [*ROOT.glob("*.md"), *signs, *(ROOT / "docs").rglob("*.md"), *(ROOT / "newsfragments").glob("*.md")]
    return sorted(path.relative_to(ROOT) for path in found)
