"""The checker of loglet histories: each test is one history, call by call."""

from __future__ import annotations

from typing import Any

import pytest

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.types import Gap, GapKind, Open, PlacedBatch, Sealed, Tail
from virtuallog.testing.checker.actions import LogletAppend, LogletRead, LogletSeal, LogletTail, LogletTrim
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.linearizability import check_log
from virtuallog.testing.checker.recorders import ONLY_SEGMENT

UNKNOWN = float("inf")
A, B = SessionId(b"a" * 16), SessionId(b"b" * 16)


def batch(session: SessionId, first: int, count: int = 1) -> Batch:
    return Batch.build(session, first, [b"%d" % (first + index) for index in range(count)])


def call(times: tuple[int, float], action: Any, result: Any = None, *, failed: bool = False) -> Operation:
    """Make a call of a client. One that never ended, or failed so, may have happened."""
    ended = None if times[1] == UNKNOWN else int(times[1])
    returned = ended is not None and not failed and not (isinstance(action, LogletAppend) and result is None)
    return Operation(0, "client", action, times[0], ended, result, returned=returned, failed=failed)


def append(
    times: tuple[int, float], offered: Batch, places: range | None = None, *, refused: bool = False
) -> Operation:
    return call(times, LogletAppend(ONLY_SEGMENT, offered), places, failed=refused)


def tail(times: tuple[int, int], answer: Tail, *, lagging: bool = False) -> Operation:
    return call(times, LogletTail(ONLY_SEGMENT, lagging), answer)


def seal(times: tuple[int, float]) -> Operation:
    return call(times, LogletSeal(ONLY_SEGMENT))


def read(times: tuple[int, int], start: int, stop: int, *items: PlacedBatch | Gap) -> Operation:
    return call(times, LogletRead(ONLY_SEGMENT, start, stop), list(items))


def trim(times: tuple[int, float], requested: int, trim_point: int) -> Operation:
    return call(times, LogletTrim(ONLY_SEGMENT, requested), trim_point)


def placed(at: int, which: Batch) -> PlacedBatch:
    return PlacedBatch(range(at, at + which.count), which, time_ms=0)


A0, A1, B0 = batch(A, 0), batch(A, 1), batch(B, 0)
A0_INSTEAD = Batch.build(A, 0, [b"another entry with the numbers of A0"])

LOGS: dict[str, list[Operation]] = {
    "nothing happened": [],
    "one after the other": [append((1, 2), A0, range(1)), tail((3, 4), Open(1)), append((5, 6), A1, range(1, 2))],
    "overlapping appends in either order": [append((1, 4), A0, range(1, 2)), append((2, 3), B0, range(1))],
    "a tail that overlaps an append may miss it": [append((1, 4), A0, range(1)), tail((2, 3), Open(0))],
    "or see it": [append((1, 4), A0, range(1)), tail((2, 3), Open(1))],
    "a maybe that landed": [append((1, UNKNOWN), A0), read((2, 3), 0, 1, placed(0, A0))],
    "a maybe that did not": [append((1, UNKNOWN), A0), tail((2, 3), Open(0)), seal((4, 5)), tail((6, 7), Sealed(0))],
    "a maybe that landed long after": [
        append((1, UNKNOWN), A0), tail((2, 3), Open(0)), append((4, 5), B0, range(1)), read((6, 7), 1, 2, placed(1, A0)),
    ],
    "offered twice, placed once": [append((1, UNKNOWN), A0), append((3, 4), A0, range(1)), tail((5, 6), Open(1))],
    "acknowledged during the seal, below its tail": [
        seal((1, 4)), append((2, 5), A0, range(1)), tail((6, 7), Sealed(1)),
    ],
    "a sealed tail that grows with a zombie": [
        append((1, UNKNOWN), A0), seal((2, 3)), tail((4, 5), Sealed(0)), tail((6, 7), Sealed(1)),
        read((8, 9), 0, 1, placed(0, A0)),
    ],
    "a wait that lags": [append((1, 2), A0, range(1)), seal((3, 4)), tail((5, 6), Open(0), lagging=True)],
    "a striped log": [
        append((1, 9), batch(A, 0, 2), range(0, 4, 2)), append((2, 8), batch(B, 0, 2), range(1, 5, 2)),
    ],
    "numbers that were refused, used for another batch": [
        append((1, 2), A0, refused=True), append((3, 4), A0_INSTEAD, range(1)), read((5, 6), 0, 1, placed(0, A0_INSTEAD)),
    ],
    "trimmed where a client asked": [
        append((1, 2), A0, range(1)), trim((3, 4), 9, 1), read((5, 6), 0, 1, Gap(0, 1, GapKind.TRIMMED)),
    ],
}  # fmt: skip


