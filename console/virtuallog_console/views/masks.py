"""Masks: patterns of paths whose values no viewer sees.

    /app/password       this znode
    /app/*/password     `*` stands for any characters of one name
    /**/password        `**` stands for any number of names, or none

A mask covers what it matches and everything below that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError

_ANY_NAMES: Final = "**"


def _parse(pattern: str) -> tuple[str, ...]:
    names = tuple(pattern.split("/")[1:]) if pattern != "/" else ()
    if not pattern.startswith("/") or "" in names or {".", ".."} & {*names}:
        raise InvalidSettingError("mask", f"'{pattern}' must be a path from the root, such as /app/*/password")
    return names


@attrs.frozen
class Masks:
    """Patterns that hide values.

    Raises:
        InvalidSettingError: when made, if a pattern is no path from the root.
    """

    patterns: tuple[str, ...] = ()
    _names: tuple[tuple[str, ...], ...] = attrs.field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_names", tuple(map(_parse, self.patterns)))

    def covers(self, path: str) -> bool:
        """True if the value at `path` is hidden. Empty names and `.` in the path do not count."""
        return any(_match(names, path)[0] for names in self._names)

    def may_cover_below(self, path: str) -> bool:
        """True if the value at `path`, or some value below it, is or would be hidden."""
        return any(any(_match(names, path)) for names in self._names)


def _match(pattern: Sequence[str], path: str) -> tuple[bool, bool]:
    """Match a pattern with a path: it covers the path, and it can go on below it."""
    states = _skip(pattern, {0})
    is_covered = len(pattern) in states
    for name in path.split("/"):
        if name not in {"", "."}:
            states = _skip(pattern, {found for state in states for found in _step(pattern, state, name)})
            is_covered = is_covered or len(pattern) in states
    return is_covered, bool(states)


def _step(pattern: Sequence[str], state: int, name: str) -> list[int]:
    """States behind one more name of the path."""
    if state == len(pattern):
        return []
    if pattern[state] == _ANY_NAMES:
        return [state]
    return [state + 1] if _fits(name, pattern[state].split("*")) else []


def _skip(pattern: Sequence[str], states: set[int]) -> set[int]:
    """The states, and those that are reached if `**` stands for no name."""
    found = set(states)
    for state in states:
        at = state
        while at < len(pattern) and pattern[at] == _ANY_NAMES:
            at += 1
            found.add(at)
    return found


def _fits(name: str, parts: Sequence[str]) -> bool:
    """True if the name consists of these parts, with any characters between them. Takes linear time for each part."""
    if len(parts) == 1:
        return name == parts[0]
    first, *middle, last = parts
    at, stop = len(first), len(name) - len(last)
    if at > stop or not name.startswith(first) or not name.endswith(last):
        return False
    for part in middle:
        found = name.find(part, at, stop)
        if found < 0:
            return False
        at = found + len(part)
    return True


NO_MASKS: Final = Masks()
