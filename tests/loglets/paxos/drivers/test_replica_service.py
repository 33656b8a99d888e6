"""Replicas of a node over one store: what leaves when, what a bad disk does, and what a lost store may say."""

from __future__ import annotations

import random

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.loglets.paxos.drivers.replica_node import (
    LOG,
    OLD,
    Node,
    answered,
    decide,
    learned,
    promise,
    read,
    write,
)
from virtuallog.contract.errors import (
    CorruptionError,
    DiskFullError,
    MalformedError,
    OverloadedError,
    StorageError,
    UnavailableError,
)
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.key_values import SimulatedKeyValuesDisk
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.drivers import disk_format, replica_service
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    GetStanding,
    Learn,
    PaxosRecord,
    PaxosRecover,
    ReadRecords,
    TrimSealed,
    Verdict,
    WaitLearned,
)

# -- durable before visible -------------------------------------------------------------------------------------------


async def test_no_answer_leaves_before_the_disk_has_what_it_rests_on(autojump_clock: MockClock) -> None:
    """A question that changes nothing waits as well, if something before it is not durable yet."""
    node = Node()
    node.disk.write_seconds = 1.0
    async with node.life() as life:
        await life.service.replica(LOG)
        promised, standing = life.soon(promise(3)), life.soon(GetStanding(segment=LOG))
        await trio.sleep(0.5)  # noqa: TID251 - true time
        assert not answered(promised)
        assert not answered(standing)

        assert (await promised()).verdict is Verdict.ACCEPT
        assert (await standing()).promised == 3


async def test_what_arrives_while_a_write_is_under_way_shares_the_next_one(autojump_clock: MockClock) -> None:
    """A hundred requests for two logs: three writes, the first of which founded the store."""
    node = Node()
    async with node.life() as life:
        for segment in (LOG, OLD):
            await life.service.replica(segment)
        node.disk.write_seconds = 1.0
        before = node.disk.writes
        first = life.soon(write(0, b"x"))
        await wait_all_tasks_blocked()
        others = [life.soon(write(p, b"x", segment=s)) for p in range(1, 51) for s in (LOG, OLD)]

        assert (await first()).verdict is Verdict.ACCEPT
        assert {(await other()).verdict for other in others} == {Verdict.ACCEPT}
        assert node.disk.writes - before == 2


async def test_a_crash_forgets_only_what_nobody_was_told(autojump_clock: MockClock) -> None:
    """Over the seeds the write under way happens, or does not; what was acknowledged is there in any case."""
    found = set()
    for seed in range(12):
        node = Node(SimulatedKeyValuesDisk(random.Random(seed)))
        async with node.life() as life:
            assert (await life.ask(write(0, b"told"))).verdict is Verdict.ACCEPT
            node.disk.write_seconds = 1.0
            life.soon(write(1, b"untold"))
            await wait_all_tasks_blocked()
            life.process.crash()
        node.disk.crash()
        node.disk.write_seconds = 0.0
        async with node.life() as life:
            replica = await life.service.replica(LOG)
            assert replica.core.slots.open_record(0) is not None
            found.add(replica.core.end)
    assert found == {0, 1}


async def test_what_is_decided_costs_no_write_of_its_own() -> None:
    """A decision is stored with the next group; if it is lost before, it is found out again."""
    node = Node()
    async with node.life() as life:
        await life.ask(write(0, b"a", b"b"))
        before = node.disk.writes
        assert (await life.ask(decide(2))).learned == 2
        assert node.disk.writes == before
    async with node.life() as life:
        assert (await life.service.replica(LOG)).core.learned == 0
        assert (await life.ask(write(2, b"c", decided=2))).verdict is Verdict.ACCEPT
    async with node.life() as life:
        assert (await life.service.replica(LOG)).core.learned == 2


async def test_seals_and_truncations_are_durable_before_they_are_told() -> None:
    """Neither is ever taken back, also by a replica that forgets the rest of what was decided."""
    node = Node()
    async with node.life() as life:
        request = write(0, b"a", b"b", b"c")
        request = attrs.evolve(request, values=(*request.values, values.truncate(2, 1, trim=1 << 16), values.seal(1)))
        await life.ask(request)
        standing = await life.ask(decide(4))
        assert (standing.begin, standing.trim, standing.seal) == (2, 1 << 16, NOWHERE)
    assert [key[-1] for key in node.disk.pairs if key[:1] == b"r"] == [2, 3, 4]
    async with node.life() as life:
        standing = await life.ask(GetStanding(segment=LOG))
        assert (standing.begin, standing.learned, standing.trim, standing.seal_seen) == (2, 4, 1 << 16, 4)
        assert (await life.ask(decide(5))).seal == 4
    async with node.life() as life:
        assert (await life.ask(GetStanding(segment=LOG))).seal == 4


# -- reads ------------------------------------------------------------------------------------------------------------