def history_of(operations: list[Operation]) -> History:
    history = History()
    for operation in sorted(operations, key=lambda operation: operation.invoked):
        history.add(operation)
    return history


@pytest.mark.parametrize("operations", LOGS.values(), ids=LOGS)
def test_what_a_log_may_do(operations: list[Operation]) -> None:
    """One log can have answered so, even if it looks strange."""
    check_log(history_of(operations))


NO_LOGS: dict[str, tuple[str, list[Operation]]] = {
    "two entries at one place": ("at place 0, where", [append((1, 2), A0, range(1)), append((3, 4), B0, range(1))]),
    "one entry at two places": (
        "it is at 0 as well",
        [append((1, 2), A0, range(1)), read((3, 4), 1, 2, placed(1, A0))],
    ),
    "an acknowledgement and a read that disagree": (
        "a read puts",
        [append((1, 2), A0, range(1)), append((3, UNKNOWN), B0), read((5, 6), 0, 1, placed(0, B0))],
    ),
    "an entry from nowhere": ("no client had offered", [read((1, 2), 0, 1, placed(0, A0))]),
    "an entry from the future": ("no client had offered", [read((1, 2), 0, 1, placed(0, A0)), append((3, 4), A0)]),
    "an entry that was refused": (
        "had been refused",
        [append((1, UNKNOWN), A0, refused=True), read((2, 3), 0, 1, placed(0, A0))],
    ),
    "a batch that was refused, in place of another with its numbers": (
        "no client had offered",
        [
            append((1, 2), A0, refused=True), append((3, 4), A0_INSTEAD, range(1)),
            read((5, 6), 0, 1, placed(0, A0)),
        ],
    ),
    "a later append at an earlier place": (
        "stands before",
        [append((1, 2), A0, range(1, 2)), append((3, 4), B0, range(1))],
    ),
    "a session out of order": (
        "comes after a later one",
        [append((1, 9), A1, range(1)), append((2, 8), A0, range(1, 2))],
    ),
    "a tail that misses an acknowledged entry": (
        "stands before",
        [append((1, 2), A0, range(1)), tail((3, 4), Open(0))],
    ),
    "a tail that goes back": (
        "stands before",
        [append((1, UNKNOWN), A0), tail((2, 3), Open(1)), tail((4, 5), Open(0))],
    ),
    "an append below a tail that was seen": ("stands before", [tail((1, 2), Open(1)), append((3, 4), A0, range(1))]),
    "an append that began after the seal": (
        "stands before the seal",
        [seal((1, 2)), append((3, 4), A0, range(1))],
    ),
    "open after the seal": ("stands before the seal", [seal((1, 2)), tail((3, 4), Open(0))]),
    "sealed, though no client sealed": ("before any seal", [tail((1, 2), Sealed(0))]),
    "sealed before anybody sealed": ("stands before", [tail((1, 2), Sealed(0)), seal((3, 4))]),
    "acknowledged past a sealed tail": (
        "before the seal (behind entry 0",
        [append((1, 9), A0, range(1)), seal((2, 3)), tail((4, 5), Sealed(0))],
    ),
    "a sealed tail that shrinks": (
        "stands before",
        [append((1, UNKNOWN), A0), seal((2, 3)), tail((4, 5), Sealed(1)), tail((6, 7), Sealed(0))],
    ),
    "the seal bit read before the tail": (
        "before the seal (behind Open(tail=1))",
        [
            append((1, UNKNOWN), A0), tail((2, 8), Open(1)), seal((3, 4)), tail((5, 6), Sealed(0)),
            read((9, 10), 0, 1, placed(0, A0)),
        ],
    ),
    "a hole in a read": ("has a hole", [append((1, 2), batch(A, 0, 2), range(2)), read((3, 4), 0, 2, placed(1, A1))]),
    "filler over an entry": (
        "was read where entry 0",
        [append((1, 2), A0, range(1)), read((3, 4), 0, 1, Gap(0, 1, GapKind.FILLER))],
    ),
    "trimmed, though no client asked": (
        "no client had asked",
        [append((1, 2), A0, range(1)), read((3, 4), 0, 1, Gap(0, 1, GapKind.TRIMMED)), trim((5, 6), 1, 1)],
    ),
    "a trim point that goes back": ("went back from 1 to 0", [trim((1, 2), 1, 1), trim((3, 4), 0, 0)]),
    "too few places": ("was given places", [append((1, 2), batch(A, 0, 2), range(1))]),
}  # fmt: skip


@pytest.mark.parametrize(("message", "operations"), NO_LOGS.values(), ids=NO_LOGS)
def test_what_no_log_can_do(message: str, operations: list[Operation]) -> None:
    """The contradiction is found and named."""
    with pytest.raises(AssertionError) as caught:
        check_log(history_of(operations))

    assert message in str(caught.value)
