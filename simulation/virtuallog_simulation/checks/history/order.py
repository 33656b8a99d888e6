"""Linearizability of the history of one log, with positions as the witness.

The witness order (`virtuallog.testing.checker.witness_order`) of a log has entries at their
positions and tails just before the entry at that position. A read, a trim or a chain also proves a
tail, of unknown age. One pass over the history finds where entries lie (`facts.content`), one over
the order finds what is impossible in time; so several checks take no longer than one.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Final

import attrs

from virtuallog.contract.errors import BeyondTailError, TailMismatchError
from virtuallog.contract.types import Sealed
from virtuallog.testing.checker.actions import LogAppend, LogCheckTail, LogFindTrimPoint, LogRead, LogTrim
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.violation import Check, Violation, once, proof
from virtuallog.testing.checker.witness_order import ANY_TIME, Step, in_order, out_of_time
from virtuallog_simulation.checks.history.facts import NEVER, Decided, chains, content, end_of, stop_of

_TAIL, _ENTRY = range(2)


def everybody_agrees(history: History) -> Iterator[Violation]:
    """All readers, and the appender, agree on the entry at a position; and a client has offered it."""
    yield from content(history).conflicts


def possible_in_time(history: History) -> Iterator[Violation]:
    """I5, I6: a tail is never below what was acknowledged, read or seen as a tail before the call; and an append that
    begins after a position was known to be written gets a later one."""
    for later, earlier in out_of_time(in_order(_steps(history))):
        known = earlier.place + (earlier.line == _ENTRY)
        if later.entry is None:
            message = f"tail {later.place} after {known} was known"
            yield Violation("tails move forward", message, proof(earlier.operation, later.operation))
        else:
            message = f"an append got {later.place} after {known} was known as the tail"
            operation = later.entry.acknowledged or later.entry.known_by
            yield Violation("appends follow the tail", message, proof(earlier.operation, operation))


def known_tails_are_readable(history: History) -> Iterator[Violation]:
    """I6: below a tail that was known before, no reader gets the error that it reads past the tail."""
    for read in history.operations(LogRead):
        if isinstance(read.error, BeyondTailError):
            known, witness = floor(history).before(read)
            if read.action.stop <= known:
                message = f"a read up to {read.action.stop} was past the tail, when {known} was known"
                yield Violation("known tails are readable", message, proof(witness, read))


def conditions_hold(history: History) -> Iterator[Violation]:
    """A conditional append lands where it was to land; and it is refused only if something else may be there."""
    for append in history.operations(LogAppend):
        expected = append.action.expected_tail
        if expected is None:
            continue
        if append.returned and append.result.start != expected:
            message = f"an append on condition of tail {expected} got {append.result.start}"
            yield Violation("conditions hold", message, proof(append))
        elif isinstance(append.error, TailMismatchError):
            known, witness = floor(history).before(append)
            yield from _refused_at_a_tail(history, append, append.error)
            other = content(history).entries.at.get(expected)
            if other is not None and append.ended is not None and append.ended < other.started and known >= expected:
                message = f"refused, though the tail was {expected}: {other} came there later"
                yield Violation("conditions hold", message, proof(witness, append, other.known_by))


def _refused_at_a_tail(history: History, append: Operation, error: TailMismatchError) -> Iterator[Violation]:
    """A refusal contains a tail that the log had at some time before its end. If the expected tail
    is still ahead of it, the log may not have reached it before the call; one that has passed
    stays past, whatever the tail is by now."""
    known, witness = floor(history).before(append)
    if error.found < error.expected and error.found < known:
        message = f"refused at tail {error.found}, which is too early for {error.expected}, when {known} was known"
        yield Violation("conditions hold", message, proof(witness, append))
    if append.ended is not None:
        lower, witness = ceiling(history).after(append.ended)
        if error.found > lower:
            message = f"refused at tail {error.found}, not {error.expected}; later the tail was {lower}"
            yield Violation("conditions hold", message, proof(append, witness))


def closed_takes_nothing(history: History) -> Iterator[Violation]:
    """While the log is closed on purpose it takes no appends and its tail is sealed; otherwise its tail is open."""
    closed = list(_closed(history))
    for tail in history.operations(LogCheckTail):
        if tail.returned and isinstance(tail.result, Sealed) and not any(one.allows_sealed(tail) for one in closed):
            message = f"{tail.result}, though no client had closed the log there"
            yield Violation("closed takes nothing", message, proof(tail))
        elif tail.returned and not isinstance(tail.result, Sealed):
            for one in closed:
                if one.since.known < tail.invoked and tail.done < one.opening:
                    message = f"the log was closed with version {one.since.version}, but its tail was {tail.result}"
                    yield Violation("closed takes nothing", message, proof(one.since.known_by, tail))
    for append in history.operations(LogAppend):
        for one in closed if append.returned and append.result else ():
            if append.result[-1] >= one.tail and append.done < one.opening:
                message = f"{append.result} was acknowledged, but the log ended at {one.tail}"
                yield Violation("closed takes nothing", message, proof(append, one.since.known_by))


ORDER_CHECKS: Final[tuple[Check, ...]] = (
    everybody_agrees,
    possible_in_time,
    known_tails_are_readable,
    conditions_hold,
    closed_takes_nothing,
)


def _steps(history: History) -> Iterator[Step]:
    for position, entry in content(history).entries.at.items():
        yield Step(position, _ENTRY, entry.started, entry.seen, str(entry), entry.known_by, entry)
    for tail in history.operations(LogCheckTail):
        if tail.returned:
            yield Step(tail.result.tail, _TAIL, tail.invoked, tail.done, str(tail.result), tail)
    for place, done, witness in _proofs(history):
        yield Step(place, _TAIL, ANY_TIME, done, f"tail {place}", witness)


def _proofs(history: History) -> Iterator[tuple[int, float, Operation]]:
    """Tails proved in passing: (tail, from when on, how)."""
    for read in history.operations(LogRead):
        if read.returned and read.result:
            yield stop_of(read.result[-1]), read.done, read
    for trim in history.operations(LogTrim, LogFindTrimPoint):
        if trim.returned:
            yield trim.result, trim.done, trim
    for known in chains(history).values():
        yield end_of(known.chain), known.known, known.known_by


class Floor:
    """The highest tail that was known at each moment, and who proved it."""

    def __init__(self, history: History) -> None:
        self._since: list[float] = []
        self._highest: list[tuple[int, Operation]] = []
        proofs = [
            *_proofs(history),
            *((tail.result.tail, tail.done, tail) for tail in history.operations(LogCheckTail) if tail.returned),
            *((place + 1, entry.seen, entry.known_by) for place, entry in content(history).entries.at.items()),
        ]
        for place, done, witness in sorted(proofs, key=lambda known: known[1]):
            if witness is not None and (not self._highest or place > self._highest[-1][0]):
                self._since.append(done)
                self._highest.append((place, witness))

    def before(self, operation: Operation) -> tuple[int, Operation | None]:
        """The highest tail proved by what had ended when this operation began."""
        index = bisect.bisect_left(self._since, operation.invoked) - 1
        return self._highest[index] if index >= 0 else (0, None)


floor: Final = once(Floor)


class Ceiling:
    """Lowest tail returned to calls that began at each moment or later."""

    def __init__(self, history: History) -> None:
        self._since: list[int] = []
        """Negative, as the latest comes first."""
        self._lowest: list[Operation] = []
        for tail in reversed(history.operations(LogCheckTail)):
            if tail.returned and (not self._lowest or tail.result.tail < self._lowest[-1].result.tail):
                self._since.append(-tail.invoked)
                self._lowest.append(tail)

    def after(self, event: int) -> tuple[float, Operation | None]:
        """The lowest tail of the checks that began behind this event; infinite if there are none."""
        index = bisect.bisect_left(self._since, -event) - 1
        return (self._lowest[index].result.tail, self._lowest[index]) if index >= 0 else (NEVER, None)


ceiling: Final = once(Ceiling)


@attrs.frozen
class _Closed:
    """The log was closed on purpose, then perhaps opened again."""

    since: Decided
    until: Decided | None

    @property
    def tail(self) -> int:
        return end_of(self.since.chain)

    @property
    def opening(self) -> float:
        """Before this it was surely not open again."""
        return NEVER if self.until is None else self.until.started

    def allows_sealed(self, tail: Operation) -> bool:
        """True if `tail` may have been taken before the log was open again, and after a client
        began to close it."""
        opened = NEVER if self.until is None else self.until.known
        return self.tail == tail.result.tail and self.since.started < tail.done and tail.invoked < opened


def _closed(history: History) -> Iterator[_Closed]:
    known = list(chains(history).values())
    for index, version in enumerate(known):
        if version.chain.active is None:
            yield _Closed(version, next((later for later in known[index:] if later.chain.active is not None), None))
