"""Consistency of one versioned register: judges the history of many clients of one MetaStore.

Versions are a witness (`witness_order.py`): they give the order in which the puts took effect, and
a get stands behind the put of the version that it returned. It remains to check that all agree on
the value of a version, that no lost put is in the register, and that the order is possible in time.
Invariant I2 of our notes on Delos.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from virtuallog.contract.errors import ChainConflictError
from virtuallog.testing.checker.actions import RegisterGet, RegisterPut
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.violation import Check, Violation, demand, proof
from virtuallog.testing.checker.witness_order import ANY_TIME, Step, in_order, out_of_time

_PUT, _GET = range(2)


def check_register(history: History) -> None:
    """Check a register's history. Raises AssertionError with the first contradiction."""
    demand(history, *REGISTER_CHECKS)


def one_value_per_version(history: History) -> Iterator[Violation]:
    """No two clients ever disagree on the value of a version; version 0 is empty."""
    decided: dict[int, tuple[bytes, Operation | None]] = {0: (b"", None)}
    for operation in history.operations(RegisterGet, RegisterPut):
        if operation.returned:
            version, value = operation.result if type(operation.action) is RegisterGet else _offer(operation)
            known, first = decided.setdefault(version, (value, operation))
            if known != value:
                message = f"version {version} has two values: {known[:40]!r} and {value[:40]!r}"
                yield Violation("one value per version", message, proof(first, operation))


def one_winner_per_version(history: History) -> Iterator[Violation]:
    """One of all attempts at a version wins; all puts of one attempt get the same answer."""
    winners: dict[int, Operation] = {}
    puts = history.operations(RegisterPut)
    for put in puts:
        if put.returned:
            winner = winners.setdefault(put.action.version, put)
            if put.result != put.action.version:
                yield Violation("one winner per version", f"{_told(put)} became version {put.result}", proof(put))
            if winner.action.attempt != put.action.attempt:
                message = f"{_told(put)} won, and so did {winner.action.attempt:x}"
                yield Violation("one winner per version", message, proof(winner, put))
    for put in puts:
        if isinstance(put.error, ChainConflictError):
            winner_or_none = winners.get(put.action.version)
            if winner_or_none is not None and winner_or_none.action.attempt == put.action.attempt:
                message = f"{_told(put)} was told that it won and that it lost"
                yield Violation("one winner per version", message, proof(winner_or_none, put))
            if put.error.found < put.action.version:
                message = f"{_told(put)} lost against version {put.error.found}"
                yield Violation("one winner per version", message, proof(put))


def refused_stays_refused(history: History) -> Iterator[Violation]:
    """A decided value was put by a client that was not told that it lost.

    Two clients may put equal bytes (both close the log at the same place): then one of them may
    have won.
    """
    alive: dict[tuple[int, bytes], Operation] = {}
    puts = history.operations(RegisterPut)
    lost = {(put.action.version, put.action.attempt) for put in puts if put.failed}
    for put in puts:
        if (put.action.version, put.action.attempt) not in lost:
            alive.setdefault(_offer(put), put)
    for get in history.operations(RegisterGet):
        if get.returned and get.result[0]:
            put_or_none = alive.get(get.result)
            if put_or_none is None or put_or_none.invoked > get.done:
                message = f"version {get.result[0]} has a value that only lost puts offered, or no client"
                lost_put = next((put for put in puts if _offer(put) == get.result), None)
                yield Violation("refused stays refused", message, proof(lost_put, get))


def versions_move_forward(history: History) -> Iterator[Violation]:
    """No client gets or puts an older version than one that any client knew before the call."""
    for later, earlier in out_of_time(in_order(_steps(history))):
        message = f"{later.what} returned version {later.place} when {earlier.place} was known"
        yield Violation("versions move forward", message, proof(earlier.operation, later.operation))


def clients_move_forward(history: History) -> Iterator[Violation]:
    """The versions that one client sees never go back, not even between overlapping calls."""
    newest: dict[str, Operation] = {}
    for get in sorted(history.operations(RegisterGet), key=lambda get: get.done):
        if get.returned:
            before = newest.get(get.client, get)
            if before.result[0] > get.result[0]:
                message = f"client {get.client} saw version {before.result[0]}, then {get.result[0]}"
                yield Violation("versions of a client move forward", message, proof(before, get))
            newest[get.client] = get


REGISTER_CHECKS: Final[tuple[Check, ...]] = (
    one_winner_per_version,
    one_value_per_version,
    refused_stays_refused,
    versions_move_forward,
    clients_move_forward,
)


def _steps(history: History) -> Iterator[Step]:
    for get in history.operations(RegisterGet):
        if get.returned:
            yield Step(get.result[0], _GET, get.invoked, get.done, f"get by client {get.client}", get)
    first_offer: dict[int, Operation] = {}
    for put in history.operations(RegisterPut):
        first = first_offer.setdefault(put.action.attempt, put)
        if put.returned:
            yield Step(put.action.version, _PUT, first.invoked, put.done, _told(put), put)
        elif isinstance(put.error, ChainConflictError) and put.ended is not None:
            yield Step(put.error.found, _GET, ANY_TIME, put.ended, _told(put), put)


def _offer(put: Operation) -> tuple[int, bytes]:
    return put.action.version, put.action.value


def _told(put: Operation) -> str:
    return f"attempt {put.action.attempt:x} for version {put.action.version}"
