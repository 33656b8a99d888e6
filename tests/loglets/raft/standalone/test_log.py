"""The Raft log used by itself: entries and reads, through crashes and partitions."""

from __future__ import annotations

import pytest
import trio

from tests.loglets.raft.standalone.world import playing
from tests.metastore.world import simulated
from virtuallog.contract.batch import ENTRY_BYTES_MAX
from virtuallog.contract.errors import (
    BeyondTailError,
    CorruptionError,
    DiskFullError,
    TooLargeError,
    TrimmedError,
    UnavailableError,
)
from virtuallog.testing.sim.disk_faults import DiskFaults
from virtuallog_loglets.raft.core.transitions import RaftRole
from virtuallog_loglets.raft.standalone.client import RaftLogEntry
from virtuallog_loglets.raft.standalone.log import ReplicatedLog


@simulated
async def test_entries_have_offsets_in_the_order_of_their_appends() -> None:
    """Through any replica, from 0 on; records without entries take none."""
    async with playing() as world:
        one, two, three = await world.found(3)

        assert [await machine.log.append(b"%d" % n) for n, machine in enumerate((one, two, three, two))] == [0, 1, 2, 3]
        assert await three.log.check_tail() == 4
        assert await three.log.read(1, 3, linearizable=True) == [RaftLogEntry(1, b"1"), RaftLogEntry(2, b"2")]


@simulated
async def test_a_log_of_one_store_needs_no_other() -> None:
    """It elects itself at once, also after a restart, and has what it has acknowledged."""
    async with playing() as world:
        (one,) = await world.found(1)
        await one.log.append(b"a")
        world.crash(one)
        await world.start(one)

        assert await one.log.append(b"b") == 1
        assert await one.entries() == [b"a", b"b"]
        assert one.local.standing.term == 2


@simulated
async def test_appends_at_the_same_time_are_each_there_once() -> None:
    """Their order is open, but each has an offset of its own."""
    async with playing() as world:
        one, two, _ = await world.found(3)
        offsets = list[int]()

        async def append(data: bytes) -> None:
            offsets.append(await two.log.append(data))

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(append, b"%d" % number)

        assert sorted(offsets) == list(range(40))
        assert sorted(await one.entries(linearizable=True)) == sorted(b"%d" % number for number in range(40))


@simulated
async def test_an_append_outlives_its_leader() -> None:
    """The leader dies with the append on its way; another one is elected, and does it once."""
    async with playing() as world:
        one, two, three = await world.found(3)
        await two.log.append(b"a")
        world.crash(one)

        assert await two.log.append(b"b") == 1
        assert RaftRole.LEADER in (two.role, three.role)
        await world.start(one)
        await two.log.append(b"c")
        assert await one.entries(linearizable=True) == [b"a", b"b", b"c"]


@simulated
async def test_a_follower_that_is_cut_off_reads_what_it_knows() -> None:
    """An eventually consistent read asks no other replica; a linearizable one waits for a leader that it cannot reach."""
    async with playing() as world:
        one, _, three = await world.found(3)
        await one.log.append(b"a")
        assert await three.entries(linearizable=True) == [b"a"]
        world.isolate(three)
        await one.log.append(b"b")

        assert await three.entries() == [b"a"]
        with pytest.raises(UnavailableError):
            await three.entries(linearizable=True)

        world.isolate(three, blocked=False)
        assert await three.entries(linearizable=True) == [b"a", b"b"]


@simulated
async def test_a_leader_that_was_deposed_gives_no_linearizable_read() -> None:
    """It still believes that it leads: a majority must confirm it first. Its eventual reads are of the past."""
    async with playing() as world:
        one, two, _ = await world.found(3)
        await one.log.append(b"a")
        world.isolate(one)
        assert one.role is RaftRole.LEADER
        failed = list[UnavailableError]()

        async def read() -> None:
            try:
                await one.entries(linearizable=True)
            except UnavailableError as error:
                failed.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            assert await two.log.append(b"b") == 1

        assert len(failed) == 1
        assert await one.entries() == [b"a"]
        assert await two.entries() in ([b"a"], [b"a", b"b"])


@simulated
async def test_what_is_trimmed_cannot_be_read() -> None:
    """The error names the first offset that is left; a trim beyond the tail does nothing."""
    async with playing() as world:
        one, two, three = await world.found(3)
        for data in (b"a", b"b", b"c"):
            await one.log.append(data)
        with pytest.raises(BeyondTailError):
            await two.log.trim(4)
        await two.log.trim(2)
        await world.until(lambda: three.local.standing.trim == 2)

        for machine in (one, two, three):
            with pytest.raises(TrimmedError) as refused:
                await machine.entries(linearizable=True)
            assert refused.value.first == 2
            assert await machine.entries(start=2) == [b"c"]


@simulated
async def test_an_entry_that_is_too_large_is_refused_before_it_leaves() -> None:
    """The next append is not disturbed."""
    async with playing() as world:
        (one,) = await world.found(1)
        with pytest.raises(TooLargeError):
            await one.log.append(bytes(ENTRY_BYTES_MAX + 1))

        assert await one.log.append(b"a") == 0


@simulated
async def test_a_cancelled_append_does_not_hold_up_the_next() -> None:
    """Its outcome is unknown: here it is done once a majority is back, and never twice."""
    async with playing() as world:
        one, two, three = await world.found(3)
        world.isolate(two)
        world.isolate(three)
        with trio.move_on_after(0.2) as scope:  # noqa: TID251 -- simulated
            await one.log.append(b"a")
        assert scope.cancelled_caught
        world.isolate(two, blocked=False)
        world.isolate(three, blocked=False)

        await one.log.append(b"b")
        assert await one.entries(linearizable=True) in ([b"b"], [b"a", b"b"])


