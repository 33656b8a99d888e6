"""A replica that the log can no longer help: wiped, lagging, brand-new; and what may happen meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.snapshots.replicas import CLUSTER, Machine, World, content, world
from virtuallog.contract.errors import (
    CorruptionError,
    OverloadedError,
    StorageError,
    TrimmedError,
    UnavailableError,
    WrongRecipientError,
)
from virtuallog.contract.ports import Done
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.ports import CheckpointFile, LocalStore
from virtuallog_database.snapshots.messages import GetSnapshot, Piece, ReadPiece, SnapshotOffer
from virtuallog_database.snapshots.policy import name_of
from virtuallog_database.snapshots.service import REQUESTS_MAX, SnapshotService
from virtuallog_database.snapshots.transfer import missing, superfluous


async def peers(made: World, *cursors: int) -> list[Machine]:
    """Machines 1, 2, ...: each with a snapshot up to there, and a few entries more."""
    found = []
    for node, cursor in enumerate(cursors, start=1):
        machine = made.machine(node)
        replica, snapshots = await machine.replica(cursor)
        await snapshots.take(replica)
        replica.play(cursor + 5)
        found.append(machine)
    return found


async def state_at(cursor: int) -> list[tuple[bytes, bytes]]:
    """Content of any replica there."""
    async with world() as made:
        replica, _ = await made.machine(9).replica(cursor)
        return content(replica.store)


async def test_a_store_that_the_log_can_bring_up_to_date_is_left_alone(autojump_clock: MockClock) -> None:
    """No peer is asked."""
    async with world() as made:
        await peers(made, 100)
        machine = made.machine(3)
        replica, _ = await machine.replica(40)
        made.trim_point = 40
        restorer = machine.restorer()
        assert content(await restorer.open_store()) == content(replica.store)
        assert restorer.meter.restores == 0


@pytest.mark.parametrize("own", [0, 30], ids=["wiped or brand-new", "lagging"])
async def test_the_newest_snapshot_of_all_peers_is_installed(autojump_clock: MockClock, own: int) -> None:
    """It is exactly what a replica has at that position; the log was held for us before it was offered."""
    async with world() as made:
        older, newer = await peers(made, 100, 120)
        machine = made.machine(3)
        await machine.replica(own)
        made.trim_point = 90
        restorer = machine.restorer()
        store = await restorer.open_store()
        assert content(store) == await state_at(120) and read_cursor(store) == 120
        assert restorer.meter.restores == 1 and restorer.waiting_for == ""
        assert newer.holds[0] == ("restore 3-0000", 120) and older.holds == [("restore 3-0000", 100)]


async def test_it_waits_until_somebody_can_help(autojump_clock: MockClock) -> None:
    """No peer answers, then one has only what is too old; it says what it waits for, and goes on once there is help."""
    async with world() as made:
        made.trim_point, made.unknown = 90, 3
        machine = made.machine(3)
        restorer = machine.restorer()
        stores: list[LocalStore] = []

        async def restore() -> None:
            stores.append(await restorer.open_store())

        made.nursery.start_soon(restore)
        await made.clock.sleep(60)
        assert not stores and "no peer offers a snapshot" in restorer.waiting_for
        replica, snapshots = await made.machine(1).replica(80)
        await snapshots.take(replica)
        await made.clock.sleep(60)
        assert not stores and restorer.waiting_for
        replica.play(95)
        await snapshots.take(replica)
        await made.clock.sleep(60)
        assert [read_cursor(store) for store in stores] == [95]


async def test_a_log_that_begins_in_an_archive_that_cannot_be_read_is_waited_for(autojump_clock: MockClock) -> None:
    """The files are elsewhere: that they cannot be read is no error of this disk, and nothing that one replica should stop for."""
    async with world() as made:
        await peers(made, 100)
        made.trim_point, made.unknown, made.refusal = 90, 3, StorageError("s3://archive: permission denied")
        restorer = made.machine(3).restorer()
        assert read_cursor(await restorer.open_store()) == 100
        assert made.unknown == 0 and restorer.waiting_for == ""


async def test_a_peer_that_dies_in_the_middle_is_replaced_by_another(autojump_clock: MockClock) -> None:
    """Fetched files that the other snapshot has, too, are kept."""
    async with world() as made:
        await peers(made, 120, 100)
        made.trim_point = 90
        pieces = 0

        def watch(what: str, source: NodeId, target: NodeId, message: object) -> None:
            nonlocal pieces
            if what == "requests" and isinstance(message, ReadPiece):
                pieces += 1
                if pieces == 2:
                    made.network.cut_off(NodeId(1), "dead")

        made.network.watch = watch
        restorer = made.machine(3).restorer()
        store = await restorer.open_store()
        assert content(store) == await state_at(100)


async def test_a_meter_counts_a_restore_from_its_first_attempt_on(autojump_clock: MockClock) -> None:
    """Bytes as they come, also of a peer that does not give all of it; seconds until a snapshot is installed."""
    async with world() as made:
        (machine,) = await peers(made, 100)
        made.trim_point = 90
        files = await machine.directory.checkpoints.files(name_of(LogPosition(100)))
        _, handlers = made.network._listening[NodeId(1)]

        def read(request: ReadPiece, done: Done) -> None:
            if request.file == files[0].name:
                done(UnavailableError("not now"))
            else:
                handlers[ReadPiece](request, done)

        made.network.listen(machine.process, {**handlers, ReadPiece: read})
        restorer = made.machine(3).restorer(peers=[1])
        meter, size = restorer.meter, sum(file.size for file in files)
        made.nursery.start_soon(restorer.open_store)
        await made.clock.sleep(60)
        assert 0 < meter.restore_bytes.value < size and meter.restores == 0
        made.network.listen(machine.process, handlers)
        await made.clock.sleep(60)
        assert meter.restore_bytes.value == size
        assert meter.restores == 1 and meter.restore_seconds.total > 60


async def test_a_log_that_is_trimmed_meanwhile_takes_a_newer_snapshot(autojump_clock: MockClock) -> None:
    """Nothing is installed that could not be played on."""
    async with world() as made:
        machine = made.machine(1)
        replica, snapshots = await machine.replica(100)
        await snapshots.take(replica)
        made.trim_point = 100
        restorer = made.machine(3).restorer(peers=[1])

        async def go_on() -> None:
            replica.play(200)
            await snapshots.take(replica)
            made.trim_point = 200

        made.meanwhile = (
            go_on  # after the store and before the fetch the trim point is read; the third time is behind the fetch
        )
        assert read_cursor(await restorer.open_store()) == 200
        assert restorer.meter.restores == 1


async def test_a_restart_in_the_middle_goes_on_and_never_shows_half_a_store(autojump_clock: MockClock) -> None:
    """Crashes at any time: the store is the old one or the new one, whole; in the end it is the new one."""
    for seed in range(30):
        async with world() as made:
            await peers(made, 150, 150)
            made.trim_point = 90
            machine = made.machine(3)
            await machine.replica(30)
            await machine.directory.open()
            lives = random.Random(seed)
            for _ in range(6):
                with made.clock.timeout(lives.uniform(0.0, 0.004)):
                    await machine.restorer().open_store()
                machine = machine.crash()
                found = await machine.directory.open()
                assert read_cursor(found) <= 30 or read_cursor(found) == 150
                assert content(found) == await state_at(read_cursor(found))
            assert content(await machine.restorer().open_store()) == await state_at(150)


async def test_a_flipped_bit_on_the_way_is_asked_for_once_more(autojump_clock: MockClock) -> None:
    """Each piece has a checksum."""
    await _with_damage(autojump_clock, lambda piece: attrs.evolve(piece, content=b"?" + piece.content[1:]))


async def test_a_piece_that_is_too_short_is_not_taken(autojump_clock: MockClock) -> None:
    """A piece that is too short is refused, also an empty one, with which a restore would never end."""
    await _with_damage(autojump_clock, lambda piece: Piece(content=b"", checksum=0))


async def _with_damage(autojump_clock: MockClock, damage: Callable[[Piece], Piece]) -> None:
    async with world() as made:
        (machine,) = await peers(made, 100)
        made.trim_point = 90
        _, handlers = made.network._listening[NodeId(1)]
        damaged = 0

        def read(request: ReadPiece, done: Done) -> None:
            def answer(outcome: object) -> None:
                nonlocal damaged
                assert isinstance(outcome, Piece)
                damaged += 1
                done(damage(outcome) if damaged < 4 else outcome)

            handlers[ReadPiece](request, answer)

        made.network.listen(machine.process, {**handlers, ReadPiece: read})
        assert read_cursor(await made.machine(3).restorer(peers=[1]).open_store()) == 100
        assert damaged > 4


async def test_a_snapshot_that_was_damaged_on_the_peers_disk_is_not_installed(autojump_clock: MockClock) -> None:
    """The other peer's is, though it is older."""
    async with world() as made:
        newer, _ = await peers(made, 120, 100)
        made.trim_point = 90
        files = newer.disk.checkpoints[max(newer.disk.checkpoints)]
        name = min(files)
        files[name] = files[name][:50] + bytes([files[name][50] ^ 1]) + files[name][51:]
        restorer = made.machine(3).restorer()
        assert content(await restorer.open_store()) == await state_at(100)


