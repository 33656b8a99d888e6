"""The client of the register while its members are replaced."""

from __future__ import annotations

import itertools

import pytest
import trio

from tests.metastore.test_client import outcome
from tests.metastore.world import FIVE, THREE, A, B, C, D, E, ids, simulated, world
from virtuallog.contract.errors import ChainConflictError, UnavailableError, VirtualLogError
from virtuallog_metastore.messages import Learn


@simulated
async def test_members_change_with_every_version_and_the_old_ones_die() -> None:
    """22: each set of members is killed as soon as the put that replaced it has returned."""
    async with world() as cluster:
        sets = [ids(10 * number, 10 * number + 1, 10 * number + 2) for number in range(1, 8)]
        writer = cluster.client(*sets[0])
        for nodes in sets:
            await cluster.start(nodes, members=sets[0])
        for version, (old, new) in enumerate(itertools.pairwise(sets)):
            assert await writer.put(b"%d" % version, version, version, members=new) == version + 1
            cluster.crash(*old)

        assert await writer.get() == (6, b"5")
        assert await cluster.client(*sets[-1]).get() == (6, b"5"), "the last members are enough to start from"
        assert await writer.put(b"last", 6, attempt=99) == 7


@simulated
async def test_stale_client_walks_forward_over_retired_members() -> None:
    """22: a stale client finds the register while one node of each retired set lives and points
    forward."""
    async with world() as cluster:
        sets = [ids(10 * number, 10 * number + 1, 10 * number + 2) for number in range(1, 6)]
        writer, stale = cluster.client(*sets[0]), cluster.client(*sets[0])
        for nodes in sets:
            await cluster.start(nodes, members=sets[0])
        assert await stale.get() == (0, b"")
        for version, new in enumerate(sets[1:]):
            await writer.put(b"%d" % version, version, version, members=new)
        for old in sets[:-1]:
            cluster.crash(*old[1:])

        assert await stale.get() == (4, b"3")
        assert await cluster.client(*sets[0]).get() == (4, b"3")
        with pytest.raises(ChainConflictError):
            await cluster.client(*sets[0]).put(b"late", 0, attempt=50)


@simulated
async def test_stale_client_finds_the_register_when_all_members_it_knows_are_gone() -> None:
    """A client that was given more nodes finds the register after all members it knows are gone.

    `operated`, seed 23 at 1da4a7f, where the first answer was an old one.
    """
    async with world() as cluster:
        await cluster.start(FIVE)
        writer, reading, writing = cluster.client(), cluster.client(*FIVE), cluster.client(*FIVE)
        await writer.put(b"1", 0, attempt=1)
        assert await reading.get() == await writing.get() == (1, b"1")
        await writer.put(b"2", 1, attempt=2, members=(C, D, E))
        await writer.put(b"3", 2, attempt=3, members=(D, E))
        cluster.crash(A, B, C)

        assert await reading.get() == (3, b"3")
        with pytest.raises(ChainConflictError):
            await writing.put(b"late", 1, attempt=4)


@simulated
async def test_new_members_do_not_decide_before_they_know_that_they_are_members() -> None:
    """22: D and E are taught the decision that names them before they vote."""
    async with world() as cluster:
        await cluster.start(FIVE)
        writer = cluster.client()
        cluster.acceptors_lose(Learn, D, E)
        with pytest.raises(UnavailableError):
            await writer.put(b"v", 0, attempt=1, members=(D, E))
        with pytest.raises(UnavailableError):
            await writer.get()

        cluster.heal()
        assert await cluster.client().get() == (1, b"v")
        assert (await cluster.living_acceptor(D)).known == (await cluster.living_acceptor(E)).known == 1


@simulated
async def test_nodes_that_were_told_nothing_make_no_register() -> None:
    """A client that starts from nodes outside of the first members gets no answer, and no empty register."""
    async with world() as cluster:
        await cluster.start((D, E), members=THREE)

        with pytest.raises(UnavailableError):
            await cluster.client(D, E).get()
        with pytest.raises(UnavailableError):
            await cluster.client(D, E).put(b"v", 0, attempt=1)


@simulated
async def test_one_node_that_knows_is_enough_to_start_from() -> None:
    """One informed node is enough to start from: the others may be dead, unformatted, or no members."""
    async with world() as cluster:
        await cluster.start((A, B, C, D))
        await cluster.client().put(b"v", 0, attempt=1)

        assert await cluster.client(C, D, E).get() == (1, b"v")


@simulated
async def test_several_nodes_bootstrap_at_once() -> None:
    """25: if every node puts its own first version one wins, and the others adopt it."""
    async with world() as cluster:
        await cluster.start(THREE)
        results: dict[int, int | VirtualLogError] = {}

        async def bootstrap(number: int) -> None:
            results[number] = await outcome(cluster.client(), b"cluster %d" % number, 0, number)

        async with trio.open_nursery() as nursery:
            for number in (1, 2, 3):
                nursery.start_soon(bootstrap, number)

        (winner,) = [number for number, result in results.items() if result == 1]
        assert all(isinstance(result, ChainConflictError) for number, result in results.items() if number != winner)
        assert await cluster.client().get() == (1, b"cluster %d" % winner)


@simulated
async def test_bootstrap_waits_for_a_majority_of_nodes() -> None:
    """25: a lone node decides nothing until a majority of nodes has started."""
    async with world() as cluster:
        await cluster.start((A,))
        with pytest.raises(UnavailableError):
            await cluster.client().put(b"alone", 0, attempt=1)
        await cluster.start((B,))

        assert await cluster.client().put(b"together", 0, attempt=2) == 1
