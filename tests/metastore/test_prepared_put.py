"""Phase 1 of a put before its value is known (`SupportsPreparedPut`), and what a competitor does to it."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.metastore.test_client import die_half_way
from tests.metastore.world import THREE, A, B, C, World, simulated, world
from virtuallog.contract.errors import ChainConflictError, UnavailableError
from virtuallog.contract.ports import Outcome
from virtuallog_metastore.messages import Accept, Ask, Ballot, Learn, Prepare, Standing


def ballots(cluster: World) -> set[Ballot]:
    """Ballots of all proposals that reached an acceptor."""
    return {request.ballot for _, request in cluster.requests if isinstance(request, Accept)}


def version_of(answer: Outcome[Any]) -> int:
    assert isinstance(answer, Standing)
    assert answer.decision is not None
    return answer.decision.version


@simulated
async def test_a_prepared_put_proposes_at_once() -> None:
    """Its first phase is over, so only the votes are waited for."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        version, _ = await client.get()
        await client.prepare_put(version)
        cluster.requests.clear()

        assert await client.put(b"v", version, attempt=1) == 1
        assert cluster.count(Prepare) == 0
        assert await cluster.client().get() == (1, b"v")


@simulated
async def test_a_promise_is_used_for_one_proposal() -> None:
    """The next one, of another value for the same version, has a ballot of its own."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        version, _ = await client.get()
        await client.prepare_put(version)
        cluster.acceptors_lose(Accept, B, C)
        with pytest.raises(UnavailableError):
            await client.put(b"first", version, attempt=1)
        cluster.heal()
        used = ballots(cluster)

        with pytest.raises(ChainConflictError):
            await client.put(b"second", version, attempt=2)
        assert await client.get() == (1, b"first"), "A has accepted it, so the next proposer finishes it"
        assert len(used) > 1, "the put in doubt was repeated"
        assert not used & (ballots(cluster) - used)


@simulated
async def test_a_put_is_prepared_once() -> None:
    """Prepared again, it sends nothing: the promises stand."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        version, _ = await client.get()
        await client.prepare_put(version)
        cluster.requests.clear()

        await client.prepare_put(version)
        assert cluster.requests == []


@simulated
async def test_a_prepared_put_that_was_outbid_starts_anew() -> None:
    """A competitor prepares as well and dies: its promises block no other."""
    async with world() as cluster:
        await cluster.start(THREE)
        first, second = cluster.client(), cluster.client()
        for client in (first, second):
            version, _ = await client.get()
            await client.prepare_put(version)

        assert await first.put(b"v", version, attempt=1) == 1
        with pytest.raises(ChainConflictError):
            await second.put(b"w", version, attempt=2)
        assert await cluster.client().get() == (1, b"v")


@simulated
async def test_a_put_whose_preparation_was_outbid_goes_above_the_other_ballot() -> None:
    """Its loglet is sealed by then, and appends wait for the put: an attempt below a ballot that was seen is time lost."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        version, _ = await client.get()
        other = Ballot(round=7, node=0, boot=0, nonce=1)
        for node in THREE:
            basis = (await cluster.living_acceptor(node)).decision
            after = 0 if basis is None else basis.proposal.attempt
            cluster.handlers[node][Prepare](Prepare(slot=1, after=after, ballot=other), lambda _: None)
        await cluster.sleep(0.1)
        await client.prepare_put(version)
        cluster.requests.clear()

        assert await client.put(b"v", version, attempt=1) == 1
        assert {request.ballot.round for _, request in cluster.requests if isinstance(request, Prepare)} == {8}


@simulated
async def test_a_put_that_is_repeated_goes_above_its_own_ballot() -> None:
    """A ballot of the same round may be below the promise that it was given itself, and is refused for that."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        version, _ = await client.get()
        await client.prepare_put(version)
        cluster.acceptors_lose(Accept, B, C)
        with pytest.raises(UnavailableError):
            await client.put(b"v", version, attempt=1)

        rounds = [
            request.ballot.round for node, request in cluster.requests if node == A and isinstance(request, Prepare)
        ]
        assert len(rounds) > 1
        assert rounds == list(range(1, len(rounds) + 1))


