"""The service of a replica: stores that are lost, replaced or full."""

from __future__ import annotations

from typing import Any, cast

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.loglets.paxos.drivers.replica_node import ALONE, LEADER, LOG, OLD, THREE, Node, learned, promise, read, write
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import SealedError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.config import PaxosConfig
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.drivers import disk_format
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    GetStanding,
    Learn,
    PaxosRecover,
    Status,
    TrimSealed,
    Verdict,
    WaitLearned,
)


async def test_a_new_directory_votes_for_what_came_after_it() -> None:
    """The node joined in version 5: a former directory of it may have promised numbers in loglets
    up to that version."""
    node = Node(joined=5, boot=77)
    async with node.life() as life:
        assert (await life.service.replica(LOG)).core.status is Status.VOTING
        assert (await life.service.replica(OLD)).core.status is Status.EMPTY
        assert [replica.segment for replica in life.made] == [LOG, OLD]
        assert (await life.ask(GetStanding(segment=LOG))).incarnation == (5 << 40) + 77
        assert (await life.ask(promise(2, segment=OLD))).verdict is Verdict.IGNORED
        await life.ask(promise(2))
    async with node.life() as life:
        assert [replica.segment for replica in life.made] == [LOG]
        standing = await life.ask(GetStanding(segment=LOG))
        assert (standing.promised, standing.incarnation) == (2, (5 << 40) + 77), "the store is the same"
        assert (await life.service.replica(OLD)).core.status is Status.EMPTY


async def test_a_store_that_was_deleted_knows_nothing_until_it_knows_the_register(autojump_clock: MockClock) -> None:
    """The node serves meanwhile. Then it votes on later loglets and recovers the others. Its
    incarnation has grown."""
    node = Node()
    async with node.life() as life:
        first = (await life.ask(GetStanding(segment=LOG))).incarnation
    node.disk.wipe()
    node.version = UnavailableError("no majority")
    async with node.life() as life:
        assert isinstance(await life.ask(promise(9)), UnavailableError)
        with pytest.raises(UnavailableError):
            await life.service.replica(LOG)
        node.version = 6
        await trio.sleep(1.0)  # noqa: TID251 - true time
        assert (await life.service.replica(LOG)).core.status is Status.VOTING
        assert (await life.service.replica(OLD)).core.status is Status.EMPTY
        assert (await life.ask(GetStanding(segment=LOG))).incarnation > first
    node.version = 100
    async with node.life() as life:
        assert (await life.service.replica(LOG)).core.status is Status.VOTING, "the founding is remembered"


async def test_a_crash_before_the_register_is_read_changes_nothing(autojump_clock: MockClock) -> None:
    """The next life reads it, and a log that is not newer than what it finds there does not vote before it has
    recovered."""
    node = Node(fresh=False, version=UnavailableError("no majority"))
    async with node.life() as life:
        assert isinstance(await life.ask(promise(9)), UnavailableError)
    node.version = 7
    async with node.life() as life:
        await wait_all_tasks_blocked()
        assert (await life.service.replica(LOG)).core.status is Status.EMPTY


async def test_recovery_is_durable() -> None:
    """Promise, beginning and stores of others come with the vote."""
    node = Node(joined=9)
    async with node.life() as life:
        replica = await life.service.replica(LOG)
        assert (await life.ask(PaxosRecover(segment=LOG, node=NodeId(3), incarnation=4))).status is Status.EMPTY
        told = replica.core.incarnations
        await replica.adopt(Status.VOTING, 12, begin=30, trim=5 << 16, incarnations=told)
    async with node.life() as life:
        standing = await life.ask(GetStanding(segment=LOG))
        assert (standing.status, standing.promised, standing.begin, standing.learned) == (Status.VOTING, 12, 30, 30)
        assert (standing.trim, standing.incarnations) == (5 << 16, told)
        assert (await life.ask(promise(12))).verdict is Verdict.REJECT


