"""A replica as the parts of its own node know it, and what bounds its answers."""

from __future__ import annotations

import attrs
import pytest

from tests.loglets.paxos.drivers.replica_node import LEADER, LOG, THREE, Node, decide, learned, promise, read, write
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import OverloadedError, SealedError, TooLargeError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import replica, slots, values
from virtuallog_loglets.paxos.drivers import local_replica, replica_service
from virtuallog_loglets.paxos.messages import Learn, PaxosRecover, Promised, Status, Verdict

ANN = SessionId(b"a" * 16)


def batch(number: int) -> bytes:
    return Batch.build(ANN, number, [b"x"]).blob


async def test_the_digest_is_of_all_that_is_decided_without_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    """This holds for values in any order and on the disk only. The digest is a copy, which a leader may extend."""
    monkeypatch.setattr(slots, "RECENT_BYTES_MAX", 1)
    node = Node()
    async with node.life() as life:
        local = await life.service.replica(LOG)
        for place in (3, 1, 4, 2, 0, 6):
            await life.ask(Learn(segment=LOG, records=(learned(place, values.append(batch(place), 1)),)))
        assert local.core.slots.digest.stop < 5

        digest = await local.digest()

        (ann,) = digest.sessions()
        assert (digest.stop, ann.next_sequence, len(ann.last)) == (5, 5, 5)
        digest.take(5, values.append(batch(5), 1))
        assert (await local.digest()).stop == 5


async def test_a_closed_log_has_no_digest() -> None:
    """A closed log has no leader."""
    node = Node()
    async with node.life() as life:
        local = await life.service.replica(LOG)
        await life.ask(write(0, batch(0)))
        await life.ask(Learn(segment=LOG, records=(learned(1, values.seal(1)),), decided=decide(1).decided))
        assert list((await local.digest()).sessions()) == []


async def test_an_answer_to_a_promise_fits_into_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decided values are quoted up to a cap; a request for one position is always answered."""
    monkeypatch.setattr(local_replica, "QUOTE_BYTES_MAX", 2500)
    node = Node()
    async with node.life() as life:
        await life.ask(write(0, *[bytes(1000)] * 4, bytes(5000)))
        await life.ask(write(5, b"x", decided=5))
    async with node.life() as life:
        assert isinstance(await life.ask(promise(2, 0, 4)), TooLargeError)
        for first, stop in ((0, 2), (2, 4), (4, 5)):
            answer = await life.ask(promise(3, first, stop))
            assert isinstance(answer, Promised)
            assert [record.position for record in answer.records] == [*range(first, stop)]


async def test_a_request_of_the_same_node_is_answered_like_any_other() -> None:
    """The caller waits or gets a callback; errors are raised."""
    node = Node()
    async with node.life() as life:
        local = await life.service.replica(LOG)
        assert (await local.perform(write(0, b"a"))).verdict is Verdict.ACCEPT
        outcomes: list[object] = []
        local.post(write(1, b"b"), outcomes.append)
        assert (await local.perform(decide(2))).learned == 2
        assert [getattr(outcome, "verdict", None) for outcome in outcomes] == [Verdict.ACCEPT]
        assert [record.position for record in (await local.read(0, 5, 1000)).records] == [0, 1]
        await life.service.forget(LOG.version + 1)
        with pytest.raises(SealedError):
            await local.perform(write(2, b"c"))


async def test_nobody_makes_up_more_logs_than_there_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests for ever new logs would else fill the memory: those over the bound are refused."""
    monkeypatch.setattr(replica_service, "REPLICAS_MAX", 2)
    node = Node()
    names = [SegmentId(9, attempt) for attempt in range(3)]
    node.chain.update(dict.fromkeys(names, next(iter(node.chain.values()))))
    async with node.life() as life:
        answers = [await life.ask(promise(1, segment=name)) for name in names]
    assert [isinstance(answer, OverloadedError) for answer in answers] == [False, False, True]


async def test_nobody_makes_up_more_stores_than_there_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known stores are kept in every header: those beyond the cap are refused, and the replica keeps voting."""
    monkeypatch.setattr(replica, "INCARNATIONS_MAX", 2)
    node = Node()
    async with node.life() as life:
        answers = [
            await life.ask(PaxosRecover(segment=LOG, node=NodeId(number), incarnation=5)) for number in range(2, 6)
        ]
        assert [isinstance(answer, OverloadedError) for answer in answers] == [False, False, True, True]
        assert (await life.ask(promise(1))).verdict is Verdict.ACCEPT


async def test_a_read_behind_a_write_on_its_way_waits_for_it() -> None:
    """A decided value that is not in memory may not be on the disk yet; it is not missing."""
    node = Node()
    async with node.life() as life:
        await life.service.replica(LOG)
        node.disk.write_seconds = 0.01
        seal = life.soon(Learn(segment=LOG, records=tuple(learned(p, values.nop()) for p in range(3))))
        closed = life.soon(Learn(segment=LOG, records=(learned(3, values.seal(1)),)))
        assert [record.position for record in (await life.ask(read(0, 9))).records] == [0, 1, 2, 3]
        assert (await seal()).status is Status.VOTING
        assert (await closed()).seal == 3


async def test_members_are_remembered_without_the_chain() -> None:
    """A restart needs no register to know who takes part."""
    node = Node()
    async with node.life() as life:
        await life.ask(write(0, b"a"))
    node.chain.clear()
    async with node.life() as life:
        (local,) = life.made
        assert (local.ensemble().members, local.ensemble().quorum) == (THREE, 2)
        assert (await life.ask(attrs.evolve(write(1, b"b"), coordinator=LEADER))).verdict is Verdict.ACCEPT
