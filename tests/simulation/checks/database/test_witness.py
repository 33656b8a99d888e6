"""The witness order against the slow and obvious way: a search for any order in which one log could have answered so."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from tests.simulation.checks.told_history import LOGLET, batch
from virtuallog.contract.batch import SessionId
from virtuallog.contract.types import Gap, GapKind, Open, PlacedBatch, Sealed
from virtuallog.testing.checker.actions import LogletAppend, LogletRead, LogletSeal, LogletTail
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.linearizability import loglets_are_linearizable

PLACES = 3
"""Few, so that operations get into each other's way."""


def random_history(source: random.Random) -> list[Operation]:
    """Some calls that overlap at random, with results at random: about half of these no log can have given."""
    count = source.randint(2, 5)
    ends = [number for number in range(count) for _ in range(2)]
    source.shuffle(ends)
    times = [(ends.index(number), len(ends) - 1 - ends[::-1].index(number)) for number in range(count)]
    operations = [random_call(source, number, *times[number]) for number in range(count)]
    return sorted(operations, key=lambda operation: operation.invoked)


def random_call(source: random.Random, number: int, start: int, stop: int) -> Operation:
    """An append of an entry of its own, acknowledged or not; a tail; a seal; or a read of one place."""
    kind = source.choice(("append", "append", "append", "tail", "tail", "seal", "read"))
    place = source.randrange(PLACES)
    if kind == "append":
        action = LogletAppend(LOGLET, batch(session(number), 0))
        if source.random() < 0.3:
            return Operation(number, "a", action, start)
        return Operation(number, "a", action, start, stop, range(place, place + 1), returned=True)
    if kind == "tail":
        tail = source.choice((Open, Sealed))(place)
        return Operation(number, "a", LogletTail(LOGLET), start, stop, tail, returned=True)
    if kind == "seal":
        return Operation(number, "a", LogletSeal(LOGLET), start, stop, None, returned=True)
    found = PlacedBatch(range(place, place + 1), batch(session(source.randrange(5)), 0), 0)
    return Operation(number, "a", LogletRead(LOGLET, place, place + 1), start, stop, [found], returned=True)


def session(number: int) -> SessionId:
    return SessionId(bytes([number]) * 16)


def judged(operations: Sequence[Operation]) -> bool:
    """Verdict of the judge."""
    history = History()
    for operation in operations:
        history.add(operation)
    return not list(loglets_are_linearizable(history))


def possible(operations: Sequence[Operation]) -> bool:
    """True if there is any order: the operations left to do, one after the other, on a log that may
    be sparse."""
    places: dict[SessionId, set[int]] = {}
    for operation in operations:
        if isinstance(operation.action, LogletAppend) and operation.returned:
            places.setdefault(operation.action.batch.session, set()).add(operation.result.start)
        elif isinstance(operation.action, LogletRead):
            places.setdefault(operation.result[0].batch.session, set()).add(operation.result[0].start)
    if any(len(known) > 1 for known in places.values()):
        return False
    return _search(list(operations), {name: min(known) for name, known in places.items()}, 0, False, set())


def _search(
    left: list[Operation], places: dict[SessionId, int], tail: int, sealed: bool, landed: set[SessionId]
) -> bool:
    if not any(operation.returned for operation in left):
        return True
    first_end = min(operation.done for operation in left)
    for operation in left:
        if operation.invoked < first_end:
            rest = [other for other in left if other is not operation]
            after = _take(operation, places, tail, sealed, landed)
            if after is not None and _search(rest, places, *after):
                return True
    return False


def _take(
    operation: Operation, places: dict[SessionId, int], tail: int, sealed: bool, landed: set[SessionId]
) -> tuple[int, bool, set[SessionId]] | None:
    """The log after this operation; None if it cannot be the next one."""
    match operation.action:
        case LogletAppend(_, offered):
            place = places.get(offered.session)
            if place is None or place < tail or (sealed and operation.returned):
                return None
            return place + 1, sealed, {*landed, offered.session}
        case LogletTail():
            fits = operation.result.tail >= tail and sealed == isinstance(operation.result, Sealed)
            return (operation.result.tail, sealed, landed) if fits else None
        case LogletSeal():
            return tail, True, landed
        case _:
            return (tail, sealed, landed) if operation.result[0].batch.session in landed else None


def test_the_judge_agrees_with_a_search() -> None:
    """On some thousand small histories, of which enough are possible, and enough are not."""
    source, verdicts = random.Random(7), Counter[bool]()
    for _ in range(6000):
        operations = random_history(source)
        verdict = possible(operations)
        verdicts[verdict] += 1
        assert judged(operations) == verdict, operations

    assert min(verdicts.values()) > 1000


def test_filler_is_nothing_that_a_search_could_find() -> None:
    """A gap over nothing is no contradiction."""
    read = Operation(0, "a", LogletRead(LOGLET, 0, 1), 0, 1, [Gap(0, 1, GapKind.FILLER)], returned=True)

    assert judged([read])
