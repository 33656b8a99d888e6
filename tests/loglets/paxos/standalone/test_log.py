"""The log used by itself, where it is more than Mesos' own tests ask for (those are in scenarios/): what readers and writers refuse, what a
maybe does to a writer, what ends a log; and replicas on real sockets and directories."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.free_ports import free_ports
from tests.loglets.paxos.world import World, playing
from tests.metastore.world import simulated
from tests.source_tree import ROOT
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import (
    BeyondTailError,
    InvalidSettingError,
    MalformedError,
    StorageError,
    TooLargeError,
    VirtualLogError,
)
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.paxos.core import proposal_queue
from virtuallog_loglets.paxos.messages import Learn, PaxosWrite, Promise, Status
from virtuallog_loglets.paxos.standalone.facade import open_log, open_replica, parse_member
from virtuallog_loglets.paxos.standalone.log import Log, Position
from virtuallog_loglets.paxos.standalone.reader import BadRange, LogReader, ReadRangeError
from virtuallog_loglets.paxos.standalone.writer import DATA_BYTES_MAX, LogWriter, WriterError
from virtuallog_server.local_cluster.certificates import Authority

PATIENCE_SECONDS = 30.0
"""Timeout of tests on a real machine, in seconds."""


async def founded(world: World, *nodes: int) -> list[Log]:
    """Machines with voting replicas, each with a Log; the others do not exist."""
    await world.start(*nodes)
    for node in nodes:
        await world.replica(node).adopt(Status.VOTING)
    world.kill(*nodes)
    return [await world.start_log(node) for node in nodes]


async def started(log: Log, outstanding: int = 1) -> LogWriter:
    writer = LogWriter(log, outstanding)
    assert await writer.start() is not None
    return writer


def position(number: int) -> Position:
    return Position(number)


# -- reading ----------------------------------------------------------------------------------------------------------


def test_the_identity_of_a_position_keeps_their_order() -> None:
    """An identity has eight bytes, big-endian; other bytes are refused."""
    assert position(1).identity() == b"\0\0\0\0\0\0\0\1"
    assert Position.from_identity(position(2**40).identity()) == position(2**40)
    assert sorted([position(300), position(2)], key=Position.identity) == [position(2), position(300)]
    with pytest.raises(MalformedError):
        Position.from_identity(b"\0" * 7)


@simulated
async def test_a_range_that_cannot_be_read_says_why() -> None:
    """All five reasons of Mesos, in their order, in its words."""
    async with playing(replicas=3) as world:
        first, second, third = await founded(world, 1, 2, 3)
        writer, reader = await started(first), LogReader(third)
        for number in range(1, 8):
            assert await writer.append(b"%d" % number) == position(number)
        assert await writer.truncate(position(3)) == position(8)
        await world.until(lambda: third.replica.core.learned == 9)
        world.catch(Learn, to=3)
        held = world.catch(PaxosWrite, to=3, times=1)
        for number in (9, 10):
            assert await writer.append(b"%d" % number) == position(number)
        await world.until(lambda: third.replica.core.end == 10)

        async def reason(start: int, end: int) -> BadRange:
            with pytest.raises(ReadRangeError) as refused:
                await reader.read(position(start), position(end))
            assert str(refused.value) == f"Bad read range ({refused.value.reason.value})"
            return refused.value.reason

        assert await reason(2, 1) is BadRange.REVERSED
        assert await reason(2, 4) is BadRange.TRUNCATED
        assert await reason(4, 11) is BadRange.PAST_END
        assert await reason(4, 9) is BadRange.MISSING
        assert await reason(10, 10) is BadRange.PENDING
        assert len(held.kept) == 1
        assert [entry.data for entry in await reader.read(position(3), position(8))] == [b"3", b"4", b"5", b"6", b"7"]
        assert second.failure is None


@simulated
async def test_what_is_missed_comes_by_itself_and_at_once_if_asked_for() -> None:
    """A reader need not wait for its replica to notice."""
    async with playing(replicas=3) as world:
        first, _, third = await founded(world, 1, 2, 3)
        writer, reader = await started(first), LogReader(third)
        world.separate(3, 1, 2)
        for number in range(1, 5):
            assert await writer.append(b"%d" % number) == position(number)
        assert await reader.ending() < position(4)
        world.separate(3, 1, 2, blocked=False)

        assert await reader.catchup() >= position(3)

        assert [entry.data for entry in await reader.read(position(1), position(3))] == [b"1", b"2", b"3"]


# -- writing ----------------------------------------------------------------------------------------------------------


@simulated
async def test_nothing_is_written_before_an_election() -> None:
    """The error has the words of Mesos, and nothing has been done."""
    async with playing(replicas=1, quorum=1) as world:
        (log,) = await founded(world, 1)
        writer = LogWriter(log)

        with pytest.raises(WriterError, match="No election has been performed"):
            await writer.append(b"early")
        with pytest.raises(WriterError, match="No election has been performed"):
            await writer.truncate(position(0))

        assert await writer.start() == position(0)
        assert await writer.append(b"hello") == position(1)


@simulated
async def test_one_write_at_a_time_unless_more_are_wanted() -> None:
    """Mesos refuses the second one: "currently writing". With `outstanding` they come into the log in their order."""
    async with playing(replicas=3) as world:
        (log, *_) = await founded(world, 1, 2, 3)
        alone, found = await started(log), dict[int, Position | None]()

        async def append(writer: LogWriter, number: int) -> None:
            found[number] = await writer.append(b"%d" % number)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(append, alone, 0)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(WriterError, match="currently writing"):
                await alone.append(b"too early")
            with pytest.raises(WriterError, match="currently writing"):
                await alone.start()
        several = await started(log, outstanding=4)
        async with trio.open_nursery() as nursery:
            for number in range(1, 5):
                nursery.start_soon(append, several, number)
                await trio.testing.wait_all_tasks_blocked()

        first = found[1]
        assert first is not None
        assert [found[number] for number in range(1, 5)] == [position(first.value + index) for index in range(4)]


@simulated
async def test_what_is_under_way_is_bounded_by_its_number_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer with eight large writes in flight is not turned out for their size: the callers hold
    these bytes anyway."""
    monkeypatch.setattr(proposal_queue, "QUEUE_BYTES_MAX", 1000)
    async with playing(replicas=3) as world:
        (log, *_) = await founded(world, 1, 2, 3)
        writer, found = await started(log, outstanding=8), list[Position | None]()

        async def append() -> None:
            found.append(await writer.append(bytes(900)))

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(append)

        assert found == [position(number) for number in range(1, 9)]
        assert await writer.append(b"and more") == position(9)


