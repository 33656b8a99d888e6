"""A replica with the whole stack: latency of a lone command, order of callbacks, and metrics."""

from __future__ import annotations

from typing import Any

import attrs
import trio
from trio.testing import MockClock

from tests.database.engines.world import ListApplication, Replicas, caught_up, replicas
from virtuallog.contract.metrics import Counter, Distribution
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.player import items
from virtuallog_database.transaction import StoreTransaction


class Turns(trio.abc.Instrument):
    """Counts turns of the scheduler."""

    count = 0

    def after_io_wait(self, timeout: float) -> None:
        self.count += 1


async def turns_of_a_lone_command(r: Replicas) -> int:
    one = await r.start()
    for number in range(3):  # the first one of an appender finds its segment, and tells the loglet of its session
        await one.propose(b"%d" % number)
    await trio.sleep(0.015)
    turns, counted = Turns(), []
    finished = trio.Event()

    def done(_: Any) -> None:
        counted.append(turns.count)
        finished.set()

    trio.lowlevel.add_instrument(turns)
    one.replica.propose(b"alone", done)
    await finished.wait()
    trio.lowlevel.remove_instrument(turns)
    return counted[0]


async def test_a_lone_command_waits_for_one_turn_besides_those_of_the_loglet(autojump_clock: MockClock) -> None:
    """Its batch starts in the next turn; the loglet in memory takes a turn to reach and, here, two to answer. In the turn in which
    it has answered the command is applied and its proposer told, through all engines."""
    async with replicas() as r:
        assert await turns_of_a_lone_command(r) <= 4


@attrs.define(eq=False)
class Witness(ListApplication):
    """Notes what it hears, and what its proposers hear, in one order."""

    heard: list[str] = attrs.field(factory=list)

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        self.heard.append(f"applied {entry.payload.decode()}")


async def test_a_transaction_of_many_entries_is_seen_by_all_before_anybody_is_told(autojump_clock: MockClock) -> None:
    """Else a client would read what a later command did before the watch event of that has left. Here an own entry is the first of
    three that are played together."""
    async with replicas() as r:
        r.make_application = lambda _: Witness()
        one, two = await r.start(1), await r.start(2)
        heard: list[str] = two.application.heard
        await caught_up(two)
        r.provider.secretive = True
        player = two.replica._base._player
        for number in range(3):
            await one.propose(b"%d" % number)
        entries = await _read(r, two.replica.cursor)
        told: list[int] = []
        two.replica._base._waiting[entries[0][1].headers["base"]] = lambda _: told.append(len(heard))
        player.fetched(entries)
        two.replica._base._work.set()
        await trio.sleep(0.1)

        assert [line for line in heard if line.startswith("applied")] == ["applied 0", "applied 1", "applied 2"]
        assert told == [3]


async def _read(r: Replicas, start: LogPosition) -> list[tuple[LogPosition, Entry]]:
    log = r.world.client()
    tail = LogPosition((await log.check_tail()).tail)
    found = await log.read(start, tail, 1 << 20)
    return [(position, entry) for position, entry in items(found, Counter("x", "x")) if entry is not None]


async def test_what_a_replica_tells_about_itself(autojump_clock: MockClock) -> None:
    """Its cursor, what it has applied, and how long proposals took above each engine."""
    async with replicas() as r:
        one = await r.start()
        for number in range(20):
            await one.propose(b"%d" % number)
        families = {family.name: family for family in one.replica.metrics()}
        statistics = one.replica.statistics()

        assert families["virtuallog_database_cursor"].samples[0].value == statistics.cursor == one.replica.cursor
        assert statistics.entries >= 20
        assert statistics.payload_bytes >= 30
        seconds = {
            sample.labels["engine"]: sample.value for sample in families["virtuallog_database_propose_seconds"].samples
        }
        assert {"base", "session_order", "batching"} <= set(seconds)
        below = seconds["session_order"]
        assert isinstance(below, Distribution)
        assert below.count == 2, "one of 16 proposals is measured, and the first one"


async def test_savepoints_of_a_failed_command_do_not_reach_the_one_before(autojump_clock: MockClock) -> None:
    """Two entries in one transaction: the second fails, and what the first did stays."""
    async with replicas() as r:
        one, two = await r.start(1), await r.start(2)
        results: list[Any] = []
        for payload in (b"a", b"refuse", b"b"):
            one.replica.propose(payload, results.append)
        while len(results) < 3:
            await trio.sleep(0.01)
        await caught_up(two)

        assert one.application.items == two.application.items == [b"a", b"b"]
        assert StoreTransaction(two.application.store).get(b"item/" + (1).to_bytes(8, "big")) == b"b"


async def test_a_replica_that_follows_looks_less_often_while_much_is_written(autojump_clock: MockClock) -> None:
    """Each look costs the same, however much it brings: those that were saved up, then one in 25 ms. After a quiet while it sees at once."""
    async with replicas() as world:
        writer, follower = await world.start(1), await world.start(2)
        await trio.sleep(2.0)
        before = world.provider.reads
        for number in range(500):
            await writer.propose(b"entry %d" % number)
            await trio.sleep(0.002)
        assert 30 <= world.provider.reads - before <= 32 + 45
        assert writer.replica.cursor - follower.replica.cursor <= 15

        await trio.sleep(0.1)
        await writer.propose(b"alone")
        await trio.sleep(0.003)
        assert follower.replica.cursor == writer.replica.cursor
