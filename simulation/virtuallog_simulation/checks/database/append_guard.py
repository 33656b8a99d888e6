"""Appends of clients to the log of a database: none is in what is guarded, and a refusal means that nothing was appended."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import attrs

from virtuallog.contract.errors import ForbiddenError
from virtuallog.contract.types import LogPosition
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Check, Violation


@attrs.define(eq=False)
class ForeignAppend:
    """An append by an unauthorized client."""

    payload: bytes
    begun: float
    is_hostile: bool
    """The log is guarded, as all may know."""
    ended: float | None = None
    position: LogPosition | None = None
    """Acknowledged there."""
    error: Exception | None = None

    @property
    def was_refused(self) -> bool:
        """Definitely, and by name."""
        return isinstance(self.error, ForbiddenError)


@attrs.frozen
class GuardReport:
    """Why the log is not guarded, as each node says."""

    time: float
    problems: tuple[str, ...]


def append_guard_checks(
    attempts: Sequence[ForeignAppend],
    content: Mapping[bytes, LogPosition],
    guarded_from: LogPosition | None,
    told: Sequence[GuardReport],
    upgraded_at: float,
) -> Check:
    """The checks of one run.

    Args:
        attempts: of all strangers.
        content: of the log, as it is in the end; nothing was trimmed.
        guarded_from: where the first segment begins that the register guards; None: there is none.
        told: reasons against the guard.
        upgraded_at: when nodes of a former version began to be replaced; never: they were not.
    """

    def check(_: History) -> Iterator[Violation]:
        yield from _only_members(attempts, content, guarded_from)
        yield from _refusals(attempts, content)
        yield from _reasons(attempts, content, told, upgraded_at)

    return check


def _only_members(
    attempts: Sequence[ForeignAppend], content: Mapping[bytes, LogPosition], guarded_from: LogPosition | None
) -> Iterator[Violation]:
    if guarded_from is None:
        yield Violation("only members append", "the log is not guarded in the end")
        return
    for attempt in attempts:
        position = content.get(attempt.payload, attempt.position)
        if position is None:
            continue
        if position >= guarded_from:
            message = f"{attempt.payload!r} of a client is at {position}, and the log is guarded from {guarded_from} on"
            yield Violation("only members append", message)
        elif attempt.is_hostile:
            message = f"{attempt.payload!r} of a client is at {position}, and was offered when the log was guarded"
            yield Violation("only members append", message)


def _refusals(attempts: Sequence[ForeignAppend], content: Mapping[bytes, LogPosition]) -> Iterator[Violation]:
    for attempt in attempts:
        if attempt.was_refused and attempt.payload in content:
            message = f"{attempt.payload!r} is at {content[attempt.payload]}, and was refused: {attempt.error}"
            yield Violation("what is refused is not appended", message)


def _reasons(
    attempts: Sequence[ForeignAppend],
    content: Mapping[bytes, LogPosition],
    told: Sequence[GuardReport],
    upgraded_at: float,
) -> Iterator[Violation]:
    """A log that others use is not taken from them, and a log of the database alone is guarded
    without being asked."""
    early = [
        each for each in attempts if each.position is not None and (each.ended or math.inf) < upgraded_at < math.inf
    ]
    if early and not told:
        message = f"{early[0].payload!r} was in the log before the upgrade, and no client was told of it"
        yield Violation("the guard is refused for a reason", message)
    for each in told:
        before = [attempt for attempt in attempts if attempt.begun < each.time and attempt.payload in content]
        if not before:
            yield Violation(
                "the guard is refused for a reason", f"{each.problems[0]}, and no client has appended anything"
            )
    first = min((each.time for each in told), default=None)
    for attempt in attempts:
        if attempt.was_refused and not attempt.is_hostile and first is not None and (attempt.ended or 0.0) <= first:
            message = f"{attempt.payload!r} was refused while the log was open to its program"
            yield Violation("the guard is refused for a reason", message)