@simulated
async def test_who_was_turned_out_writes_no_more_until_started() -> None:
    """Defect 3: a writer that got None must not go on with the number of the one that turned it out."""
    async with playing(replicas=3) as world:
        first, second, _ = await founded(world, 1, 2, 3)
        old = await started(first)
        assert await old.append(b"old") == position(1)
        new = await started(second)

        assert await old.append(b"late") is None
        with pytest.raises(WriterError, match="turned out"):
            await old.append(b"later")

        assert await new.append(b"new") == position(2)
        assert await old.start() == position(2)
        assert await old.append(b"again") == position(3)
        assert await new.append(b"late") is None


@simulated
async def test_a_cancelled_append_is_a_maybe() -> None:
    """MESOS-1038: the outcome is unknown, so the writer must be started again. Then the entry is in
    the log, or not, for good."""
    async with playing(replicas=3) as world:
        log, *_ = await founded(world, 1, 2, 3)
        writer, reader = await started(log), LogReader(log)
        caught = [world.catch(PaxosWrite, to=2), world.catch(PaxosWrite, to=3)]
        with world.clock.timeout(1.0) as scope:
            await writer.append(b"perhaps")
        assert scope.cancelled_caught
        with pytest.raises(WriterError, match="turned out"):
            await writer.append(b"after")
        for each in caught:
            each.lift()

        assert await writer.start() == position(1)

        found = await reader.read(position(1), position(1))
        assert [entry.data for entry in found] in ([b"perhaps"], [])
        assert await writer.append(b"after") == position(2)


