"""A process that the register does not mean moves nothing: given up, started elsewhere, or on a copy of a directory."""

from __future__ import annotations

import random
from collections.abc import Mapping

import attrs
import pytest
import trio

from tests.virtuallog.client.world import NoServices
from tests.virtuallog.rpc.world import TrioClock
from virtuallog.contract.chain import SegmentId, genesis
from virtuallog.contract.errors import UnavailableError, VirtualLogError, WrongRecipientError
from virtuallog.contract.register import ClusterId, NodeEntry, Register
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol.node import Identity as Answerer
from virtuallog.testing.sim.disk import Disk
from virtuallog_loglets.native.messages import NativeGetState, NativeSeal
from virtuallog_server.node.identity_fence import FencedServices, IdentityFence
from virtuallog_server.storage.identity import Identity

NODE, OTHER = NodeId(3), NodeId(1)
HERE, THERE = "here:7003", "there:7003"
SEGMENT = SegmentId(1, 1)
pytestmark = pytest.mark.usefixtures("autojump_clock")


@attrs.define
class World:
    """Answers by address."""

    identity: Identity
    answering: dict[str, Answerer] = attrs.field(factory=dict)
    residence: IdentityFence = attrs.field(init=False)
    copied: list[VirtualLogError] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.residence = IdentityFence(self.identity, frozenset({HERE}), b"ours", self._who_is_at)

    async def _who_is_at(self, addresses: tuple[str, ...]) -> Answerer:
        found = self.answering.get(addresses[0])
        if found is None:
            raise UnavailableError(f"no node answers at {addresses[0]}")
        return found

    def answers(self, address: str, nonce: bytes, boot: int = 0) -> None:
        """A process on this directory, or on a copy of it, is there."""
        self.answering[address] = Answerer(
            cluster=b"", node=NODE, store_id=self.identity.store_id, boot=boot or self.identity.boot, software="", nonce=nonce
        )  # fmt: skip

    def learn(self, version: int, entries: Mapping[NodeId, NodeEntry]) -> None:
        chain = attrs.evolve(genesis("native", b"", 1), version=version)
        self.residence.learn(Register(cluster=ClusterId(b"c" * 16), chain=chain, members=(OTHER,), nodes=entries))

    def named(self, version: int, address: str, store_id: bytes | None = None) -> None:
        """The register has this node, beside another one."""
        store = self.identity.store_id if store_id is None else store_id
        self.learn(version, {OTHER: entry(b"o" * 16, "other:1"), NODE: entry(store, address)})

    async def ask(self) -> None:
        """Look at the registered address once."""
        with trio.move_on_after(0.5):  # noqa: TID251 -- simulated time
            await self.residence.run(TrioClock(), self.copied.append)


def entry(store_id: bytes, address: str) -> NodeEntry:
    return NodeEntry(store_id=store_id, addresses=(address,), roles=frozenset())


async def make_world() -> World:
    identity = await Identity.open(Disk(random.Random(1)).mount(), NODE)
    await identity.start_formatting(random.Random(1))
    await identity.finish_formatting()
    return World(identity)


async def test_a_directory_that_was_given_up_moves_nothing() -> None:
    """Another directory has its place, or none so far, or there is no such node: it asks, and changes nothing, in any of the cases.
    An older register changes nothing about that.
    """
    for given_up in ({NODE: entry(b"x" * 16, HERE)}, {NODE: entry(b"", HERE)}, {}):
        world = await make_world()
        world.named(3, HERE)
        world.residence.check()
        world.learn(4, {OTHER: entry(b"o" * 16, "other:1"), **given_up})
        world.named(2, HERE)
        assert isinstance(world.residence.refusal, WrongRecipientError)
        with pytest.raises(WrongRecipientError, match="data directory"):
            world.residence.check()


async def test_a_directory_started_elsewhere_moves_nothing_until_it_is_found_there() -> None:
    """The registered address may be a way to this process that its config does not know. As long as no process answers there, it is not."""
    world = await make_world()
    world.named(3, THERE)
    await world.ask()
    assert str(world.residence.refusal) == (
        f"wrong address of this data directory: expected {THERE}, as registered, found {HERE}"
    )
    assert world.residence.problem
    world.answers(THERE, b"ours")
    await world.ask()
    assert (world.residence.refusal, world.residence.problem) == (None, "")
    world.named(4, "a third place:1")
    assert world.residence.refusal is not None
    world.named(5, HERE)
    assert world.residence.refusal is None


@pytest.mark.parametrize(("nonce", "later"), [(b"theirs", 0), (b"", 1)])
async def test_a_copy_is_one_that_another_process_answers_for(nonce: bytes, later: int) -> None:
    """At the registered address, even if it is ours by our config as well. It is a copy for good, also after later registers.
    A program of a former version is known by its boot.
    """
    world = await make_world()
    world.named(3, HERE)
    world.answers(HERE, nonce, world.identity.boot + later)
    await world.ask()
    assert len(world.copied) == 1
    assert "expected the one in use at here:7003, found a copy of it" in str(world.residence.refusal)
    world.answers(HERE, b"ours")
    world.named(4, HERE)
    await world.ask()
    assert world.residence.refusal is not None
    assert len(world.copied) == 1


async def test_strangers_and_silence_make_no_copy() -> None:
    """Another directory at that address concerns another node; so does a node of a former version that may be this one."""
    world = await make_world()
    world.named(3, HERE)
    world.answers(HERE, b"", world.identity.boot)
    await world.ask()
    world.answering[HERE] = attrs.evolve(world.answering[HERE], store_id=b"x" * 16, nonce=b"theirs")
    await world.ask()
    assert (world.residence.refusal, world.copied) == (None, [])


async def test_a_cluster_of_one_goes_on_anywhere() -> None:
    """There is no other node with votes to be counted beside its own: a program may continue with the directory of a server."""
    world = await make_world()
    world.learn(3, {NODE: entry(world.identity.store_id, THERE)})
    assert world.residence.refusal is None


async def test_a_cluster_of_one_that_is_elsewhere_takes_no_second_node() -> None:
    """With two of them this one could change nothing any more, and the second one could not be removed. A role for itself does no harm."""
    world = await make_world()
    world.learn(3, {NODE: entry(world.identity.store_id, THERE)})
    with pytest.raises(WrongRecipientError, match="expected there:7003, as registered, found here:7003"):
        world.residence.check_can_add(OTHER)
    world.residence.check_can_add(NODE)
    world.learn(4, {NODE: entry(world.identity.store_id, HERE)})
    world.residence.check_can_add(OTHER)


async def test_whoever_is_elsewhere_asks_and_posts_nothing_else() -> None:
    """Questions go out. Refusals come a turn later, as any answer does."""
    world = await make_world()
    services = FencedServices(NoServices(), world.residence)
    outcomes: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(services.later.run)
        world.named(3, THERE)
        services.post(OTHER, NativeSeal(segment=SEGMENT), outcomes.append, 1.0)
        assert outcomes == []
        await trio.testing.wait_all_tasks_blocked()
        assert [type(outcome) for outcome in outcomes] == [WrongRecipientError]
        with pytest.raises(WrongRecipientError):
            await services.call(NODE, NativeSeal(segment=SEGMENT), 1.0)
        with pytest.raises(AssertionError):  # it has left
            await services.call(OTHER, NativeGetState(segment=SEGMENT), 1.0)
        nursery.cancel_scope.cancel()