async def test_a_full_disk_gives_its_room_back_and_tries_again(autojump_clock: MockClock) -> None:
    """Other components on the disk need room to go on; the old store stays until there is enough."""
    async with world() as made:
        await peers(made, 100)
        made.trim_point = 90
        machine = made.machine(3)
        machine.disk.faults.free_bytes = 2000
        restorer = machine.restorer()
        with made.clock.timeout(60):
            await restorer.open_store()
        assert "full" in restorer.waiting_for and not machine.disk.staged and restorer.meter.restores == 0
        machine.disk.faults.free_bytes = None
        assert read_cursor(await restorer.open_store()) == 100


async def test_our_own_failing_disk_ends_it_and_a_peers_does_not(autojump_clock: MockClock) -> None:
    """A restore ends with the error of its own disk, and goes on to the next peer after the same error of a peer."""
    async with world() as made:
        bad, _ = await peers(made, 120, 100)
        made.trim_point = 90
        bad.disk.faults.read_error = 1.0
        assert read_cursor(await made.machine(3).restorer().open_store()) == 100
        machine = made.machine(4)
        machine.disk.faults.write_error = 1.0
        with pytest.raises(StorageError):
            await machine.restorer().open_store()


async def test_a_store_that_is_damaged_is_not_restored_by_itself(autojump_clock: MockClock) -> None:
    """An operator has to look at that disk; the error says so."""
    async with world() as made:
        await peers(made, 100)
        machine = made.machine(3)
        await machine.replica(30)
        machine.disk.rotten.update(machine.disk.content.pairs)
        made.trim_point = 90
        with pytest.raises(CorruptionError):
            await machine.restorer().open_store()


