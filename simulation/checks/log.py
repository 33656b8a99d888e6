"""What a history of a log must be like, whatever happened to the cluster.                                      Pure.

One function per promise; each yields the ways in which the history breaks it. They know the promises of
`virtuallog.api` and nothing of how the workload came about. docs/testing.md says which invariant each one holds
(I1 to I10 there). Checks of one loglet are in `loglet_checkers.py`, of the chain in `chain_checkers.py`.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from typing import Final

from simulation.checks.violation import Check, Violation, proof
from simulation.history import Append, CheckTail, History, Operation, Read, Trim
from virtuallog.types import Data, Gap, GapKind


def one_entry_per_position(history: History) -> Iterator[Violation]:
    """All readers, and whoever appended it, agree on what lies at a position."""
    seen: dict[int, tuple[Data, Operation]] = {}
    for operation, data in _data_read(history):
        known = seen.setdefault(int(data.position), (data, operation))
        if known[0] != data:
            yield Violation(
                "one entry per position",
                f"position {data.position}: {_show(known[0])} and {_show(data)}",
                proof(known[1], operation),
            )
    acknowledged: dict[int, tuple[bytes, Operation]] = {}
    for append, position, payload in _acknowledged(history):
        known_payload, other = acknowledged.setdefault(position, (payload, append))
        if known_payload != payload:
            yield Violation("one entry per position", f"two appends got position {position}", proof(other, append))
        if position in seen and seen[position][0].payload != payload:
            yield Violation(
                "one entry per position",
                f"position {position}: {payload!r} was acknowledged there, {_show(seen[position][0])} was read",
                proof(append, seen[position][1]),
            )


def acknowledged_survives(history: History) -> Iterator[Violation]:
    """I10: a read that begins after the acknowledgement finds the entry, or a gap because somebody trimmed it."""
    trims = [trim for trim in history.operations(Trim) if not trim.failed]
    positions = sorted((position, append.number, append) for append, position, _ in _acknowledged(history))
    for read in _reads(history):
        for record in read.result:
            if not isinstance(record, Gap):
                continue
            low = bisect.bisect_left(positions, (record.start,))
            high = bisect.bisect_left(positions, (record.stop,))
            for position, _, append in positions[low:high]:
                trimmed = record.kind is GapKind.TRIMMED and _may_be_trimmed(trims, position, read)
                if not trimmed and append.before(read):
                    yield Violation(
                        "acknowledged survives",
                        f"position {position} was acknowledged, later read as a gap ({record.kind.value})",
                        proof(append, read),
                    )


def reads_without_holes(history: History) -> Iterator[Violation]:
    """What a read returns begins at its start and covers every position once, in order; nothing is ever lost."""
    for read in _reads(history):
        expected = read.action.start
        for record in read.result:
            start, stop = (record.start, record.stop) if isinstance(record, Gap) else (record.position, None)
            if start != expected:
                yield Violation("reads without holes", f"found {start} where {expected} was due", proof(read))
            if isinstance(record, Gap) and record.kind is GapKind.LOST:
                yield Violation("reads without holes", f"[{start}, {stop}) is reported as lost", proof(read))
            expected = start + 1 if stop is None else stop
        if not read.result or expected > read.action.stop:
            yield Violation("reads without holes", f"{len(read.result)} records, up to {expected}", proof(read))


def tails_move_forward(history: History) -> Iterator[Violation]:
    """I5, I6: a tail is never below what was acknowledged, read or returned as a tail before the call."""
    floor = _Floor(history)
    for tail in history.operations(CheckTail):
        if tail.returned:
            lowest, witness = floor.before(tail)
            if tail.result.tail < lowest and witness is not None:
                yield Violation(
                    "tails move forward", f"tail {tail.result.tail} after {lowest} was known", proof(witness, tail)
                )


def appends_follow_the_tail(history: History) -> Iterator[Violation]:
    """An append that begins after a position was known to be written gets a later one."""
    floor = _Floor(history)
    for append in history.operations(Append):
        if append.returned:
            lowest, witness = floor.before(append)
            if append.result.start < lowest and witness is not None:
                yield Violation(
                    "appends follow the tail",
                    f"an append got {append.result.start} after {lowest} was known as the tail",
                    proof(witness, append),
                )


def entries_in_order_and_once(history: History) -> Iterator[Violation]:
    """Exactly once: the entries of a session stand in the log in order, and no entry stands in it twice."""
    found = {int(data.position): (data, read) for read, data in _data_read(history)}
    newest: dict[bytes, tuple[Data, Operation]] = {}
    places: dict[bytes, int] = {}
    for position in sorted(found):
        data, read = found[position]
        earlier = newest.get(data.session)
        if earlier is not None and data.sequence <= earlier[0].sequence:
            yield Violation(
                "entries in order and once", f"{_show(earlier[0])} stands before {_show(data)}", proof(earlier[1], read)
            )
        newest[data.session] = data, read
        if places.setdefault(data.payload, position) != position:
            yield Violation(
                "entries in order and once",
                f"{data.payload!r} stands at {places[data.payload]} and at {position}",
                proof(found[places[data.payload]][1], read),
            )


def nothing_invented(history: History) -> Iterator[Violation]:
    """Every entry that is read was offered by an append that had begun, and had not surely failed."""
    offered = {payload: append for append in history.operations(Append) for payload in append.action.payloads}
    for read, data in _data_read(history):
        append = offered.get(data.payload)
        if append is None or append.failed or append.invoked > (read.ended or 0):
            yield Violation("nothing invented", f"{_show(data)} was never offered, or had failed", proof(read))


def trims_are_modest(history: History) -> Iterator[Violation]:
    """A trim point only moves forward, and never past what was asked for."""
    trims = history.operations(Trim)
    for trim in trims:
        if trim.returned:
            asked = max(other.action.position for other in trims if other.invoked < (trim.ended or 0))
            if trim.result > asked:
                yield Violation("trims are modest", f"trimmed to {trim.result}, asked for {asked}", proof(trim))


LOG_CHECKS: Final[tuple[Check, ...]] = (
    one_entry_per_position,
    acknowledged_survives,
    reads_without_holes,
    tails_move_forward,
    appends_follow_the_tail,
    entries_in_order_and_once,
    nothing_invented,
    trims_are_modest,
)


class _Floor:
    """The highest tail that was known at each moment, and who proved it."""

    def __init__(self, history: History) -> None:
        self._ends: list[int] = []
        self._best: list[tuple[int, Operation]] = []
        for operation in sorted(_proofs_of_tail(history), key=lambda operation: operation.ended or 0):
            value = _tail_proved_by(operation)
            if not self._best or value > self._best[-1][0]:
                self._ends.append(operation.ended or 0)
                self._best.append((value, operation))

    def before(self, operation: Operation) -> tuple[int, Operation | None]:
        """The highest tail proved by an operation that ended before this one began."""
        index = bisect.bisect_left(self._ends, operation.invoked) - 1
        return self._best[index] if index >= 0 else (0, None)


def _proofs_of_tail(history: History) -> Iterable[Operation]:
    return [operation for operation in history.operations(Append, CheckTail, Read) if operation.returned]


def _tail_proved_by(operation: Operation) -> int:
    if isinstance(operation.action, Append):
        positions: range = operation.result
        return positions[-1] + 1
    if isinstance(operation.action, CheckTail):
        tail: int = operation.result.tail
        return tail
    return max((record.position + 1 for record in operation.result if isinstance(record, Data)), default=0)


def _may_be_trimmed(trims: list[Operation], position: int, read: Operation) -> bool:
    return any(trim.action.position > position and trim.invoked < (read.ended or 0) for trim in trims)


def _reads(history: History) -> list[Operation]:
    return [read for read in history.operations(Read) if read.returned]


def _data_read(history: History) -> Iterator[tuple[Operation, Data]]:
    for read in _reads(history):
        for record in read.result:
            if isinstance(record, Data):
                yield read, record


def _acknowledged(history: History) -> Iterator[tuple[Operation, int, bytes]]:
    for append in history.operations(Append):
        if append.returned:
            for position, payload in zip(append.result, append.action.payloads, strict=True):
                yield append, position, payload


def _show(data: Data) -> str:
    return f"{data.payload!r} ({data.session.hex()[:8]} #{data.sequence} at {data.position})"