async def test_reads_from_memory_and_from_the_disk_agree() -> None:
    """After a restart nothing is in memory: the same records, pieces and ends."""
    node = Node()
    payloads = [bytes([number]) * 100 for number in range(20)]
    questions = [
        read(0, 30),
        read(5, 8),
        read(5, 8, max_bytes=1),
        read(15, 16),
        read(18, 20),
        read(25, 30),
    ]
    async with node.life() as life:
        await life.ask(write(0, *payloads))
        await life.ask(write(20, b"x", decided=18))
        from_memory = [await life.ask(question) for question in questions]
    async with node.life() as life:
        from_disk = [await life.ask(question) for question in questions]

    assert [answer.records for answer in from_memory] == [answer.records for answer in from_disk]
    assert [[record.position for record in answer.records] for answer in from_disk] == [
        [*range(18)],
        [5, 6, 7],
        [5],
        [15],
        [],
        [],
    ]
    assert all(record.learned for answer in from_disk for record in answer.records)


async def test_an_answer_has_about_as_many_bytes_as_its_asker_takes() -> None:
    """At least one record; from memory and from the disk alike."""
    node = Node()
    async with node.life() as life:
        await life.ask(write(0, *[bytes(1000)] * 9))
        await life.ask(write(9, b"x", decided=9))
        from_memory = len((await life.ask(read(0, 9, 4500))).records)
    async with node.life() as life:
        from_disk = len((await life.ask(read(0, 9, 4500))).records)
    assert (from_memory, from_disk) == (4, 4)


async def test_truncated_positions_are_not_read() -> None:
    """A read below the begin gets nothing, and a reader learns that they are gone from the standing."""
    node = Node()
    async with node.life() as life:
        await life.ask(write(0, *[b"x"] * 10))
        await life.ask(decide(10))
        standing = await life.ask(Learn(segment=LOG, records=(learned(10, values.truncate(4, 1)),)))
        assert standing.begin == 4

        assert (await life.ask(read(3, 10))).records == ()
        assert [record.position for record in (await life.ask(read(4, 10))).records] == [4, 5, 6, 7, 8, 9]


async def test_a_promise_quotes_what_is_decided_from_the_disk() -> None:
    """This holds for any number, over truncated, decided (on disk or in memory), accepted and empty positions."""
    node = Node()
    async with node.life() as life:
        await life.ask(write(0, *[b"old"] * 6))
        await life.ask(Learn(segment=LOG, records=(learned(6, values.truncate(2, 1)),), decided=decide(6).decided))
    async with node.life() as life:
        await life.ask(write(7, b"new"))
        assert (await life.ask(decide(8))).learned == 8
        await life.ask(write(8, b"open"))

        answer = await life.ask(promise(2, 0, 10))

    assert answer.verdict is Verdict.ACCEPT
    assert [(record.position, record.learned, values.is_tombstone(record.value)) for record in answer.records] == [
        *[(position, True, True) for position in (0, 1)],
        *[(position, True, False) for position in range(2, 8)],
        (8, False, False),
    ]
    assert [values.payload_of(record.value) for record in answer.records if record.position in {3, 7, 8}] == [
        b"old",
        b"new",
        b"open",
    ]


async def test_a_write_to_decided_positions_is_told_of_each() -> None:
    """The answer names each decided position, also where the value is the same, and if it has to be read from the disk."""
    node = Node()
    async with node.life() as life:
        await life.ask(write(0, b"a", b"b", b"c"))
        await life.ask(write(3, b"d", decided=3))
    async with node.life() as life:
        answer = await life.ask(write(0, b"a", b"OTHER", b"c", number=5))

    assert answer.verdict is Verdict.ACCEPT
    assert [(record.position, values.payload_of(record.value)) for record in answer.records] == [
        (0, b"a"),
        (1, b"b"),
        (2, b"c"),
    ]