@simulated
async def test_a_start_that_meets_nobody_is_none() -> None:
    """One of three: no quorum promises. The others come, and it works."""
    async with playing(replicas=3) as world:
        log, *_ = await founded(world, 1, 2, 3)
        caught = [world.catch(Promise, to=2), world.catch(Promise, to=3)]
        writer = LogWriter(log)

        assert await writer.start() is None
        with pytest.raises(WriterError, match="No election"):
            await writer.append(b"early")
        for each in caught:
            each.lift()

        assert await writer.start() is not None


@simulated
async def test_what_is_too_large_or_beyond_the_end_is_refused_before_it_is_sent() -> None:
    """The writer is as it was."""
    async with playing(replicas=1, quorum=1) as world:
        (log,) = await founded(world, 1)
        writer = await started(log)

        with pytest.raises(TooLargeError):
            await writer.append(bytes(DATA_BYTES_MAX + 1))
        with pytest.raises(BeyondTailError):
            await writer.truncate(position(2))

        assert await writer.append(b"hello") == position(1)
        assert await writer.truncate(position(1)) == position(2)
        assert await LogReader(log).beginning() == position(1)


@simulated
async def test_a_disk_that_fails_ends_the_log() -> None:
    """All its users get the error, now and later; other replicas go on without it."""
    async with playing(replicas=3, is_safe=False) as world:
        log, other, _ = await founded(world, 1, 2, 3)
        writer = await started(log)
        world.disks[log.own.node].fail_write()

        async def write_on() -> None:
            while await writer.append(b"x") is not None:
                pass
            await log.recovered()

        with pytest.raises(StorageError):
            await write_on()

        assert isinstance(await log.ended(), StorageError)
        with pytest.raises(VirtualLogError):
            await LogReader(log).ending()
        with pytest.raises(VirtualLogError):
            await writer.start()
        assert await (await started(other)).append(b"goes on") is not None


# -- on a real machine ------------------------------------------------------------------------------------------------


@contextmanager
def patience() -> Iterator[None]:
    with SystemClock().timeout(PATIENCE_SECONDS) as scope:
        yield
    assert not scope.cancelled_caught, f"not done in {PATIENCE_SECONDS} s"


async def elected(log: Log) -> LogWriter:
    writer = LogWriter(log)
    while await writer.start() is None:
        await SystemClock().sleep(0.02)
    return writer


@asynccontextmanager
async def three(folder: Path) -> AsyncIterator[list[Log]]:
    """All replicas of a log, each as a process would run it."""
    port = free_ports(3)
    peers = [f"{node}@127.0.0.1:{port + node - 1}" for node in (1, 2, 3)]
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                open_log(folder / str(node), quorum=2, node=node, peers=peers, auto_initialize=True)
            )
            for node in (1, 2, 3)
        ]


async def test_three_replicas_found_a_log_and_keep_it(tmp_path: Path) -> None:
    """Over TCP, with RocksDB: written on one, read on another, found again by the next life of all."""
    with patience():
        async with three(tmp_path) as logs:
            writer = await elected(logs[0])
            assert await writer.append(b"hello") == position(1)
            assert await writer.append(b"world") == position(2)
            assert await LogReader(logs[1]).catchup() >= position(1)
        async with three(tmp_path) as logs:
            writer = await elected(logs[2])
            assert [entry.data for entry in await LogReader(logs[2]).read(position(1), position(2))] == [
                b"hello",
                b"world",
            ]
            assert await writer.append(b"again") == position(3)