async def test_state_of_another_cluster_is_neither_given_nor_taken(autojump_clock: MockClock) -> None:
    """It would be as well-formed, and wrong throughout."""
    async with world() as made:
        (machine,) = await peers(made, 100)
        services = made.network.services(made.machine(3).process, made.machine(3).clock)
        for request in (
            GetSnapshot(cluster=b"d" * 16, replica="x"),
            ReadPiece(cluster=b"", replica="x", position=100, file="000000.sst", offset=0, length=10),
        ):
            with pytest.raises(WrongRecipientError):
                await services.call(NodeId(1), request, 5.0)
        assert machine.holds == []


async def test_the_log_is_held_while_a_peer_reads_on(autojump_clock: MockClock) -> None:
    """Once a third of the time is over the hold is renewed with the next piece."""
    async with world() as made:
        (machine,) = await peers(made, 100)
        client = made.machine(3)
        services = made.network.services(client.process, client.clock)
        offer = await services.call(NodeId(1), GetSnapshot(cluster=CLUSTER, replica="3"), 5.0)
        for _ in range(3):
            for _ in range(2):
                await services.call(
                    NodeId(1),
                    ReadPiece(
                        cluster=CLUSTER, replica="3", position=offer.position, file=offer.files[0].name,
                        offset=0, length=10,
                    ),
                    5.0,
                )  # fmt: skip
            await client.clock.sleep(150)
        assert machine.holds == [("restore 3", 100)] * 3


