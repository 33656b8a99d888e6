"""Members of a log used by itself: one voter at a time, newcomers that learn first, tombstones, and refusals by name."""

from __future__ import annotations

import pytest
import trio

from tests.loglets.raft.standalone.world import Machine, World, playing
from tests.metastore.world import simulated
from virtuallog.contract.errors import (
    InvalidSettingError,
    MalformedError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
)
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.membership import MemberKind
from virtuallog_loglets.raft.core.transitions import RaftRole
from virtuallog_loglets.raft.messages import AppendRecords, ChangeLogMember, LeaderReply, RequestVote, VoteAnswer
from virtuallog_loglets.raft.standalone.client import SEGMENT
from virtuallog_loglets.raft.standalone.membership_service import ASK_SECONDS, TELL_ATTEMPTS, TELL_PAUSE_SECONDS


def kinds(at: Machine) -> dict[NodeId, int]:
    return {member.store: member.kind for member in at.local.members}


async def removed(world: World) -> tuple[Machine, Machine, Machine]:
    """Three voters, the last of which was removed, and knows it."""
    one, two, three = await world.found(3)
    for data in (b"a", b"b"):
        await one.log.append(data)
    await one.log.remove(three.store)
    await world.until(lambda: three.local.removed)
    return one, two, three


async def with_a_newcomer(world: World) -> tuple[Machine, Machine]:
    """A log of one voter with many entries, and a store that was added and is sent nothing."""
    (one,) = await world.found(1)
    for number in range(200):
        await one.log.append(b"%d" % number)
    two = await world.format()
    await world.start(two)
    assert two.role is RaftRole.NON_PARTICIPANT
    world.gate = lambda machine, request: machine is not two or not isinstance(request, AppendRecords)
    await one.log.add(two.store, two.identity.address)
    return one, two


@simulated
async def test_a_new_member_learns_first_and_votes_once_it_has_caught_up() -> None:
    """Before, it counts for nothing: one voter is a majority of one."""
    async with playing() as world:
        one, two = await with_a_newcomer(world)
        await one.log.append(b"last")
        assert kinds(one) == {one.store: MemberKind.VOTER, two.store: MemberKind.PRE_VOTER}

        world.gate = lambda _machine, _request: True
        await world.until(lambda: world.is_voter(one, two))

        assert len(await two.entries(linearizable=True)) == 201
        assert two.role is RaftRole.FOLLOWER


@simulated
async def test_a_newcomer_that_never_catches_up_holds_up_nothing_and_can_be_removed() -> None:
    """It stays a PRE_VOTER."""
    async with playing() as world:
        one, two = await with_a_newcomer(world)
        await trio.sleep(5)  # noqa: TID251 -- simulated
        world.crash(two)

        assert kinds(one)[two.store] == MemberKind.PRE_VOTER
        assert await one.log.append(b"last") == 200
        await one.log.remove(two.store)
        assert kinds(one) == {one.store: MemberKind.VOTER}


@simulated
async def test_an_observer_receives_everything_and_never_votes() -> None:
    """The log goes on without it, and it reads linearizably as any other."""
    async with playing() as world:
        (one,) = await world.found(1)
        two = await world.format()
        await world.start(two)
        await one.log.add(two.store, "host:2", observer=True)
        await two.log.append(b"a")

        assert await two.entries(linearizable=True) == [b"a"]
        assert (two.role, kinds(two)[two.store]) == (RaftRole.LEARNER, MemberKind.OBSERVER)
        world.crash(two)
        assert await one.log.append(b"b") == 1


@simulated
async def test_a_lost_disk_is_a_new_member_with_a_new_number() -> None:
    """Two of three disks in a row are lost and replaced, each by a store of its own: nothing acknowledged is lost, as no blank
    store votes in the place of one that had acknowledged (the counterexample of one and two of three, under one number)."""
    async with playing() as world:
        one, two, three = await world.found(3)
        await one.log.append(b"a")
        for lost in (three, two):
            world.crash(lost)
            fresh = await world.format(address="host:9")
            await world.start(fresh)
            assert fresh.store != lost.store
            await world.add(one, fresh)
            await one.log.remove(lost.store)
            await one.log.append(b"b")
            assert (await fresh.entries(linearizable=True))[0] == b"a"

        assert len(one.local.members) == 3
        assert {two.store, three.store}.isdisjoint(kinds(one))


@simulated
async def test_a_blank_store_is_asked_for_no_vote_in_the_place_of_a_lost_one() -> None:
    """Its number is another one: the log's members do not name it, so its votes would not count."""
    async with playing() as world:
        one, two, three = await world.found(3)
        world.crash(three)
        fresh = await world.format()
        await world.start(fresh)
        world.crash(two)
        with pytest.raises(UnavailableError):
            await one.log.append(b"a")

        assert (fresh.local.standing.term, fresh.role) == (0, RaftRole.NON_PARTICIPANT)


