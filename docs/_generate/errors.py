"""The page of all errors, by what a caller does next."""

from __future__ import annotations

import ast
from typing import Final

from docs._generate.source import PACKAGES, WRITTEN, classes, docstring, first_paragraph

ROOTS: Final = {
    "RetryableError": "The same call may succeed later, unchanged. Appenders and readers try again by themselves.",
    "TerminalError": "The same call will fail again; change something first.",
    "DatabaseError": "The database refuses an operation, as ZooKeeper does. Nothing has been changed.",
}
"""Base class -> what all errors below it have in common."""
HEAD: Final = """# Errors

Each class answers one question of a caller: what now? Errors cross the wire with their class and fields. All derive from
`virtuallog.contract.errors.VirtualLogError`.

The exit code of a command: 0 done, 1 failed for good, 2 wrong usage, 3 unavailable (`RetryableError`): what was asked for may
have happened.

"""


def page() -> str:
    """All error classes of the product."""
    found = {node.name: (module, node) for module, node in classes(*PACKAGES) if ".testing" not in module}
    parents = {name: _bases(node) for name, (_, node) in found.items()}
    text = WRITTEN + HEAD
    for root, meaning in ROOTS.items():
        module, _ = found[root]
        text += f"## {root}\n\n`{module}.{root}`: {meaning}\n\n"
        below = sorted(
            name for name in found if name != root and root in _ancestors(name, parents) and name not in ROOTS
        )
        for name in below:
            module, node = found[name]
            text += f"### {name}\n\n`{module}`\n\n{docstring(node)}\n\n"
    others = [name for name in sorted(found) if _is_other(name, parents)]
    text += "## Others\n\n"
    for name in others:
        module, node = found[name]
        text += f"* `{module}.{name}`: {first_paragraph(docstring(node))}\n"
    return text


def _bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).rpartition(".")[2] for base in node.bases]


def _ancestors(name: str, parents: dict[str, list[str]]) -> set[str]:
    above: set[str] = set()
    todo = list(parents.get(name, ()))
    while todo:
        each = todo.pop()
        if each not in above:
            above.add(each)
            todo += parents.get(each, ())
    return above


def _is_other(name: str, parents: dict[str, list[str]]) -> bool:
    """True for an error that is below none of the roots."""
    above = _ancestors(name, parents)
    is_error = "VirtualLogError" in above
    return is_error and not name.startswith("_") and name != "VirtualLogError" and not (above | {name}) & set(ROOTS)
