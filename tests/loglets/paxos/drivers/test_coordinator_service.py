"""Coordinators of nodes, asked by hand: who leads, who waits and who is sent elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.loglets.paxos.cluster import SEGMENT, Cluster, running_cluster
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import hooked
from virtuallog.contract.errors import MalformedError, OverloadedError, SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId
from virtuallog.exactly_once.session_digest import SessionDigest
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.paxos.core.coordinator import CoordinatorState
from virtuallog_loglets.paxos.core.leader_term import LeaderTerm
from virtuallog_loglets.paxos.core.values import ValueKind, kind_of, truncation_of
from virtuallog_loglets.paxos.drivers import coordinator_requests, coordinator_service
from virtuallog_loglets.paxos.drivers.coordinator_driver import CoordinatorDriver
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    CoordinatorReply,
    GetStanding,
    PaxosAppend,
    PaxosSeal,
    PaxosSettle,
    PaxosTruncate,
    PaxosWrite,
    Promise,
    Standing,
)

MockClock = trio.testing.MockClock
SESSION = b"session........."


def batch_of(sequence: int = 0, count: int = 1, session: bytes = SESSION) -> Batch:
    return Batch.build(SessionId(session), sequence, [b"x"] * count)


def append(batch: Batch, *, insist: bool = False, opens: bool | None = None, expected: int = NOWHERE) -> PaxosAppend:
    opens = batch.first_sequence == 0 if opens is None else opens
    return PaxosAppend(segment=SEGMENT, batch=batch.blob, opens=opens, expected_tail=expected, insist=insist)


async def ask(cluster: Cluster, node: int, request: Request[Any], seconds: float = 5.0) -> Any:
    """The answer, or the error."""
    try:
        return await cluster.environment().services.call(NodeId(node), request, seconds)
    except VirtualLogError as error:
        return error


def taken(place: int, coordinator: int = 1) -> CoordinatorReply:
    return CoordinatorReply(place=place, coordinator=NodeId(coordinator))


def running(cluster: Cluster, node: int) -> CoordinatorDriver:
    provider = cluster.nodes[NodeId(node)].provider
    assert provider is not None and provider.coordinators is not None
    (only,) = provider.coordinators.drivers
    return only


async def ask_all(cluster: Cluster, requests: list[tuple[int, Request[Any]]]) -> list[Any]:
    """At once; the answers in the order of the requests."""
    answers: list[Any] = [None] * len(requests)

    async def one(index: int, node: int, request: Request[Any]) -> None:
        answers[index] = await ask(cluster, node, request)

    async with trio.open_nursery() as nursery:
        for index, (node, request) in enumerate(requests):
            nursery.start_soon(one, index, node, request)
    return answers


async def test_who_is_asked_first_leads_and_the_others_say_so(autojump_clock: MockClock) -> None:
    """No node stands before the first request. From then on all replicas know the leader."""
    async with running_cluster() as cluster:
        cluster.create()

        assert await ask(cluster, 1, append(batch_of(0, 2))) == taken(0)
        assert await ask(cluster, 2, append(batch_of(2))) == taken(NOWHERE)
        assert await ask(cluster, 3, PaxosSeal(segment=SEGMENT)) == taken(NOWHERE)
        assert await ask(cluster, 1, append(batch_of(2))) == taken(SLOT)


async def test_who_insists_is_heard_and_a_batch_keeps_its_place(autojump_clock: MockClock) -> None:
    """Another node takes over; it knows what was placed before, and the former one learns that it leads no longer."""
    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, append(batch_of(0)))

        assert await ask(cluster, 2, append(batch_of(0), insist=True)) == taken(0, 2)
        assert await ask(cluster, 2, append(batch_of(1))) == taken(SLOT, 2)
        assert isinstance(await ask(cluster, 1, append(batch_of(1))), UnavailableError)
        assert await ask(cluster, 1, append(batch_of(1))) == taken(NOWHERE, 2)


async def test_a_dead_coordinator_is_followed_within_moments(autojump_clock: MockClock) -> None:
    """No heartbeats: the first request that insists makes another one stand."""
    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, append(batch_of(0)))
        cluster.crash(1)
        started = cluster.clock.monotonic()

        assert await ask(cluster, 2, append(batch_of(1))) == taken(NOWHERE)
        assert await ask(cluster, 2, append(batch_of(1), insist=True)) == taken(SLOT, 2)

        assert cluster.clock.monotonic() - started < 1.0


async def test_all_insist_at_once_and_one_of_them_leads(autojump_clock: MockClock) -> None:
    """A node that is not elected names the leader, or says that no leader is known; no answer is false.
    Then no more messages are sent."""
    async with running_cluster(5) as cluster:
        cluster.create(5)
        batches = {node: batch_of(session=bytes([node]) * 16) for node in range(1, 6)}
        open_for = dict(batches)
        for _ in range(10):
            requests: list[tuple[int, Request[Any]]] = [(n, append(b, insist=True)) for n, b in open_for.items()]
            for node, answer in zip(list(open_for), await ask_all(cluster, requests), strict=True):
                if isinstance(answer, CoordinatorReply) and answer.place != NOWHERE:
                    del open_for[node]
            if not open_for:
                break
        assert open_for == {}
        leading = [node for node in range(1, 6) if running(cluster, node).core.state is CoordinatorState.LEADING]
        places = [await ask(cluster, leading[-1], append(batch)) for batch in batches.values()]
        assert len({place.place for place in places if isinstance(place, CoordinatorReply)}) >= 1


async def test_requests_wait_for_an_election_and_not_too_many(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that came meanwhile are served in their order; what is too much is refused, and nothing was done."""
    monkeypatch.setattr(coordinator_requests, "EARLY_MAX", 3)
    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, GetStanding(segment=SEGMENT))
        cluster.gate = lambda _node, request: not isinstance(request, Promise)
        async with trio.open_nursery() as nursery:
            answers: list[Any] = []

            async def offer(sequence: int) -> None:
                answers.append((sequence, await ask(cluster, 1, append(batch_of(sequence)))))

            for sequence in range(4):
                nursery.start_soon(offer, sequence)
                await cluster.clock.sleep(0.01)
            cluster.release()
        refused = [outcome for _, outcome in answers if isinstance(outcome, OverloadedError)]
        assert len(refused) == 1
        assert [outcome for _, outcome in answers if isinstance(outcome, CoordinatorReply)] == [
            taken(0),
            taken(1),
            taken(2),
        ]


