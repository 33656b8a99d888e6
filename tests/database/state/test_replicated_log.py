"""State in the replicated log of Mesos: what the log holds, lost answers, and writers that are turned out."""

from __future__ import annotations

import random
from functools import partial
from itertools import permutations

import pytest
import trio

from tests.database.state.clients import storages
from tests.database.state.history import History
from tests.database.state.log_world import ONE, held, state, stored, value
from tests.loglets.paxos.interception import Caught
from tests.loglets.paxos.world import World, playing
from tests.metastore.world import simulated
from virtuallog.contract.errors import StorageError, UnavailableError
from virtuallog.testing.sim.links import LinkQuality
from virtuallog_database.state.core.log_records import DiffRecord, SnapshotRecord
from virtuallog_database.state.errors import OutcomeUnknownError, StaleVersionError
from virtuallog_database.state.storages.replicated_log import ReplicatedLogStorage
from virtuallog_database.state.variable import Variable
from virtuallog_loglets.paxos.messages import PaxosWrite, Promise

MANY = 1024
LATE_SECONDS = 60.0
FAULTY = LinkQuality(
    tail_probability=0.1, tail_seconds=1.0, loss=0.05, duplicate=0.1, replay=0.1, reorder=0.1, refuse=0.0
)


def unheard(world: World, writer: int) -> list[Caught]:
    """From now on this writer hears no answer to what it writes. The replicas accept it."""
    return [world.catch(PaxosWrite, to=node, sender=writer, answers=True) for node in (1, 2, 3)]


def lift(caught: list[Caught]) -> None:
    for each in caught:
        each.lift()


def set_quality(world: World, quality: LinkQuality) -> None:
    for one, other in permutations(world.members, 2):
        world.network.link(one, other).quality = quality


# -- the cases of Mesos, src/tests/state_tests.cpp ----------------------------------------------------------------------


@simulated
async def test_timeout() -> None:
    """The peers are gone: a store that is given up after five seconds is discarded. Once they are back, the next store goes on, and the
    discarded one is in the log or not, for good."""
    async with playing(replicas=3) as world:
        storage, *_ = await storages(world, 1, 2, 3)
        first = await stored(storage, "slaves", b"first")
        world.separate(1, 2, 3)
        with world.clock.timeout(5.0) as scope:
            await state(storage).store(first.mutate(b"discarded"))
        assert scope.cancelled_caught
        with pytest.raises(UnavailableError):
            await storage.get("slaves")
        world.separate(1, 2, 3, blocked=False)

        found = await state(storage).fetch("slaves")

        assert found.value in (b"first", b"discarded")
        await state(storage).store(found.mutate(b"last"))
        assert await value(storage, "slaves") == b"last"


@simulated
async def test_diff() -> None:
    """A list of 1024 slaves, and one more: the log holds exactly the whole list, and then the difference."""
    async with playing(replicas=3) as world:
        log = await world.start_log(1)
        await storages(world, 2, 3)
        storage = ReplicatedLogStorage(log, diffs_between_snapshots=MANY)
        slaves = [b"localhost%d;" % number for number in range(MANY + 1)]
        first = await stored(storage, "slaves", b"".join(slaves[:-1]))
        await state(storage).store(first.mutate(b"".join(slaves)))

        snapshot, diff = await held(storage)

        assert isinstance(snapshot, SnapshotRecord)
        assert isinstance(diff, DiffRecord)
        assert diff.middle == slaves[-1]
        assert await value(ReplicatedLogStorage(log), "slaves") == b"".join(slaves)


# -- writers ----------------------------------------------------------------------------------------------------------


@simulated
async def test_a_reader_turns_no_writer_out() -> None:
    """Another process reads each value at once, also what is decided and not announced. The writer is elected once."""
    async with playing(replicas=3) as world:
        writer, reader, _ = await storages(world, 1, 2, 3)
        kept = await stored(writer, "name", b"0")
        elections = world.count(Promise)
        for number in range(1, 20):
            kept = await state(writer).store(kept.mutate(b"%d" % number))
            assert await state(reader).fetch("name") == kept
            assert await reader.names() == {"name"}
        assert world.count(Promise) == elections


@simulated
async def test_an_owner_that_was_turned_out_reads_what_the_new_one_wrote() -> None:
    """Mesos' `get` looks at the image of a writer that does not know of its end. Here it asks a quorum."""
    async with playing(replicas=3) as world:
        old, new, _ = await storages(world, 1, 2, 3)
        mine = await stored(old, "name", b"old")
        theirs = await state(new).store((await state(new).fetch("name")).mutate(b"new"))
        elections = world.count(Promise)

        assert await state(old).fetch("name") == theirs
        with pytest.raises(StaleVersionError, match="nothing was stored"):
            await state(old).store(mine.mutate(b"late"))
        assert not await state(old).expunge(mine)

        assert world.count(Promise) == elections  # the new owner still leads
        await state(new).store(theirs.mutate(b"newer"))
        assert world.count(Promise) == elections
        assert await value(old, "name") == b"newer"