async def test_a_replica_that_lost_its_directory_recovers_with_a_newer_incarnation(tmp_path: Path) -> None:
    """The wall clock says that the store is another one; the others tell what it has forgotten."""
    with patience():
        async with three(tmp_path) as logs:
            for log in logs:  # else the founding is not over: one that votes and one that is about to are no quorum
                await log.recovered()
            assert await (await elected(logs[0])).append(b"hello") == position(1)
            before = logs[2].replica.core.incarnation
        for path in sorted((tmp_path / "3").rglob("*")):
            if path.is_file():
                path.unlink()
        async with three(tmp_path) as logs:
            await logs[2].recovered()
            assert logs[2].replica.core.incarnation > before
            found = await LogReader(logs[2]).read(position(1), position(1))
            assert [entry.data for entry in found] == [b"hello"]


async def test_a_replica_of_another_log_is_refused(tmp_path: Path) -> None:
    """Each call names the log that is meant, so a reused address does no harm."""
    async with open_log(tmp_path / "1", quorum=1, node=2, name="theirs", auto_initialize=True) as theirs:
        peers = ["1@127.0.0.1:0", f"2@{theirs.own.address}"]
        with pytest.raises(InvalidSettingError):
            parse_member(peers[0])
        async with open_log(tmp_path / "2", quorum=2, peers=peers[1:], name="ours", auto_initialize=True) as ours:
            await SystemClock().sleep(0.3)
            assert ours.replica.core.incarnations == ()
            assert theirs.replica.core.incarnations == ()


async def test_replicas_prove_who_they_are(tmp_path: Path) -> None:
    """With certificates a log works over TLS, and each replica needs the certificate of its own number."""
    authority = Authority.create(tmp_path / "certificates", "test")
    tls = [authority.issue(Principal(cluster="test", role=Role.NODE, name=str(node))) for node in (1, 2, 3)]
    port = free_ports(3)
    peers = [f"{node}@127.0.0.1:{port + node - 1}" for node in (1, 2, 3)]
    with patience():
        async with AsyncExitStack() as stack:
            for node in (1, 2, 3):
                log = open_log(
                    tmp_path / str(node), quorum=2, node=node, peers=peers, auto_initialize=True, tls=tls[node - 1]
                )
                last = await stack.enter_async_context(log)
            assert await (await elected(last)).append(b"hello") == position(1)
    with pytest.raises(InvalidSettingError, match="not of node 2"):
        async with open_log(tmp_path / "2", quorum=2, node=2, tls=tls[0]):
            pass


async def test_what_cannot_be_listened_at_is_refused(tmp_path: Path) -> None:
    """An address of others without certificates, one in use, and no address at all; nothing is left behind."""
    async with open_log(tmp_path / "1", quorum=1, auto_initialize=True) as log:
        for listen in ("0.0.0.0:0", log.own.address, "nowhere"):
            with pytest.raises(InvalidSettingError):
                async with open_log(tmp_path / "2", quorum=1, listen=listen):
                    pass
    with pytest.raises(InvalidSettingError):
        async with open_log(tmp_path / "3", quorum=1, peers=["1@127.0.0.1:5051", "2@127.0.0.1:5052"]):
            pass


async def test_a_directory_belongs_to_one_process(tmp_path: Path) -> None:
    """The second process gets an error that says so."""
    async with open_log(tmp_path, quorum=1, auto_initialize=True):
        with pytest.raises(StorageError):
            async with open_replica(tmp_path):
                pass


@pytest.mark.processes
def test_the_example_runs(tmp_path: Path) -> None:
    """`examples/paxos_log.py`, again and again: it finds what it wrote, and truncates when there are two."""
    command = [sys.executable, str(ROOT / "examples/paxos_log.py"), str(tmp_path / "log")]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(3)]

    assert [len(output.splitlines()) for output in outputs] == [1, 2, 2]
    assert outputs[2].startswith("2  ")
