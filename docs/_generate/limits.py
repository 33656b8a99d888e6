"""The page of all bounds: constants of the code with their docstrings."""

from __future__ import annotations

import ast
import re
from itertools import groupby
from typing import Final

from docs._generate.source import (
    PACKAGES,
    WRITTEN,
    Constant,
    UnknownValueError,
    cell,
    constants,
    module_names,
    table,
    value_of,
)

BOUND: Final = re.compile(
    r"_(MAX|MIN|BYTES|SECONDS|MS|COUNT|LIMIT|KEPT|PLACES|POSITIONS|TICKS|DEFAULT|AT_ONCE|PER_SECOND)$"
    r"|^(MAX|KEPT|READERS|RESERVED|BURST|PER_SECOND|FRAMES_AT_ONCE|IN_FLIGHT|FILES_AT_ONCE)$|_MAX_"
)
HEAD: Final = """# Limits

Every queue, batch, table and wait has a bound. These are the constants behind them, with the reason that stands beside each in
the code. [Bounds](../concepts/bounds.md) tells what happens at a bound, and which are options of a node.

"""


def page() -> str:
    """All bounds, by package and room."""
    found = [
        each for module in module_names(*PACKAGES) if _counts(module) for each in constants(module) if _is_bound(each)
    ]
    text = WRITTEN + HEAD
    for room, rows in groupby(found, key=_room):
        lines = [(f"`{row.name}`", _shown(row), cell(row.doc), f"`{_inner(row)}`") for row in rows]
        text += f"## {room}\n\n{table(('constant', 'value', 'reason', 'module'), lines)}\n"
    return text


def _counts(module: str) -> bool:
    return ".testing" not in module


def _is_bound(constant: Constant) -> bool:
    try:
        value = value_of(constant.value, constant.module)
    except UnknownValueError:
        return False
    return bool(BOUND.search(constant.name)) and isinstance(value, int | float) and not isinstance(value, bool)


def _room(constant: Constant) -> str:
    """The package and the folder in it."""
    return ".".join(constant.module.split(".")[:2])


def _inner(constant: Constant) -> str:
    return ".".join(constant.module.split(".")[2:]) or constant.module.rpartition(".")[2]


def _shown(constant: Constant) -> str:
    value = value_of(constant.value, constant.module)
    if "BYTES" in constant.name:
        return _bytes(value)
    if "SECONDS" in constant.name:
        return f"{value:,g} s"
    if "_MS" in constant.name:
        return f"{value:,} ms"
    if isinstance(value, int) and value >= 1 << 24:
        return _power(value) if not isinstance(constant.value, ast.Constant) else f"{value:,}"
    return f"{value:,}"


def _bytes(value: float) -> str:
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= size and value % size == 0:
            return f"{value // size:,} {unit}"
    return "1 byte" if value == 1 else f"{value:,} bytes"


def _power(value: int) -> str:
    for off in (0, 1):
        power = (value + off).bit_length() - 1
        if 1 << power == value + off:
            return f"2^{power}" + (" - 1" if off else "")
    return f"{value:,}"