async def test_who_has_waited_too_long_for_an_election_is_not_served(autojump_clock: MockClock) -> None:
    """Its client has given up and may have asked another node since. The request that came in time
    is served, and is the first in the log."""
    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, GetStanding(segment=SEGMENT))
        cluster.gate = lambda _node, request: not isinstance(request, Promise)
        answers = dict[str, Any]()

        async def offer(name: str) -> None:
            answers[name] = await ask(cluster, 1, append(batch_of(session=name.encode() * 4)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(offer, "late")
            await cluster.clock.sleep(2.5)
            nursery.start_soon(offer, "soon")
            await cluster.clock.sleep(0.8)
            cluster.release()
        assert answers["soon"] == taken(0)
        assert isinstance(answers["late"], UnavailableError)


async def test_what_no_chain_names_has_no_coordinator(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain is asked, for a few segments at a time."""
    async with running_cluster() as cluster:
        made_up = PaxosSeal(segment=SegmentId(9, 9))

        assert isinstance(await ask(cluster, 1, made_up), SealedError)
        monkeypatch.setattr(coordinator_service, "EARLY_SEGMENTS_MAX", 0)
        assert isinstance(await ask(cluster, 1, made_up), OverloadedError)


async def test_a_sealed_log_says_so_for_ever(autojump_clock: MockClock) -> None:
    """Each node says so, also after a restart, whichever node closed the log; its tail is that of the SEAL."""
    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, append(batch_of(0)))
        assert await ask(cluster, 1, PaxosSeal(segment=SEGMENT)) == taken(SLOT)
        await cluster.clock.sleep(0.1)
        cluster.crash(3)
        await cluster.start(3)

        for node in (1, 2, 3):
            assert await ask(cluster, node, PaxosSeal(segment=SEGMENT)) == taken(SLOT, node)
            assert await ask(cluster, node, PaxosSettle(segment=SEGMENT)) == taken(SLOT, node)
            assert isinstance(await ask(cluster, node, append(batch_of(1))), SealedError)
            assert isinstance(await ask(cluster, node, PaxosTruncate(segment=SEGMENT, offset=0)), SealedError)


async def test_whoever_seals_may_die_before_it_tells_anybody(autojump_clock: MockClock) -> None:
    """The simulator kills coordinators there: the SEAL has a crash point of its own, once."""
    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, append(batch_of(0)))
        reached: list[str] = []
        with hooked(lambda point: reached.append(point.name)):
            await ask(cluster, 1, PaxosSeal(segment=SEGMENT))

        assert reached.count("paxos: a SEAL is decided, nobody has been told") == 1


async def test_a_truncation_carries_the_sessions_that_it_drops(autojump_clock: MockClock) -> None:
    """A batch that is gone from every disk still has its place, for who leads next. Nothing behind the tail is dropped, and
    the trim point never goes back."""
    async with running_cluster() as cluster:
        cluster.create()
        for sequence in range(3):
            await ask(cluster, 1, append(batch_of(sequence)))

        assert await ask(cluster, 1, PaxosTruncate(segment=SEGMENT, offset=2 * SLOT)) == taken(2 * SLOT)
        assert await ask(cluster, 1, PaxosTruncate(segment=SEGMENT, offset=SLOT)) == taken(2 * SLOT)
        tail = await ask(cluster, 1, PaxosSettle(segment=SEGMENT))
        assert await ask(cluster, 1, PaxosTruncate(segment=SEGMENT, offset=99 * SLOT)) == tail
        await cluster.clock.sleep(0.1)
        cluster.crash(1)

        assert await ask(cluster, 2, append(batch_of(1), insist=True)) == taken(SLOT, 2)
        standing = await ask(cluster, 2, GetStanding(segment=SEGMENT))
        assert isinstance(standing, Standing)
        assert standing.trim == tail.place


async def test_a_truncation_names_the_batches_that_it_drops(autojump_clock: MockClock) -> None:
    """A replica that has missed them knows their session from the TRUNCATE alone."""
    async with running_cluster() as cluster:
        cluster.create()
        for sequence in range(2):
            await ask(cluster, 1, append(batch_of(sequence)))
        truncations: list[bytes] = []

        def gate(_node: int, request: object) -> bool:
            if isinstance(request, PaxosWrite):
                truncations.extend(value for value in request.values if kind_of(value) is ValueKind.TRUNCATE)
            return True

        cluster.gate = gate
        await ask(cluster, 1, PaxosTruncate(segment=SEGMENT, offset=2 * SLOT))

        (session,) = SessionDigest.decode_untrusted(truncation_of(truncations[0]).digest).sessions()
        assert [batch.place for batch in session.last] == [0, SLOT]
        assert session.next_sequence == 2


async def test_what_is_decided_reaches_all_replicas_though_nothing_follows(autojump_clock: MockClock) -> None:
    """Some milliseconds of silence are enough; then nothing more is sent."""
    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, append(batch_of(0)))
        await cluster.clock.sleep(0.05)

        for node in (1, 2, 3):
            standing = await ask(cluster, node, GetStanding(segment=SEGMENT))
            assert (standing.learned, standing.coordinator) == (2, NodeId(1))


async def test_to_settle_names_a_tail_that_holds(autojump_clock: MockClock) -> None:
    """Settling names a valid tail: a coordinator that was outbid without knowing asks, and then says that it leads no longer."""
    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, append(batch_of(0)))
        assert await ask(cluster, 1, PaxosSettle(segment=SEGMENT)) == taken(SLOT)
        cluster.gate = lambda node, request: not (node == 1 and isinstance(request, PaxosWrite | Promise))
        await ask(cluster, 2, append(batch_of(1), insist=True))
        cluster.gate = lambda _node, _request: True

        assert isinstance(await ask(cluster, 1, PaxosSettle(segment=SEGMENT)), UnavailableError)
        assert await ask(cluster, 2, PaxosSettle(segment=SEGMENT)) == taken(2 * SLOT, 2)


async def test_without_a_quorum_it_gives_up(autojump_clock: MockClock) -> None:
    """Pending requests become maybe, and so do those that wait for an election."""
    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, append(batch_of(0)))
        cluster.crash(2)
        cluster.crash(3)

        outcomes = await ask_all(cluster, [(1, append(batch_of(1))), (1, PaxosSettle(segment=SEGMENT))])

        assert [type(outcome) for outcome in outcomes] == [UnavailableError, UnavailableError]
        assert isinstance(await ask(cluster, 1, append(batch_of(1)), 60.0), UnavailableError)
        await cluster.start(2)
        assert await ask(cluster, 1, append(batch_of(1))) == taken(SLOT)


async def test_what_was_dropped_is_refused_and_forgotten(autojump_clock: MockClock) -> None:
    """This holds for a coordinator at work as well: waiting callers get the error."""
    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, append(batch_of(0)))
        cluster.gate = lambda _node, request: not isinstance(request, PaxosWrite)
        provider = cluster.nodes[NodeId(1)].provider
        assert provider is not None and provider.coordinators is not None
        outcomes: list[Any] = []
        async with trio.open_nursery() as nursery:

            async def offer() -> None:
                outcomes.append(await ask(cluster, 1, append(batch_of(1))))

            nursery.start_soon(offer)
            await cluster.clock.sleep(0.1)
            await provider.forget(SEGMENT.version + 1)
        (outcome,) = outcomes
        assert isinstance(outcome, SealedError) and not outcome.refused
        again = await ask(cluster, 1, append(batch_of(1)))
        assert isinstance(again, SealedError) and again.refused
        assert list(provider.coordinators.drivers) == []


async def test_a_damaged_batch_is_refused(autojump_clock: MockClock) -> None:
    """Nothing here is corrupt: it was damaged on its way."""
    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, append(batch_of(0)))
        blob = bytearray(batch_of(1).blob)
        blob[-1] ^= 1

        outcome = await ask(cluster, 1, PaxosAppend(segment=SEGMENT, batch=bytes(blob), opens=False))

        assert isinstance(outcome, MalformedError)


async def test_a_broken_invariant_ends_the_role_and_not_the_connection(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is reported; the caller gets no answer, which is a maybe."""

    def broken(*_arguments: object) -> None:
        raise AssertionError("a broken invariant")

    async with running_cluster() as cluster:
        cluster.create()
        await ask(cluster, 1, append(batch_of(0)))
        monkeypatch.setattr(LeaderTerm, "turn", broken)

        assert isinstance(await ask(cluster, 1, append(batch_of(1)), 1.0), UnavailableError)
        assert {str(error) for error in cluster.nodes[NodeId(1)].failures} == {"a broken invariant"}