@simulated
async def test_an_owner_that_does_not_know_of_its_end_is_refused() -> None:
    """Its store fits what it knows, so it is sent. A quorum refuses it; then it learns why, and says that nothing was stored."""
    async with playing(replicas=3) as world:
        old, new, _ = await storages(world, 1, 2, 3)
        mine = await stored(old, "name", b"old")
        await stored(new, "name", b"new")

        with pytest.raises(StaleVersionError, match="nothing was stored"):
            await state(old).store(mine.mutate(b"late"))

        assert await value(new, "name") == b"new"


@simulated
async def test_an_owner_that_is_cut_off_reads_nothing() -> None:
    """It cannot know if there is another one. It may not answer with what it had."""
    async with playing(replicas=3) as world:
        old, new, _ = await storages(world, 1, 2, 3)
        await stored(old, "name", b"old")
        world.separate(1, 2, 3)
        await stored(new, "name", b"new")

        for read in (partial(old.get, "name"), old.names):
            with pytest.raises(UnavailableError):
                await read()
        world.separate(1, 2, 3, blocked=False)

        assert await value(old, "name") == b"new"


@simulated
async def test_a_store_whose_answer_is_lost_has_happened_once() -> None:
    """The replicas accept it, and no answer arrives. The writer is elected again, and finds its own version."""
    async with playing(replicas=3) as world:
        storage, other, _ = await storages(world, 1, 2, 3)
        first = await stored(storage, "name", b"first")
        lost = unheard(world, 1)
        made = list[Variable]()

        async def store() -> None:
            made.append(await state(storage).store(first.mutate(b"second")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(store)
            await world.clock.sleep(4.5)  # the writer has given up
            lift(lost)
        (second,) = made
        assert await state(other).fetch("name") == second
        assert len(await held(storage)) == 2


@simulated
async def test_a_store_that_happened_unheard_and_was_replaced_has_happened() -> None:
    """Its answers are lost, and another client replaces it before the writer is elected again. It is in the log all the same, so it is no
    stale store; the next one is."""
    async with playing(replicas=3) as world:
        storage, other, _ = await storages(world, 1, 2, 3)
        first = await stored(storage, "name", b"first")
        lost = unheard(world, 1)
        made = list[Variable]()

        async def store() -> None:
            made.append(await state(storage).store(first.mutate(b"second")))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(store)
            await world.clock.sleep(0.5)
            assert await value(other, "name") == b"second"
            last = await stored(other, "name", b"third")
            lift(lost)

        (second,) = made
        assert second.value == b"second"
        with pytest.raises(StaleVersionError):
            await state(storage).store(second)
        assert await state(storage).fetch("name") == last


@simulated
async def test_a_store_that_happened_unheard_and_was_truncated_is_unsure() -> None:
    """As before, and its record is dropped before the writer looks for it. The error says that it may have been stored."""
    async with playing(replicas=3) as world:
        storage, other, _ = await storages(world, 1, 2, 3, slack_bytes=0)
        first = await stored(storage, "name", b"first")
        lost = unheard(world, 1)
        errors = list[StaleVersionError]()

        async def store() -> None:
            with pytest.raises(StaleVersionError) as raised:
                await state(storage).store(first.mutate(b"second"))
            errors.append(raised.value)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(store)
            await world.clock.sleep(0.5)
            for number in range(5):
                await stored(other, "name", b"%d" % number)
            lift(lost)
        (error,) = errors
        assert error.is_unsure


@simulated
async def test_a_value_that_only_a_dead_writer_knows_is_read() -> None:
    """It is accepted by a quorum, no replica that lives has learned it, and its writer is gone. The reader has it decided first: two reads of
    two clients could differ otherwise."""
    async with playing(replicas=3) as world:
        writer, reader, other = await storages(world, 1, 2, 3)
        first = await stored(writer, "name", b"first")
        world.unlearned = frozenset({2, 3})
        await state(writer).store(first.mutate(b"second"))
        world.kill(1)
        world.unlearned = frozenset()

        assert await value(reader, "name") == b"second"
        assert await value(other, "name") == b"second"


@simulated
async def test_two_writers_that_take_turns() -> None:
    """Each store turns the other writer out, and none is lost."""
    async with playing(replicas=3) as world:
        both = (await storages(world, 1, 2, 3))[:2]
        for number in range(20):
            kept = await stored(both[number % 2], "name", b"%d" % number)
            assert await state(both[1 - number % 2]).fetch("name") == kept


@simulated
async def test_a_late_record_does_not_bring_back_what_was_refused() -> None:
    """The record of a creation is on its way to the replicas when the call is given up. Its repetition may not create, and finds nothing: no
    election has settled the record, so one does before that is said."""
    async with playing(replicas=3) as world:
        storage, other, _ = await storages(world, 1, 2, 3)
        await stored(storage, "other", b"kept")
        late = [world.catch(PaxosWrite, to=node) for node in (1, 2, 3)]
        with world.clock.timeout(0.1) as scope:
            await storage.set("name", ONE, b"", may_create=True)
        assert scope.cancelled_caught
        lift(late)

        assert not await storage.set("name", ONE, b"", may_create=False)

        for each in late:
            each.release()
        await world.clock.sleep(1.0)
        assert await storage.get("name") is None
        await stored(other, "other", b"more")
        assert await storage.names() == {"other"}


@pytest.mark.parametrize("seed", range(3))
@simulated
async def test_random_faults(seed: int) -> None:
    """Messages are lost, late or come twice, and one node after the other is cut off, while three clients write. No answer is taken back."""
    async with playing(replicas=3, seed=seed) as world:
        source = random.Random(seed)
        clients = await storages(world, 1, 2, 3, slack_bytes=300, diffs_between_snapshots=3)
        history = History(world.clock, source)
        await world.clock.sleep(1.0)
        scope = trio.CancelScope()

        async def cut() -> None:
            with scope:
                while True:
                    node = source.choice((1, 2, 3))
                    for blocked in (True, False):
                        world.separate(node, *({1, 2, 3} - {node}), blocked=blocked)
                        await world.clock.sleep(source.random() * 2)

        set_quality(world, FAULTY)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut)
            await history.run(clients, 25)
            scope.cancel()
        set_quality(world, LinkQuality(refuse=0.0))
        world.separate(1, 2, 3, blocked=False)
        world.separate(2, 3, blocked=False)
        await world.clock.sleep(LATE_SECONDS)
        await history.check([*clients, ReplicatedLogStorage(clients[2]._log)])
        assert min(history.counts.values()) > 0


@simulated
async def test_without_a_quorum_a_write_is_unknown() -> None:
    """And is settled once there is one."""
    async with playing(replicas=3) as world:
        storage, *_ = await storages(world, 1, 2, 3)
        first = await stored(storage, "name", b"first")
        world.separate(1, 2, 3)
        with pytest.raises(OutcomeUnknownError) as unknown:
            await state(storage, settle_seconds=1.0).store(first.mutate(b"second"))
        with pytest.raises(OutcomeUnknownError):
            await state(storage, settle_seconds=1.0).expunge(first)
        world.separate(1, 2, 3, blocked=False)

        settled = await state(storage).settle(unknown.value)

        assert settled in (None, unknown.value.variable)


@simulated
async def test_a_log_that_has_not_recovered_does_not_answer() -> None:
    """Its replica has lost its disk, and the others are away."""
    async with playing(replicas=3) as world:
        storage = ReplicatedLogStorage(await world.start_log(1, initialize=False))
        with pytest.raises(UnavailableError, match="does not vote yet"):
            await storage.get("name")
        with pytest.raises(UnavailableError, match="does not vote yet"):
            await storage.set("name", ONE, b"", may_create=True)


@simulated
async def test_a_disk_that_fails_ends_the_storage() -> None:
    """All calls get the error from then on."""
    async with playing(replicas=3, is_safe=False) as world:
        storage, other, _ = await storages(world, 1, 2, 3)
        first = await stored(storage, "name", b"first")
        world.disks[storage._log.own.node].fail_write()

        async def store_on() -> None:
            found = first
            while True:
                found = await state(storage).store(found.mutate(b"more"))

        with pytest.raises(StorageError):
            await store_on()
        with pytest.raises(StorageError):
            await storage.get("name")
        assert await value(other, "name") in (b"first", b"more")


@simulated
async def test_a_store_on_full_disks_says_why_it_is_not_answered() -> None:
    """The reason of the last attempt is part of the error; once there is room, the same call succeeds."""
    async with playing(replicas=3) as world:
        storage, *_ = await storages(world, 1, 2, 3)
        first = await stored(storage, "slaves", b"first")
        disks = [*world.disks.values()]
        for disk in disks:
            disk.faults.free_bytes = 100 << 10
        with pytest.raises(OutcomeUnknownError, match=r"'slaves' was written: .*disk of this replica is nearly full"):
            await state(storage, settle_seconds=5.0).store(first.mutate(b"second"))
        for disk in disks:
            disk.faults.free_bytes = None
        await state(storage).store(await state(storage).fetch("slaves"))
