"""What the history of each loglet must be like: the promises of `virtuallog.api.Loglet`.                       Pure.

They look at every call that the clients of a log, or of a bare loglet, made; so a loglet is caught in the act, even
when nothing visible came of it in the log above.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

import attrs

from simulation.checks.violation import Check, Violation, proof
from simulation.history import History, LogletAppend, LogletRead, LogletSeal, LogletTail, Operation
from virtuallog.chain import SegmentId
from virtuallog.types import Open, Sealed


@attrs.frozen
class _Calls:
    """What was asked of one loglet and answered, in the order in which the calls began."""

    segment: SegmentId
    appends: list[Operation]
    open_tails: list[Operation]
    sealed_tails: list[Operation]
    seals: list[Operation]
    reads: list[Operation]

    @property
    def tails(self) -> list[Operation]:
        return sorted(self.open_tails + self.sealed_tails, key=lambda tail: tail.invoked)


def acknowledged_below_the_stop(history: History) -> Iterator[Violation]:
    """I4: no append is acknowledged at or past a tail that a sealed check_tail returned, before or after."""
    for calls in _by_loglet(history):
        lowest = min(calls.sealed_tails, key=lambda tail: tail.result.tail, default=None)
        for append in calls.appends:
            if lowest is not None and append.result[-1] >= lowest.result.tail:
                yield Violation(
                    "acknowledged below the stop",
                    f"loglet {calls.segment}: {append.result} was acknowledged, the sealed tail is {lowest.result.tail}",
                    proof(append, lowest),
                )


def sealed_takes_nothing(history: History) -> Iterator[Violation]:
    """I4: no append that begins after a seal has returned is acknowledged."""
    for calls in _by_loglet(history):
        for append in calls.appends:
            seal = next((seal for seal in calls.seals if seal.before(append)), None)
            if seal is not None:
                yield Violation(
                    "sealed takes nothing", f"loglet {calls.segment} acknowledged {append.result}", proof(seal, append)
                )


def open_tails_below_the_stop(history: History) -> Iterator[Violation]:
    """The ordering rule: an open tail was read before any seal completed, so no sealed tail is below it."""
    for calls in _by_loglet(history):
        if not calls.open_tails or not calls.sealed_tails:
            continue
        highest = max(calls.open_tails, key=lambda tail: tail.result.tail)
        lowest = min(calls.sealed_tails, key=lambda tail: tail.result.tail)
        if highest.result.tail > lowest.result.tail:
            yield Violation(
                "open tails below the stop",
                f"loglet {calls.segment}: {highest.result} and {lowest.result}",
                proof(highest, lowest),
            )


def loglet_tails_move_forward(history: History) -> Iterator[Violation]:
    """I5, I6: tails never go back, cover what was acknowledged before, and sealed stays sealed."""
    for calls in _by_loglet(history):
        for tail in calls.tails:
            for earlier in calls.tails:
                if earlier.before(tail) and earlier.result.tail > tail.result.tail:
                    yield _backwards(calls, earlier, tail)
                if earlier.before(tail) and isinstance(earlier.result, Sealed) and isinstance(tail.result, Open):
                    yield _backwards(calls, earlier, tail)
            for append in calls.appends:
                if append.before(tail) and append.result[-1] >= tail.result.tail:
                    yield _backwards(calls, append, tail)


def one_batch_per_place(history: History) -> Iterator[Violation]:
    """Two batches never share a place, and one batch never gets two."""
    for calls in _by_loglet(history):
        owners: dict[int, tuple[tuple[bytes, int], Operation]] = {}
        places: dict[tuple[bytes, int], tuple[range, Operation]] = {}
        for append in calls.appends:
            batch = (append.action.session, append.action.sequence)
            for other, operation in {owners.setdefault(place, (batch, append)) for place in append.result}:
                if other != batch:
                    yield Violation("one batch per place", f"two batches at {append.result}", proof(operation, append))
            known, operation = places.setdefault(batch, (append.result, append))
            if known != append.result:
                yield Violation("one batch per place", f"one batch at {known} and {append.result}",
                                proof(operation, append))  # fmt: skip


def acknowledged_is_readable(history: History) -> Iterator[Violation]:
    """I7, I10: all readers of a loglet, and whoever appended to it, agree on which batch lies where."""
    for calls in _by_loglet(history):
        owners: dict[int, tuple[bytes, int, Operation]] = {}
        for append in calls.appends:
            for index, place in enumerate(append.result):
                owners.setdefault(place, (append.action.session, append.action.sequence + index, append))
        for read in calls.reads:
            for places, session, sequence in read.result:
                for index, place in enumerate(places):
                    known = owners.setdefault(place, (session, sequence + index, read))
                    if known[:2] != (session, sequence + index):
                        yield Violation(
                            "acknowledged is readable",
                            f"loglet {calls.segment}: two entries at {place}",
                            proof(known[2], read),
                        )


LOGLET_CHECKS: Final[tuple[Check, ...]] = (
    acknowledged_below_the_stop,
    sealed_takes_nothing,
    open_tails_below_the_stop,
    loglet_tails_move_forward,
    one_batch_per_place,
    acknowledged_is_readable,
)


def _backwards(calls: _Calls, earlier: Operation, later: Operation) -> Violation:
    return Violation(
        "loglet tails move forward",
        f"loglet {calls.segment}: {later.result} after {earlier.result}",
        proof(earlier, later),
    )


def _by_loglet(history: History) -> Iterator[_Calls]:
    def segment(operation: Operation) -> SegmentId:
        found: SegmentId = operation.action.segment
        return found

    operations = [op for op in history.operations(LogletAppend, LogletTail, LogletSeal, LogletRead) if op.returned]
    for segment_id, group in groupby(sorted(operations, key=segment), key=segment):
        calls = list(group)
        yield _Calls(
            segment_id,
            [call for call in calls if isinstance(call.action, LogletAppend)],
            [call for call in calls if isinstance(call.result, Open)],
            [call for call in calls if isinstance(call.result, Sealed)],
            [call for call in calls if isinstance(call.action, LogletSeal)],
            [call for call in calls if isinstance(call.action, LogletRead)],
        )