async def test_without_a_hold_nothing_is_given(autojump_clock: MockClock) -> None:
    """Without a renewed hold a replica gives neither an offer, whose log may be gone, nor a piece. The next request tries again."""
    async with world() as made:
        (machine,) = await peers(made, 100)
        client = made.machine(3)
        services = made.network.services(client.process, client.clock)
        ask = GetSnapshot(cluster=CLUSTER, replica="3")
        machine.refusals = [TrimmedError(LogPosition(120))]
        with pytest.raises(TrimmedError):
            await services.call(NodeId(1), ask, 5.0)
        offer = await services.call(NodeId(1), ask, 5.0)
        piece = ReadPiece(
            cluster=CLUSTER, replica="3", position=offer.position, file=offer.files[0].name, offset=0, length=10
        )
        await client.clock.sleep(150)
        machine.refusals = [UnavailableError("the log does not answer")]
        with pytest.raises(UnavailableError):
            await services.call(NodeId(1), piece, 5.0)
        assert len(machine.holds) == 1
        await services.call(NodeId(1), piece, 5.0)
        assert len(machine.holds) == 2


async def test_what_is_served_at_a_time_is_bounded(autojump_clock: MockClock) -> None:
    """One too many is refused, and may come again."""
    async with world() as made:
        (machine,) = await peers(made, 100)
        machine.may_hold = trio.Event()
        _, handlers = made.network._listening[NodeId(1)]
        outcomes: list[object] = []
        for number in range(REQUESTS_MAX + 1):
            handlers[GetSnapshot](GetSnapshot(cluster=CLUSTER, replica=str(number)), outcomes.append)
        assert [type(outcome) for outcome in outcomes] == [OverloadedError]
        machine.may_hold.set()
        await made.clock.sleep(1)
        assert [type(outcome) for outcome in outcomes[1:]] == [SnapshotOffer] * REQUESTS_MAX


async def test_who_asks_a_replica_that_ends_is_answered(autojump_clock: MockClock) -> None:
    """Its tasks are cancelled; the caller gets an error at once, and asks another peer instead of
    waiting for its timeout."""
    async with world() as made:
        outcomes: list[object] = []
        machine = made.machine(1)
        machine.may_hold = trio.Event()
        async with trio.open_nursery() as life:
            replica, snapshots = await machine.replica(100)
            await snapshots.take(replica)
            service = SnapshotService(snapshots, CLUSTER, life, machine.hold, machine.clock)
            service.handlers[GetSnapshot](GetSnapshot(cluster=CLUSTER, replica="3"), outcomes.append)
            await made.clock.sleep(1)
            life.cancel_scope.cancel()
        assert [type(outcome) for outcome in outcomes] == [UnavailableError]


async def test_a_replica_without_a_snapshot_offers_none(autojump_clock: MockClock) -> None:
    """Position 0, no files; and nothing is held for it."""
    async with world() as made:
        machine = made.machine(1)
        await machine.replica(10)
        client = made.machine(3)
        services = made.network.services(client.process, client.clock)
        offer = await services.call(NodeId(1), GetSnapshot(cluster=CLUSTER, replica="3"), 5.0)
        assert offer == SnapshotOffer(position=0, files=()) and machine.holds == []


def test_only_what_is_missing_is_fetched() -> None:
    """The same name with another checksum is another file."""
    a, b, c = CheckpointFile("a", 10, 1), CheckpointFile("b", 30, 2), CheckpointFile("c", 20, 3)
    other = CheckpointFile("b", 30, 9)
    assert missing([a, other], [a, b, c]) == [b, c]
    assert superfluous([a, other, CheckpointFile("d", 1, 1)], [a, b, c]) == ["b", "d"]
    assert missing([a, b, c], [a, b, c]) == [] == superfluous([a, b, c], [a, b, c])