@simulated
async def test_the_leader_is_not_removed_but_after_a_transfer() -> None:
    """The refusal says what to do. The transfer loses no append."""
    async with playing() as world:
        one, two, three = await world.found(3)
        with pytest.raises(InvalidSettingError, match="transfer the leadership first"):
            await two.log.remove(one.store)
        await one.log.append(b"a")

        await two.log.transfer(two.store)
        assert (one.role, two.role) == (RaftRole.FOLLOWER, RaftRole.LEADER)
        await two.log.remove(one.store)
        await world.until(lambda: one.local.removed)

        assert await three.log.append(b"b") == 1
        assert await three.entries(linearizable=True) == [b"a", b"b"]


@simulated
async def test_a_transfer_to_itself_is_done_and_one_to_an_unknown_store_is_refused() -> None:
    """A learner cannot lead either."""
    async with playing() as world:
        one, two = await world.found(2)
        await two.log.transfer(one.store)
        observer = await world.format()
        await world.start(observer)
        await one.log.add(observer.store, "host:3", observer=True)

        for target in (NodeId(7), observer.store):
            with pytest.raises(InvalidSettingError, match="is no voter of this log"):
                await one.log.transfer(target)
        assert one.role is RaftRole.LEADER


@simulated
async def test_a_change_by_an_operator_who_has_not_seen_the_last_one_is_refused() -> None:
    """Compare and set on the index of the members."""
    async with playing() as world:
        one, two, three = await world.found(3)
        seen = one.local.index
        await one.log.remove(three.store, seen=seen)

        with pytest.raises(InvalidSettingError, match="they have been changed by the record"):
            await one.log.remove(two.store, seen=seen)
        assert set(kinds(one)) == {one.store, two.store}


@simulated
async def test_a_newcomer_that_gets_its_vote_meanwhile_is_no_change_of_another_operator() -> None:
    """The leader promotes it between an operator's look at the members and the change that the operator asks for."""
    async with playing() as world:
        one, two, three = await world.found(3)
        four = await world.format()
        await world.start(four)
        world.gate = lambda machine, request: machine is not four or not isinstance(request, AppendRecords)
        await one.log.add(four.store, four.identity.address)
        assert kinds(one)[four.store] == MemberKind.PRE_VOTER

        world.gate = lambda _, request: not isinstance(request, ChangeLogMember) or world.is_voter(one, four)
        await two.log.remove(three.store)

        voter = MemberKind.VOTER
        assert kinds(one) == {one.store: voter, two.store: voter, four.store: voter}


@simulated
async def test_a_second_change_is_refused_while_the_first_one_is_pending() -> None:
    """The first one waits for a majority; the second one does nothing."""
    async with playing() as world:
        one, two, three = await world.found(3)
        world.isolate(two)
        world.isolate(three)
        seen, answers = one.local.index, list[object]()
        for number in (1, 2):
            step = ChangeLogMember(segment=SEGMENT, store=(two, three)[number - 1].store, kind=0, seen=seen)
            one.log.driver.step(step, answers.append)

        assert [str(answer) for answer in answers] == [
            f"another change, in the record at {one.local.index}, is not committed yet"
        ]
        assert isinstance(answers[0], UnavailableError)


@simulated
async def test_two_operators_at_once_make_one_change_after_the_other() -> None:
    """Each is done, or refused by name; no two voters change at once."""
    async with playing() as world:
        one, two, three = await world.found(3)
        refused = list[VirtualLogError]()

        async def remove(through: Machine, machine: Machine) -> None:
            try:
                await through.log.remove(machine.store)
            except InvalidSettingError as error:
                refused.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(remove, two, three)
            nursery.start_soon(remove, three, two)

        await world.until(lambda: one.local.standing.commit_index >= one.local.index)
        assert len(kinds(one)) == 1 + len(refused)


@simulated
async def test_members_that_cannot_be_are_refused_by_name() -> None:
    """One line each; nothing is done."""
    async with playing() as world:
        one, two = await world.found(2)
        before = one.local.index
        stranger = await world.format(founds=True)
        await world.start(stranger)
        for store, address, reason in (
            (two.store, "host:2", "is a member already"),
            (stranger.store, "host:3", "has joined a log already"),
            (NodeId(77), "host:4", "does not answer"),
        ):
            with pytest.raises(InvalidSettingError, match=reason) as refused:
                await one.log.add(store, address)
            assert "\n" not in str(refused.value)
        with pytest.raises(InvalidSettingError, match="is no member"):
            await one.log.remove(NodeId(77))

        assert one.local.index == before


