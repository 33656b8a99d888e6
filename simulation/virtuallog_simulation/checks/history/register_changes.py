"""Changes of the register take effect: when one has returned a version, that version is decided and shows the change. Pure.

A client that gets the answer to a change relies on it: it shuts down former members, or frees what
it has copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import (
    CloseChange,
    ExtendChange,
    MembersChange,
    ModifyChange,
    Reconfigure,
    RegisterPut,
    TruncateChange,
)
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.violation import Check, Violation, proof
from virtuallog_simulation.checks.history.facts import Decided, chains
from virtuallog_simulation.checks.history.trims import copies, highest_told_before


def changes_take_effect(history: History) -> Iterator[Violation]:
    """Acknowledged changes are in the register. Changes with an unknown outcome are not checked."""
    for change in history.operations(Reconfigure):
        if not change.returned:
            continue
        made = chains(history).get(change.result)
        if made is None or made.known > change.done:
            message = f"{change.action.change} returned version {change.result}, which no client knew to be decided"
            yield Violation("changes take effect", message, proof(change))
        elif missing := _missing(history, change, made):
            message = f"{change.action.change} returned version {change.result}, in which {missing}"
            yield Violation("changes take effect", message, proof(made.known_by, change))


CHANGE_CHECKS: Final[tuple[Check, ...]] = (changes_take_effect,)


def _missing(history: History, change: Operation, made: Decided) -> str:
    """Expected content that the version lacks; empty if it shows the change."""
    match change.action.change:
        case ExtendChange(kind):
            last = made.chain.last
            is_made = _is_made(last, kind, change, made) and last.stop is None
            return "" if is_made else f"the last segment is {last}"
        case ModifyChange(segment, kind, base):
            place = _place(history, segment)
            copy = next((one for one in made.chain.segments if one.start == place), None)
            is_made = copy is not None and copy.base == base and _is_made(copy, kind, change, made)
            return "" if is_made else f"there is {copy} in its place"
        case TruncateChange():
            return _left_over(history, change, made)
        case CloseChange():
            return "" if made.chain.active is None else "the log is open"
        case MembersChange(members, seen):
            assert made.register is not None
            is_made = made.register.members == tuple(sorted(members))
            return _undone(history, seen, change, made) if is_made else f"the members are {made.register.members}"
        case asked:
            assert_never(asked)


def _undone(history: History, seen: tuple[NodeId, ...], change: Operation, made: Decided) -> str:
    """Another change of the members that the operator had not seen, and that this one took back."""
    before = chains(history).get(made.version - 1)
    own = any(
        put.returned
        and put.client == change.client
        and put.action.version == made.version
        and put.invoked > change.invoked
        for put in history.operations(RegisterPut)
    )
    if not seen or before is None or not own:
        return ""
    assert before.register is not None
    is_seen = before.register.members == tuple(sorted(seen))
    return "" if is_seen else f"the members {before.register.members} are replaced, where {seen} had been seen"


def _is_made(segment: Segment, kind: str, change: Operation, made: Decided) -> bool:
    """True if the segment is of this kind and new in this version, which no client had put before
    the change began."""
    return segment.kind == kind and segment.id.version == made.version and made.started > change.invoked


def _place(history: History, segment: SegmentId) -> int | None:
    """Position where the segment began."""
    found = (known.chain.find(segment) for known in chains(history).values())
    return next((one.start for one in found if one is not None), None)


def _left_over(history: History, change: Operation, made: Decided) -> str:
    """A closed segment that was known to be trimmed as a whole when the change began, and is still there."""
    told = highest_told_before(history, change)
    if told is None:
        return ""
    for segment in made.chain.segments[:-1]:
        is_trimmed = segment.stop is not None and segment.stop <= told.result
        if is_trimmed and not copies(history).excuse(segment.start, change, told):
            return f"{segment} is left, and {told.result} was the trim point"
    return ""
