"""Acceptors that restart, or lose their disk, under a client."""

from __future__ import annotations

import pytest

from tests.metastore.test_client import die_half_way, outcome
from tests.metastore.world import FIVE, THREE, A, B, C, World, simulated, world
from virtuallog.contract.errors import ChainConflictError, UnavailableError
from virtuallog_metastore.messages import Ballot, Prepare


@simulated
async def test_acceptor_restarts_keep_promises_and_votes() -> None:
    """23: promises and votes survive a restart of all acceptors between the vote and the read."""
    async with world() as cluster:
        await cluster.start(THREE)
        await die_half_way(cluster, b"half", attempt=5, reached=(A, B))
        before = [await cluster.living_acceptor(node) for node in THREE]
        cluster.crash(*THREE)
        assert [await cluster.acceptor(node) for node in THREE] == before

        await cluster.start(THREE)
        cluster.isolate(C)
        assert await cluster.client().get() == (1, b"half")


@simulated
async def test_static_members_count_on_the_first_start_only() -> None:
    """A changed configuration file does not rewrite version 0."""
    async with world() as cluster:
        await cluster.start(THREE)
        await cluster.client().get()
        cluster.crash(*THREE)
        await cluster.start(THREE, members=FIVE)

        decision = (await cluster.living_acceptor(A)).decision
        assert decision is not None
        assert decision.members == THREE


@pytest.mark.parametrize("write", range(3))
@simulated
async def test_crash_within_a_write_leaves_a_state_from_before_or_after(write: int) -> None:
    """23: one value is decided, with any part of a promise, vote or decision on A's disk after a
    power loss."""
    for seed in range(8):
        async with world(seed) as cluster:
            await cluster.start(THREE)
            cluster.isolate(C)
            cluster.disk(A).write_seconds = 0.1
            begun = cluster.disk(A).writes + write

            async def crash_within_the_write(cluster: World = cluster, begun: int = begun) -> None:
                while cluster.disk(A).writes <= begun:
                    await cluster.sleep(0.01)
                cluster.crash(A)
                cluster.heal()
                await cluster.start((A,))

            cluster.nursery.start_soon(crash_within_the_write)
            first = await outcome(cluster.client(), b"one", 0, 1)
            second = await outcome(cluster.client(), b"two", 0, 2)

            assert {type(first), type(second)} <= {int, ChainConflictError, UnavailableError}
            version, value = await cluster.client().get()
            assert (version, value) in {(1, b"one"), (1, b"two")}
            assert (first == 1) <= (value == b"one")
            assert (second == 1) <= (value == b"two")


@simulated
async def test_failed_write_stops_the_acceptor_and_not_the_register() -> None:
    """23: a node with a failed disk reports it and answers no request any more; the majority goes on."""
    async with world() as cluster:
        await cluster.start(THREE)
        cluster.disk(B).fail_write()

        assert await cluster.client().put(b"v", 0, attempt=1) == 1
        await cluster.sleep(1)

        assert [node for node, _ in cluster.failures] == [B]
        cluster.isolate(C)
        with pytest.raises(UnavailableError, match="node 2"):
            await cluster.client().get()


@simulated
async def test_amnesia_is_noticed() -> None:
    """Two wiped disks under a living identity, which the server prevents, are noticed.

    The second history refuses a client of the first one, which does not go on from it silently.
    """
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        await client.put(b"one", 0, attempt=1)
        cluster.crash(*THREE)
        for node in (B, C):
            cluster.disk(node).wipe()
        await cluster.start((B, C))
        await cluster.client().put(b"other", 0, attempt=2)

        with pytest.raises(UnavailableError, match="wrong history of the register"):
            await client.put(b"two", 1, attempt=3)


@simulated
async def test_ballots_differ_between_lives_even_if_the_random_numbers_do_not() -> None:
    """A node's ballots carry its durable boot counter; all others draw 63 random bits for every phase 1."""
    first = Ballot(round=1, node=1, boot=1, nonce=5)

    assert first != Ballot(round=1, node=1, boot=2, nonce=5)
    async with world() as cluster:
        await cluster.start(THREE)
        for version in range(5):
            await cluster.client().put(b"", version, attempt=version)
        ballots = {request.ballot for _, request in cluster.requests if isinstance(request, Prepare)}

        assert len(ballots) == 5