@simulated
async def test_a_removed_store_is_a_tombstone() -> None:
    """It keeps what it has, votes by its last record, takes no records, and is a member never again, restarted or not."""
    async with playing() as world:
        one, two, three = await removed(world)
        await one.log.append(b"b")
        for _ in range(2):
            assert (await three.entries())[:1] == [b"a"]
            assert (three.role, three.local.removed) == (RaftRole.NON_PARTICIPANT, True)
            with pytest.raises(InvalidSettingError, match="was removed from a log"):
                await one.log.add(three.store, three.identity.address)
            sent = AppendRecords(
                segment=SEGMENT, term=99, leader=one.store, previous_index=0, previous_term=0, commit=0
            )
            with pytest.raises(UnsupportedError, match="for good"):
                await world.send(sent, three, through=one)
            world.crash(three)
            await world.start(three)

        standing = three.local.standing
        for term, last_index, granted in ((98, standing.last_index - 1, False), (99, standing.last_index, True)):
            question = RequestVote(
                segment=SEGMENT, term=term, candidate=two.store, last_index=last_index, last_term=standing.term
            )
            answer = await world.send(question, three, through=two)
            assert answer == VoteAnswer(granted=granted, term=term)


@simulated
async def test_a_removed_store_that_was_away_disturbs_no_leader_and_learns_of_its_removal() -> None:
    """It could not be told. The members refuse it their votes, and answer that it was removed; so it stands no more, also later."""
    async with playing() as world:
        one, two, three = await world.found(3)
        world.crash(three)
        await one.log.remove(three.store)
        await trio.sleep(30)  # noqa: TID251 -- simulated: the leader gives up to tell it
        await world.start(three)
        await trio.sleep(10)  # noqa: TID251 -- simulated
        term = one.local.standing.term

        assert (one.role, two.role) == (RaftRole.LEADER, RaftRole.FOLLOWER)
        assert three.local.standing.term == term == 1
        assert (three.role, three.local.removed) == (RaftRole.NON_PARTICIPANT, True)
        assert await one.log.append(b"a") == 0
        world.crash(three)
        await world.start(three)
        assert three.local.removed
        assert [row.kind for row in await one.log.status()] == ["VOTER", "VOTER"]


# -- bad input --------------------------------------------------------------------------------------------------------


@simulated
async def test_a_message_of_an_older_term_changes_nothing() -> None:
    """A deposed leader is answered with the present term."""
    async with playing() as world:
        one, two, three = await world.found(3)
        await two.log.transfer(two.store)
        before = three.local
        late = AppendRecords(segment=SEGMENT, term=1, leader=one.store, previous_index=1, previous_term=1, commit=50)
        answer = await world.send(late, three, through=one)

        assert (answer.accepted, answer.term) == (False, 2)
        assert three.local == before


@simulated
async def test_records_that_cannot_be_read_are_refused() -> None:
    """Garbage and a record of another log: an error, and nothing is done."""
    async with playing() as world:
        one, two = await world.found(2)
        before = two.local.standing.last_index
        for blob in (b"", b"VR\x02", bytes(100)):
            sent = AppendRecords(
                segment=SEGMENT, term=1, leader=one.store, previous_index=before, previous_term=1, commit=0, records=(blob,)
            )  # fmt: skip
            with pytest.raises(MalformedError, match="records cannot be read"):
                await world.send(sent, two, through=one)

        assert two.local.standing.last_index == before
        assert await one.log.append(b"a") == 0


@simulated
async def test_a_request_to_a_store_that_does_not_lead_names_the_leader() -> None:
    """Nothing is done there."""
    async with playing() as world:
        one, two = await world.found(2)
        change = ChangeLogMember(segment=SEGMENT, store=two.store, kind=0, seen=0)

        assert await world.send(change, two, through=one) == LeaderReply(place=-1, leader=one.store)


@simulated
async def test_a_client_that_reaches_only_a_former_member_keeps_the_newer_members() -> None:
    """A store was removed while it was down, and comes back with the members of then. It is all that a client reaches for a while. If
    the client took its word, it would forget the stores that have come since."""
    async with playing() as world:
        one, two, three = await world.found(3)
        world.crash(three)
        await one.log.remove(three.store)
        four = await world.format(address="host:4")
        await world.start(four)
        await world.add(one, four)
        await trio.sleep(TELL_ATTEMPTS * (ASK_SECONDS + TELL_PAUSE_SECONDS))  # noqa: TID251 -- simulated
        await world.start(three)
        client = world.client(one, three)
        view = await client.discover()
        for machine in (one, two, four):
            world.isolate(machine)

        assert (await client.discover()).members == view.members
