"""Dangerous orderings of operations on the register. Numbers are those of specs/delos.md, section 11."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio

from tests.metastore.world import FIVE, THREE, A, B, C, World, ids, simulated, world
from virtuallog.contract.errors import (
    ChainConflictError,
    MalformedError,
    TooLargeError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.metastore import MetaStore
from virtuallog.contract.ports import Request
from virtuallog.contract.types import NodeId
from virtuallog_metastore.messages import EARLIER_MAX, VALUE_BYTES_MAX, Accept, Ask, Learn, Prepare


async def outcome(store: MetaStore, value: bytes, expected: int, attempt: int) -> int | VirtualLogError:
    try:
        return await store.put(value, expected, attempt)
    except VirtualLogError as error:
        return error


@simulated
async def test_two_writers_of_identical_bytes_one_wins() -> None:
    """19: of two puts of the same version and bytes at the same moment exactly one wins."""
    async with world() as cluster:
        await cluster.start(THREE)
        results: list[int | VirtualLogError] = []

        async def write(attempt: int) -> None:
            results.append(await outcome(cluster.client(), b"same", 0, attempt))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write, 1)
            nursery.start_soon(write, 2)

        assert sorted(map(repr, results)) == ["1", "ChainConflictError(expected=0, found=1)"]


@simulated
async def test_read_finishes_what_a_dead_proposer_began() -> None:
    """20: a read completes a proposal of a dead proposer that it meets at one acceptor, so that no
    later read can miss it."""
    async with world() as cluster:
        await cluster.start(THREE)
        await die_half_way(cluster, b"half", attempt=5, reached=(A,))

        cluster.isolate(C)
        assert await cluster.client().get() == (1, b"half")

        cluster.isolate(A)
        assert await cluster.client().get() == (1, b"half")
        assert await cluster.client().put(b"half", 0, attempt=5) == 1


@simulated
async def test_read_without_the_one_that_accepted_is_consistent() -> None:
    """20, C#3875: while A, the only acceptor of a value, is away, the next writer takes the version.

    When A is back with its old vote it neither wedges the register nor changes it.
    """
    async with world() as cluster:
        await cluster.start(THREE)
        await die_half_way(cluster, b"half", attempt=5, reached=(A,))

        cluster.isolate(A)
        assert await cluster.client().get() == (0, b"")
        assert await cluster.client().put(b"other", 0, attempt=6) == 1

        cluster.heal()
        assert await cluster.client().get() == (1, b"other")
        assert await cluster.client().put(b"more", 1, attempt=7) == 2
        cluster.isolate(B)
        assert await cluster.client().get() == (2, b"more")
        with pytest.raises(ChainConflictError):
            await cluster.client().put(b"half", 0, attempt=5)


@simulated
async def test_proposer_that_died_after_phase_1_blocks_nobody() -> None:
    """20: promises alone are outbid; reads do not even notice them."""
    async with world() as cluster:
        await cluster.start(THREE)
        await die_half_way(cluster, b"never", attempt=5, reached=())
        assert (await cluster.living_acceptor(A)).promised.round == 1

        assert await cluster.client().get() == (0, b"")
        assert cluster.count(Prepare) == 3, "a read of a free slot needs no ballot"
        assert await cluster.client().put(b"next", 0, attempt=6) == 1


@pytest.mark.parametrize("lost", [Accept, Learn])
@simulated
async def test_put_in_doubt_is_settled_by_the_same_attempt(lost: type[Request[Any]]) -> None:
    """21: unavailable means unknown. Put again, the attempt wins once, whether or not it had been decided."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        cluster.acceptors_lose(lost, B, C)
        with pytest.raises(UnavailableError):
            await client.put(b"v", 0, attempt=9)

        cluster.heal()
        assert await client.put(b"v", 0, attempt=9) == 1
        assert await cluster.client().put(b"v", 0, attempt=9) == 1
        assert await client.get() == (1, b"v")


@simulated
async def test_put_in_doubt_that_lost_says_so() -> None:
    """21: a put in doubt fails if another client has decided the version meanwhile."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        cluster.isolate(*THREE)
        with pytest.raises(UnavailableError):
            await client.put(b"mine", 0, attempt=9)
        cluster.heal()
        await cluster.client().put(b"theirs", 0, attempt=10)

        with pytest.raises(ChainConflictError) as lost:
            await client.put(b"mine", 0, attempt=9)
        assert (lost.value.expected, lost.value.found) == (0, 1)


@simulated
async def test_put_in_doubt_is_settled_long_after_its_slot_was_closed() -> None:
    """21: later decisions name a winning attempt; one that is too far back counts as lost."""
    async with world() as cluster:
        await cluster.start(ids(1), members=ids(1))
        client = cluster.client(A)
        for version in range(EARLIER_MAX + 2):
            await client.put(b"%d" % version, version, attempt=1000 + version)
        late = cluster.client(A)

        assert await late.put(b"1", 1, attempt=1001) == 2
        with pytest.raises(ChainConflictError):
            await late.put(b"0", 0, attempt=1000)


@simulated
async def test_decision_that_nobody_heard_of_is_counted_by_a_read() -> None:
    """A survey sees a value that all have accepted, and takes no ballot: its proposer died before
    it counted."""
    async with world() as cluster:
        await cluster.start(THREE)
        await die_half_way(cluster, b"chosen", attempt=5, reached=THREE)
        prepares = cluster.count(Prepare)

        assert await cluster.client().get() == (1, b"chosen")
        assert cluster.count(Prepare) == prepares


@simulated
async def test_dueling_proposers_make_progress() -> None:
    """24: eight writers want every version at once. Each version is decided, in bounded time."""
    async with world() as cluster:
        await cluster.start(FIVE, members=FIVE)
        won: list[int] = []

        async def write(number: int) -> None:
            client = cluster.client(*FIVE)
            version = 0
            while version < 5:
                result = await outcome(client, b"%d" % number, version, 100 * number + version)
                won.extend([result] if isinstance(result, int) else [])
                version, _ = await client.get()

        with trio.fail_after(60):  # noqa: TID251 - true time
            async with trio.open_nursery() as nursery:
                for number in range(8):
                    nursery.start_soon(write, number)

        assert sorted(won)[:5] == [1, 2, 3, 4, 5]
        assert len(won) == len(set(won))


@simulated
async def test_polling_readers_do_not_starve_a_writer() -> None:
    """Readers that poll all the time, also in the middle of a put, never take a ballot from it."""
    async with world() as cluster:
        await cluster.start(THREE)

        async def poll() -> None:
            client = cluster.client()
            while True:
                await client.get()

        for _ in range(5):
            cluster.nursery.start_soon(poll)
        writer = cluster.client()
        for version in range(20):
            assert await writer.put(b"%d" % version, version, version) == version + 1

        assert cluster.count(Prepare) == 20 * 3
        assert cluster.count(Accept) == 20 * 3


@simulated
async def test_get_is_one_round_trip() -> None:
    """After a put every acceptor knows the decision: a read asks once."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        await client.put(b"v", 0, attempt=1)
        cluster.requests.clear()

        await client.get()

        assert [type(request) for _, request in cluster.requests[:2]] == [Ask, Ask]
        assert len(cluster.requests) <= 3