@simulated
async def test_of_two_prepared_puts_one_wins() -> None:
    """At the same moment."""
    async with world() as cluster:
        await cluster.start(THREE)
        won: list[int] = []

        async def put(number: int) -> None:
            client = cluster.client()
            version, _ = await client.get()
            await client.prepare_put(version)
            try:
                await client.put(b"%d" % number, version, attempt=number)
            except ChainConflictError:
                return
            won.append(number)

        async with trio.open_nursery() as nursery:
            for number in range(1, 4):
                nursery.start_soon(put, number)

        assert len(won) == 1
        assert await cluster.client().get() == (1, b"%d" % won[0])


@simulated
async def test_a_preparation_finishes_what_a_dead_proposer_began() -> None:
    """It finds a vote, so the version is not its own: the put has lost before anything was sealed for it."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        version, _ = await client.get()
        await die_half_way(cluster, b"half", attempt=5, reached=(A,))
        cluster.isolate(C)

        await client.prepare_put(version)
        with pytest.raises(ChainConflictError):
            await client.put(b"mine", version, attempt=6)
        assert await cluster.client().get() == (1, b"half")


@simulated
async def test_without_a_majority_nothing_can_be_prepared() -> None:
    """A client that means to seal for this put learns it before the seal."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        version, _ = await client.get()
        cluster.crash(B, C)

        with pytest.raises(UnavailableError):
            await client.prepare_put(version)


@simulated
async def test_a_read_that_counts_the_votes_needs_no_further_round() -> None:
    """Its proposer is dead, and no member was taught. The read asks once; the next one teaches."""
    async with world() as cluster:
        await cluster.start(THREE)
        reader = cluster.client()
        await reader.get()
        cluster.acceptors_lose(Learn, *THREE)
        with pytest.raises(UnavailableError):
            await cluster.client().put(b"chosen", 0, attempt=5)
        cluster.heal()
        cluster.requests.clear()

        assert await reader.get() == (1, b"chosen")
        assert {type(request) for _, request in cluster.requests} == {Ask}
        assert await reader.get() == (1, b"chosen")
        assert cluster.count(Learn) >= 2


@simulated
async def test_an_acceptor_that_is_taught_tells_its_node() -> None:
    """Once for each decision, and not after its write: the sequencer that a new chain names may be on this node."""
    async with world() as cluster:
        await cluster.start(THREE)
        writer = cluster.client()
        assert cluster.taught == [], "version 0 has no value"
        for node in THREE:
            cluster.disk(node).write_seconds = 0.4
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writer.put, b"v", 0, 1)
            while not cluster.learned:
                await cluster.sleep(0.01)
            await cluster.sleep(0.2)
            assert sorted(cluster.taught)[:2] == [(A, b"v"), (B, b"v")]
        await cluster.sleep(5)

        assert sorted(cluster.taught) == [(node, b"v") for node in THREE]


@simulated
async def test_a_closed_slot_is_shown_while_the_disk_is_busy_with_it() -> None:
    """A decision is true, also if this disk fails: a client that waits for it does not wait for the write."""
    async with world() as cluster:
        await cluster.start(THREE)
        writer = cluster.client()
        await writer.put(b"v", 0, attempt=1)
        acceptor = await cluster.living_acceptor(A)
        assert acceptor.decision is not None
        decision = acceptor.decision.next(b"w", THREE, 2)
        learn = Learn(type(acceptor.decision)(version=2, proposal=decision))
        cluster.disk(A).write_seconds = 5.0
        order: list[str] = []

        cluster.handlers[A][Learn](learn, lambda _: order.append("learned"))
        await cluster.sleep(0.1)
        cluster.handlers[A][Ask](Ask(slot=2, after=1), lambda answer: order.append(f"version {version_of(answer)}"))
        cluster.handlers[A][Ask](Ask(slot=3, after=2), lambda _: order.append("open slot"))
        await cluster.sleep(20)

        assert order == ["version 2", "learned", "open slot"]