async def test_the_chain_says_which_replicas_there_are() -> None:
    """Not named: none. Dropped: sealed. Another kind, or a register that cannot be read: an error, and nothing is made."""
    node = Node()
    node.chain[SegmentId(8, 1)] = PaxosConfig(replicas=(NodeId(2), NodeId(3)), coordinator=LEADER)
    node.chain[SegmentId(8, 2)] = UnavailableError("no majority")
    async with node.life() as life:
        for attempt, error in ((1, UnavailableError), (2, UnavailableError), (3, SealedError)):
            assert isinstance(await life.ask(promise(1, segment=SegmentId(8, attempt))), error)
        assert not life.service.replicas
        assert [key for key in node.disk.pairs if key != disk_format.INCARNATION_KEY] == []


async def test_a_closed_log_is_copied_to_a_node_that_the_chain_does_not_name() -> None:
    """Only a rebuild makes the copy. It never votes, and answers for the log once it is whole; a
    restart changes none of that."""
    node = Node()
    node.chain[LOG] = PaxosConfig(replicas=(NodeId(2), NodeId(3)), coordinator=LEADER)
    content = tuple(learned(place, values.append(b"x", 1)) for place in range(3)), (learned(3, values.seal(1)),)
    async with node.life() as life:
        assert isinstance(await life.ask(Learn(segment=LOG, records=content[0])), UnavailableError)
        standing = await life.ask(Learn(segment=LOG, records=content[1], rebuilds=True))
        assert (standing.status, standing.learned, standing.seal) == (Status.EMPTY, 0, NOWHERE)
        assert (await life.ask(Learn(segment=LOG, records=content[0], rebuilds=True))).seal == 3
        assert (await life.ask(promise(5))).verdict is Verdict.IGNORED
    async with node.life() as life:
        standing = await life.ask(GetStanding(segment=LOG))
        assert (standing.status, standing.seal) == (Status.EMPTY, 3)
        assert [record.position for record in (await life.ask(read(0, 10))).records] == [0, 1, 2, 3]
        assert (await life.ask(TrimSealed(segment=LOG, offset=1 << 40))).begin == 3
        assert not life.made
    assert sum(key[:1] == b"r" for key in node.disk.pairs) == 1


async def test_a_log_that_was_moved_here_does_not_vote() -> None:
    """Its store is older than the log, yet it has nothing of it: an empty vote would be a lie."""
    node = Node()
    node.chain[LOG] = PaxosConfig(replicas=THREE, coordinator=LEADER, loglet=LOG)
    async with node.life() as life:
        assert (await life.service.replica(LOG)).core.status is Status.EMPTY


async def test_dropped_logs_are_gone_for_good() -> None:
    """Waiting callers get an error, nothing is left on the disk, and no request brings the log back."""
    node = Node()
    async with node.life() as life:
        for segment in (LOG, OLD):
            await life.ask(write(0, b"a", segment=segment))
        waiting = life.soon(WaitLearned(segment=OLD, past=0))
        await life.service.forget(3)
        assert isinstance(await waiting(), SealedError)
        assert isinstance(await life.ask(write(1, b"b", segment=OLD)), SealedError)
        assert {key[8] for key in node.disk.pairs if key != disk_format.INCARNATION_KEY} == {7}
    async with node.life() as life:
        assert isinstance(await life.ask(write(1, b"b", segment=OLD)), SealedError)
        await life.service.sweep_loglets(6, [])
        assert (await life.ask(GetStanding(segment=LOG))).end == 0
        await life.service.sweep_loglets(7, [LOG])
        assert (await life.ask(GetStanding(segment=LOG))).end == 0
        await life.service.sweep_loglets(7, [])
        assert [key for key in node.disk.pairs if key != disk_format.INCARNATION_KEY] == []


async def test_a_log_that_is_used_by_itself_is_in_no_chain() -> None:
    """The caller of `add` gives ensemble and initial status; the state in the store takes precedence."""
    node = Node()
    async with node.life() as life:
        replica = life.service.add(ALONE, lambda: cast(Any, "everybody"), Status.EMPTY)
        assert replica.core.status is Status.EMPTY
        await replica.adopt(Status.VOTING)
        await replica.perform(write(0, b"a", segment=ALONE))
    async with node.life() as life:
        replica = life.service.add(ALONE, lambda: cast(Any, "others"), Status.EMPTY)
        assert (replica.core.status, replica.core.end) == (Status.VOTING, 0)
        assert cast(Any, replica.ensemble()) == "others"
        assert not life.made