@simulated
async def test_a_client_of_no_store_finds_the_members() -> None:
    """It knows one store; that one dies, and the client goes on with the others."""
    async with playing() as world:
        one, _, three = await world.found(3)
        client = world.client(three)
        assert await client.append(b"a") == 0
        world.crash(three)

        assert await client.append(b"b") == 1
        assert [entry.data for entry in await client.read(0, linearizable=True)] == [b"a", b"b"]
        assert [row.role for row in await client.status()].count("silent") == 1
        assert one.role is RaftRole.LEADER


@simulated
async def test_entries_can_be_read_while_no_store_leads() -> None:
    """From a store that answers: what it knows. A linearizable read waits for a leader in vain."""
    async with playing() as world:
        one, two, three = await world.found(3)
        await one.log.append(b"a")
        assert await three.entries(linearizable=True) == [b"a"]
        client = world.client(three)
        world.crash(one, two)
        await world.until(lambda: three.local.standing.leader == 0)

        assert [entry.data for entry in await client.read(0)] == [b"a"]
        with pytest.raises(UnavailableError):
            await client.read(0, linearizable=True)


@simulated
async def test_a_status_says_role_state_and_lag() -> None:
    """In the words of YugabyteDB; a store that is cut off is silent."""
    async with playing() as world:
        one, two, three = await world.found(3)
        world.isolate(three)
        await one.log.append(b"a")
        rows = {row.store: row for row in await one.log.status()}

        assert (rows[one.store].role, rows[one.store].state, rows[one.store].lag) == ("LEADER", "RUNNING", 0)
        assert (rows[two.store].role, rows[two.store].kind) == ("FOLLOWER", "VOTER")
        assert (rows[three.store].role, rows[three.store].lag, rows[three.store].kind) == ("silent", None, "VOTER")
        assert rows[one.store].leader == one.store
        world.isolate(three, blocked=False)
        await three.log.read(0, linearizable=True)
        lags = [row.lag for row in await three.log.status()]
        assert None not in lags


@simulated
async def test_a_full_disk_holds_up_appends_and_nothing_else() -> None:
    """The error says so, for a log of one store and for one of three, and the same leader goes on once there is room: an
    election would take room as well. What was acknowledged can be read, and the tail can be checked."""
    for stores in (1, 3):
        async with playing() as world:
            one, *others = await world.found(stores)
            world.faults.capacity_bytes, offsets = 96 << 10, list[int]()

            async def fill(log: ReplicatedLog, offsets: list[int]) -> None:
                while True:
                    offset = await log.append(bytes(4000))
                    offsets.append(offset)

            with pytest.raises(DiskFullError, match="full"):
                await fill(one.log, offsets)
            term = (await one.log.status())[0].term
            for _ in range(50):
                with pytest.raises(DiskFullError, match="full"):
                    await one.log.append(bytes(4000))

            assert {row.term for row in await one.log.status()} == {term}
            assert term <= 1 + stores
            assert one.local.standing.full
            assert len(await one.entries(linearizable=True)) >= len(offsets) > 0
            for disk in (machine.disks["raft"] for machine in (one, *others)):
                disk.faults.capacity_bytes = None
            await trio.sleep(3)  # noqa: TID251 -- simulated: they look for room now and then
            assert await one.log.append(b"again") >= len(offsets)
            assert (await one.entries(linearizable=True))[-1] == b"again"
            assert {row.term for row in await one.log.status()} == {term}


@simulated
async def test_a_leader_with_a_full_disk_leaves_the_lead_to_another() -> None:
    """Only its own disk is full; the log goes on, and it does not stand again."""
    async with playing() as world:
        one, two, three = await world.found(3)
        one.disks["raft"].faults = DiskFaults(capacity_bytes=one.disks["raft"].used_bytes)
        for _ in range(20):
            await two.log.append(bytes(4000))

        assert one.local.standing.full
        assert one.role is not RaftRole.LEADER
        assert len(await three.entries(linearizable=True)) == 20
        assert two.local.standing.term == 2


@simulated
async def test_a_majority_of_full_disks_holds_up_appends_under_a_leader_that_has_room() -> None:
    """It goes on to lead, refuses appends as long as the others have no room, and needs no election when they have."""
    async with playing() as world:
        one, two, three = await world.found(3)
        for machine in (two, three):
            machine.disks["raft"].faults = DiskFaults(capacity_bytes=machine.disks["raft"].used_bytes)

        async def fill() -> None:
            for _ in range(20):
                await one.log.append(bytes(4000))

        with pytest.raises((DiskFullError, UnavailableError)):
            await fill()  # the last one may be in the log of the leader
        for _ in range(20):
            with pytest.raises(DiskFullError, match="full"):
                await two.log.append(bytes(4000))
        assert (one.role, one.local.standing.term) == (RaftRole.LEADER, 1)

        two.disks["raft"].faults = DiskFaults()
        await trio.sleep(3)  # noqa: TID251 -- simulated
        offset = await two.log.append(b"again")
        assert (await two.entries(linearizable=True, start=offset)) == [b"again"]
        assert (one.role, one.local.standing.term) == (RaftRole.LEADER, 1)


@simulated
async def test_leader_whose_log_has_ended_is_followed_by_another() -> None:
    """Its disk has rotted where no client reads, and its process goes on. It serves no store any more, so it must send no heartbeats:
    the others would follow it for ever. A caller that waits gets the error."""
    async with playing() as world:
        one, two, three = await world.found(3)
        await one.log.append(b"a")
        one.log.fail(CorruptionError("rot"))

        await world.until(lambda: RaftRole.LEADER in (two.role, three.role))
        assert await two.log.append(b"b") == 1
        with pytest.raises(CorruptionError):
            await one.log.running()