async def test_more_reads_than_may_wait_are_refused(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    """Those that fit are answered in full."""
    monkeypatch.setattr(replica_service, "READS_MAX", 2)
    node = Node()
    async with node.life() as life:
        await life.ask(write(0, b"a", b"b"))
        await life.ask(write(2, b"c", decided=2))
    async with node.life() as life:
        pending = [life.soon(read(0, 2)) for _ in range(10)]
        outcomes = [await each() for each in pending]
    refused = [outcome for outcome in outcomes if isinstance(outcome, OverloadedError)]
    assert refused
    assert all(len(outcome.records) == 2 for outcome in outcomes if outcome not in refused)


# -- waiting ----------------------------------------------------------------------------------------------------------


async def test_who_waits_hears_of_what_is_decided(autojump_clock: MockClock) -> None:
    """At once when it is past what was asked for, and after some seconds in any case."""
    node = Node()
    async with node.life() as life:
        replica = await life.service.replica(LOG)
        assert not (await life.ask(write(0, b"a"))).has_waiters
        waiting, other = life.soon(WaitLearned(segment=LOG, past=0)), life.soon(WaitLearned(segment=LOG, past=5))
        assert (await life.ask(write(1, b"b"))).has_waiters, "so that the leader tells it at once"
        await life.ask(decide(1))

        assert (await waiting()).learned == 1
        assert not answered(other)
        assert (await other()).learned == 1, "after some seconds in any case"
        assert replica.core.waiting == 0


async def test_the_keeper_wakes_up_for_a_hole_only() -> None:
    """`wait_missing` returns while something is not known to be decided, and costs nothing otherwise."""
    node = Node()
    async with node.life() as life:
        replica = await life.service.replica(LOG)
        assert (await replica.wait_missing()).learned == 0
        await life.ask(write(0, b"a"))
        await life.ask(decide(1))
        with trio.move_on_after(0.01) as scope:  # noqa: TID251 - true time
            await replica.wait_missing()
        assert scope.cancelled_caught
        await life.ask(write(2, b"c"))
        assert (await replica.wait_missing()).end == 2


# -- bad disks --------------------------------------------------------------------------------------------------------


async def test_a_failed_store_ends_the_role_and_answers_nobody() -> None:
    """Callers get no answer, so no state that is in memory only is ever seen."""
    node = Node()
    async with node.life() as life:
        await life.service.replica(LOG)
        node.disk.fail_write()
        pending = life.soon(promise(3))
        await wait_all_tasks_blocked()
        assert [type(error) for error in life.failures] == [StorageError]
        assert not answered(pending)
        with pytest.raises(UnavailableError):
            await life.service.forget(5)


async def test_rot_ends_the_role() -> None:
    """Found by a reader: others have what is decided."""
    node = Node()
    async with node.life() as life:
        await life.ask(write(0, b"a", b"b"))
        await life.ask(write(2, b"c", decided=2))
    async with node.life() as life:
        await life.service.replica(LOG)
        node.disk.damage(disk_format.record_pair(LOG, PaxosRecord(position=1, promised=1))[0])
        assert isinstance(await life.ask(read(1, 2)), CorruptionError)
        assert [type(error) for error in life.failures] == [CorruptionError]


async def test_a_full_disk_takes_no_entries_and_all_that_ends_a_log() -> None:
    """Promises, fills, seals, truncations and reads go on; entries again once there is room."""
    node = Node()
    async with node.life() as life:
        await life.ask(write(0, b"a", b"b"))
        node.disk.faults.free_bytes = 100 << 10
        assert isinstance(await life.ask(write(2, b"c")), DiskFullError)
        assert isinstance(
            await life.ask(Learn(segment=LOG, records=(learned(2, values.append(b"c", 1)),))), DiskFullError
        )

        assert (await life.ask(promise(2, 0, 3))).verdict is Verdict.ACCEPT
        assert (await life.ask(write(0, b"a", b"b", number=2))).verdict is Verdict.ACCEPT
        end = attrs.evolve(write(2, number=2), values=(values.nop(), values.seal(1)))
        assert (await life.ask(end)).verdict is Verdict.ACCEPT
        assert len((await life.ask(attrs.evolve(read(0, 4)))).records) == 0
        assert (await life.ask(decide(3, number=2))).learned == 3
        assert len((await life.ask(read(0, 4))).records) == 3

        node.disk.faults.free_bytes = None
        assert (await life.ask(write(4, b"d", number=2))).verdict is Verdict.ACCEPT
        assert not life.failures


# -- founding ---------------------------------------------------------------------------------------------------------


# -- logs that come and go --------------------------------------------------------------------------------------------


async def test_what_cannot_be_meant_is_refused() -> None:
    """Nothing of it has been done, and the role goes on."""
    node = Node()
    damaged = bytearray(values.append(b"x", 1))
    damaged[-1] ^= 1
    bad = [
        promise(0),
        promise(1, 5, 5),
        promise(1, 0, 5000),
        write(0),
        write(-1, b"x"),
        write(1 << 60, b"x"),
        attrs.evolve(write(0, b"x"), values=(b"no value",)),
        attrs.evolve(write(0, b"x"), values=(bytes(damaged),)),
        decide(5, number=-1),
        Learn(segment=LOG, records=(attrs.evolve(learned(0, values.nop()), learned=False),)),
        PaxosRecover(segment=LOG, node=NodeId(2), incarnation=-5),
        WaitLearned(segment=LOG, past=1 << 63),
        TrimSealed(segment=LOG, offset=1 << 63),
        ReadRecords(segment=LOG, first=1 << 63, stop=5, max_bytes=1),
    ]
    async with node.life() as life:
        assert [type(await life.ask(request)) for request in bad] == [MalformedError] * len(bad)
        assert isinstance(await life.ask(write((1 << 28) + 1, b"x")), OverloadedError)
        standing = await life.ask(GetStanding(segment=LOG))
        assert (standing.end, standing.promised, standing.learned) == (0, 0, 0)
        assert not life.failures
