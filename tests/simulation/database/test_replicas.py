"""Verdicts on trims of a database: transactions of one replica, written by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import attrs
import pytest
from trio.testing import MockClock

from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_database.engines.core import view
from virtuallog_database.engines.core.holds import PlaceHold, place
from virtuallog_database.engines.core.keys import CURSOR, read_cursor
from virtuallog_database.engines.view_tracking import Announce, Eject, announce, eject
from virtuallog_database.ports import LocalStore
from virtuallog_database.transaction import StoreTransaction
from virtuallog_simulation.checks.database.replicas import StateWatch
from virtuallog_simulation.world.store_disk import SimulatedDirectory, StoreDisk

TELLER = NodeId(9)
"""Owner of the store: not one of the replicas that are spoken of, so that their statements about
their disks are not compared."""


@attrs.define
class Replica:
    """A replica that plays the given entries; each entry changes the state at its position."""

    store: LocalStore
    violations: list[Violation]

    def plays(self, *entries: Callable[[StoreTransaction, LogPosition], object]) -> None:
        """All of these in one transaction."""
        transaction, cursor = StoreTransaction(self.store), read_cursor(self.store)
        for position, entry in enumerate(entries, cursor):
            entry(transaction, LogPosition(position))
        transaction.put(CURSOR, (cursor + len(entries)).to_bytes(8, "big"))
        transaction.commit()

    @property
    def found(self) -> list[str]:
        return [violation.message for violation in self.violations]


@pytest.fixture
async def replica(autojump_clock: MockClock) -> Replica:
    violations: list[Violation] = []
    watch, disk, process = StateWatch(History(lambda: 0.0), violations, Counter()), StoreDisk(), Process(TELLER)
    disk.on_write = lambda disk, changes: watch.wrote(TELLER, disk, changes)
    return Replica(await SimulatedDirectory.of(disk, process, SimulatedClock(process)).open(), violations)


def says(name: str, durable: int) -> Callable[[StoreTransaction, LogPosition], object]:
    return lambda transaction, position: announce(transaction, Announce(name, LogPosition(durable), ()), position)


def out(name: str, heard: int) -> Callable[[StoreTransaction, LogPosition], object]:
    return lambda transaction, position: eject(transaction, Eject(name, heard))


def too_far(floor: int) -> Callable[[StoreTransaction, LogPosition], object]:
    """State that a mistake may have made with any entry."""
    record = view._RECORDS.encode(view.Floor(LogPosition(floor)))
    return lambda transaction, position: transaction.put(view._FLOOR, record)


async def test_who_is_ejected_and_comes_back_in_one_transaction_may_need_what_was_allowed_meanwhile(
    replica: Replica,
) -> None:
    """A replica that was away plays its own ejection and, a few entries on, its return at one stroke: others had leave to trim
    between the two, as those know who play them one by one."""
    replica.plays(says("1-a", 0))
    replica.plays(says("2-b", 0))
    replica.plays(says("1-a", 2))
    replica.plays(out("2-b", 1), says("1-a", 3), says("2-b", 1))

    assert view.floor(replica.store) == 3
    assert view.members(replica.store)["2-b"].durable == 1
    assert replica.found == []


async def test_who_was_in_the_view_all_the_time_loses_nothing(replica: Replica) -> None:
    """One transaction or several: what a member has not made durable stays."""
    replica.plays(says("1-a", 0), says("2-b", 1))
    replica.plays(says("1-a", 2), too_far(2))

    assert replica.found == ["2 was allowed, and 2-b needs everything from 1 on"]


async def test_who_has_just_announced_itself_loses_nothing(replica: Replica) -> None:
    """Before an entry that is the first of a transaction no replica was ejected."""
    replica.plays(says("1-a", 0))
    replica.plays(too_far(1))
    replica.plays(lambda *both: (says("1-a", 1)(*both), too_far(2)(*both)))

    assert replica.found == [
        "1 was allowed, and 1-a needs everything from 0 on",
        "2 was allowed, and 1-a needs everything from 1 on",
    ]


async def test_nobody_passes_a_hold(replica: Replica) -> None:
    """Not even one that was placed in the same transaction: it is granted from the floor on, or further on."""
    replica.plays(says("1-a", 0))
    replica.plays(
        lambda transaction, position: place(transaction, PlaceHold("h", LogPosition(1), 0), position), too_far(2)
    )

    assert replica.found == [
        "2 was allowed, and h needs everything from 1 on",
        "2 was allowed, and 1-a needs everything from 0 on",
    ]
