"""The acceptor's state on disk, and the failures of its service."""

from __future__ import annotations

import random
from typing import Any

import crc32c
import pytest

from tests.metastore.messages import GENESIS, ballot, decision, vote
from tests.metastore.world import THREE, A, B, simulated, world
from virtuallog.contract.errors import CorruptionError, MalformedError, OverloadedError, StorageError
from virtuallog.rpc.protocol.methods import bind
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.key_values import SimulatedKeyValues, SimulatedKeyValuesDisk
from virtuallog.testing.sim.process import Process
from virtuallog_metastore import records
from virtuallog_metastore.core.acceptor import Acceptor, PersistBallots, PersistDecision
from virtuallog_metastore.drivers.acceptor_driver import QUEUE_MAX
from virtuallog_metastore.messages import Learn, Learned
from virtuallog_metastore.provider import PaxosProvider
from virtuallog_metastore.wire import ACCEPTOR

BALLOTS = PersistBallots(slot=4, promised=ballot(9), accepted=vote(7, b"v"))


def opened() -> tuple[SimulatedKeyValuesDisk, SimulatedKeyValues]:
    disk = SimulatedKeyValuesDisk(random.Random(1))
    return disk, disk.open(Process(A), SimulatedClock(Process(A)))


async def test_state_comes_back() -> None:
    """An acceptor is restored as it was, from nothing, with ballots, and after a decision closed their slot."""
    _, store = opened()
    assert await records.restore(store) == Acceptor()
    await store.write(records.changes(PersistDecision(decision(3))))
    await store.write(records.changes(BALLOTS))
    assert await records.restore(store) == Acceptor(decision(3), BALLOTS.promised, BALLOTS.accepted)
    await store.write(records.changes(PersistDecision(decision(4))))
    assert await records.restore(store) == Acceptor(decision(4))


@pytest.mark.parametrize("key", [records.DECISION, records.BALLOTS])
async def test_every_flipped_bit_is_noticed(key: bytes) -> None:
    """A damaged record is never read as another one, nor as one of a later format."""
    disk, store = opened()
    await store.write(records.changes(PersistDecision(decision(3))))
    await store.write(records.changes(BALLOTS))
    whole = disk.pairs[key]
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        disk.pairs[key] = bytes(damaged)
        with pytest.raises(CorruptionError):
            await records.restore(store)


@pytest.mark.parametrize("length", [0, 1, 6, 7, 20])
async def test_cut_record_is_noticed(length: int) -> None:
    """A cut record is noticed, also one without even a header."""
    disk, store = opened()
    await store.write(records.changes(PersistDecision(decision(3))))
    disk.pairs[records.DECISION] = disk.pairs[records.DECISION][:length]

    with pytest.raises(CorruptionError):
        await records.restore(store)


async def test_later_format_is_refused() -> None:
    """A whole record of a format that this program does not know is refused."""
    disk, store = opened()
    body = b"\x02whatever it will be"
    disk.pairs[records.DECISION] = b"VM" + crc32c.crc32c(body).to_bytes(4, "little") + body

    with pytest.raises(MalformedError, match="format 2"):
        await records.restore(store)


async def test_records_that_do_not_fit_together_are_refused() -> None:
    """Ballots of a slot that the decision beside them does not lead to are refused: one of the two
    is from a backup."""
    _, store = opened()
    await store.write(records.changes(PersistDecision(decision(2))))
    await store.write(records.changes(BALLOTS))

    with pytest.raises(CorruptionError):
        await records.restore(store)


def test_schema_and_messages_pair() -> None:
    """Every message has its struct, every method its request, so a mistake does not show on the wire."""
    methods = bind(PaxosProvider().interfaces)

    assert {method.request for method in ACCEPTOR.methods} <= methods.by_request.keys()
    for message in (Learn(GENESIS), Learn(decision(5))):
        params = methods.by_request[Learn].params
        assert params.decode_untrusted(params.encode(message)) == message


@simulated
async def test_damaged_node_does_not_start() -> None:
    """A node with a damaged record does not start: it must not answer as if it had never promised
    anything."""
    async with world() as cluster:
        await cluster.start(THREE)
        await cluster.client().put(b"v", 0, attempt=1)
        cluster.crash(B)
        cluster.disk(B).damage(records.DECISION)

        with pytest.raises(CorruptionError):
            await cluster.start((B,))


@simulated
async def test_queue_is_bounded_and_answers_come_in_order() -> None:
    """While the disk is slow requests wait; one too many is refused at once, with nothing done."""
    async with world() as cluster:
        cluster.disk(A).write_seconds = 1.0
        await cluster.start((A,))
        answers: list[Any] = []
        handler = cluster.handlers[A][Learn]
        for version in range(1, QUEUE_MAX + 3):
            handler(Learn(decision(version)), answers.append)
        refused = [answer for answer in answers if isinstance(answer, OverloadedError)]
        await cluster.sleep(2.0 * QUEUE_MAX)

        assert len(refused) in {1, 2}, "the queue, and perhaps the one being served"
        learned = [answer.known for answer in answers if isinstance(answer, Learned)]
        assert learned == list(range(1, QUEUE_MAX + 3 - len(refused)))


@simulated
async def test_after_a_failed_write_every_answer_is_the_failure() -> None:
    """After a failed write every answer is the failure, also for readers: the acceptor in memory is
    ahead of its disk."""
    async with world() as cluster:
        await cluster.start((A,))
        cluster.disk(A).fail_write()
        answers: list[Any] = []
        for version in (1, 2):
            cluster.handlers[A][Learn](Learn(decision(version)), answers.append)
        await cluster.sleep(1.0)

        assert [type(answer) for answer in answers] == [StorageError, StorageError]
        assert [node for node, _ in cluster.failures] == [A]