@simulated
async def test_a_newer_version_is_told_before_it_is_known_to_be_the_newest() -> None:
    """A client that waits for a change needs no second round; without a newer version the answer is the newest one."""
    async with world() as cluster:
        await cluster.start(THREE)
        writer, waiting = cluster.client(), cluster.client()
        await writer.put(b"one", 0, attempt=1)
        assert await waiting.get() == (1, b"one")
        await writer.put(b"two", 1, attempt=2)
        cluster.requests.clear()

        assert await waiting.get_newer(1) == (2, b"two")
        assert {request.slot for _, request in cluster.requests if isinstance(request, Ask)} == {2}
        assert await waiting.get_newer(1) == (2, b"two"), "it is known already"
        assert len(cluster.requests) <= 3
        assert await waiting.get_newer(2) == (2, b"two"), "there is none"


@pytest.mark.parametrize("down", THREE)
@simulated
async def test_minority_down(down: NodeId) -> None:
    """The register works with any one of three members dead, also when it returns without later
    decisions."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        await client.put(b"one", 0, attempt=1)
        cluster.crash(down)
        assert await client.put(b"two", 1, attempt=2) == 2
        assert await cluster.client().get() == (2, b"two")

        await cluster.start((down,))
        other = next(node for node in THREE if node != down)
        cluster.crash(other)
        assert await cluster.client().get() == (2, b"two")
        assert await client.put(b"three", 2, attempt=3) == 3


@simulated
async def test_majority_down_is_unavailable_and_passes() -> None:
    """With a majority down nothing is decided or read; afterwards everything goes on."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        await client.put(b"one", 0, attempt=1)
        cluster.crash(B, C)
        for call in (client.get(), client.put(b"two", 1, attempt=2)):
            with pytest.raises(UnavailableError):
                await call

        await cluster.start((C,))
        assert await client.put(b"two", 1, attempt=2) == 2


@simulated
async def test_version_that_nobody_decided_is_a_conflict() -> None:
    """A put made from a version of the future (of another cluster, say) is refused with the present
    version."""
    async with world() as cluster:
        await cluster.start(THREE)

        with pytest.raises(ChainConflictError) as refused:
            await cluster.client().put(b"v", 7, attempt=1)
        assert (refused.value.expected, refused.value.found) == (7, 0)


@simulated
async def test_values_have_a_limit() -> None:
    """The largest value passes; one byte more is refused before anything is sent."""
    async with world() as cluster:
        await cluster.start(THREE)
        client = cluster.client()
        assert await client.put(b"v" * VALUE_BYTES_MAX, 0, attempt=1) == 1
        cluster.requests.clear()

        with pytest.raises(TooLargeError):
            await client.put(b"v" * (VALUE_BYTES_MAX + 1), 1, attempt=2)
        with pytest.raises(MalformedError):
            await client.put(b"v", 1, attempt=2, members=())
        assert cluster.requests == []


async def die_half_way(cluster: World, value: bytes, attempt: int, reached: tuple[NodeId, ...]) -> None:
    """Put `value` from a client that dies when its phase 2 has reached these acceptors only."""
    name, client = cluster.doomed_client()
    crash: Callable[[], None] = lambda: cluster.crash(name)  # noqa: E731

    def lost(node: NodeId, request: Request[Any]) -> bool:
        if isinstance(request, Accept):
            cluster.network.timeline.schedule(0.001, crash)
            return node not in reached
        return False

    cluster.lost = lost
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outcome, client, value, 0, attempt)
        await cluster.sleep(1)
        nursery.cancel_scope.cancel()
    cluster.heal()
    assert not cluster.lives[name].process.alive


@simulated
async def test_decided_values_are_told_before_a_majority_answers() -> None:
    """Decided values are reported before a majority answers: the value may have the new addresses
    of that majority."""
    async with world() as cluster:
        await cluster.start(THREE)
        first = cluster.client()
        await first.put(b"one", 0, attempt=1)
        await first.put(b"two", 1, attempt=2)
        late = cluster.client()
        cluster.crash(B, C)
        cluster.learned.clear()

        with pytest.raises(UnavailableError):
            await late.get()

        assert cluster.learned == [b"two"]
