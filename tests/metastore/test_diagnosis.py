"""Evidence of the members of the register about its newest version, and one in progress; asking
decides nothing."""

from __future__ import annotations

from trio.testing import MockClock

from tests.metastore.world import THREE, A, B, C, world
from virtuallog.contract.types import NodeId
from virtuallog_metastore.diagnosis import explain_register
from virtuallog_metastore.messages import Accept, Ballot, Proposal


async def test_members_say_what_they_know_and_what_they_have_accepted(autojump_clock: MockClock) -> None:
    """Members report what they know and have accepted, the same each time: one is down, one has a
    vote of a dead proposer."""
    async with world() as cluster:
        await cluster.start(THREE)
        store = cluster.client(*THREE)
        await store.put(b"first", 0, attempt=7)
        await cluster.sleep(1.0)
        half = Accept(
            slot=2,
            after=7,
            ballot=Ballot(round=1, node=0, boot=0, nonce=5),
            proposal=Proposal(value=b"second", members=THREE, attempt=8, earlier=(7,)),
        )
        environment = cluster.environment(NodeId(200))
        await environment.services.call(B, half, 1.0)
        cluster.crash(C)

        for _ in range(2):
            value, said = await explain_register(THREE, environment)
            assert value == b"first"
            facts = [(one.facts.get("version"), one.facts.get("accepted"), bool(one.problem)) for one in said]
            assert facts == [(1, False, False), (1, True, False), (None, None, True)]
        assert await store.get() == (2, b"second"), "whoever reads the register completes it"
        value, said = await explain_register(THREE, environment)
        assert (value, [one.facts.get("accepted") for one in said[:2]]) == (b"second", [False, False])


async def test_a_register_that_nobody_has_written(autojump_clock: MockClock) -> None:
    """A register without a write reports version 0 and no value; without members nothing is known."""
    async with world() as cluster:
        await cluster.start(THREE)
        environment = cluster.environment(NodeId(200))
        value, said = await explain_register([A], environment)
        assert (value, said[0].facts["version"]) == (b"", 0)
        cluster.crash(*THREE)
        value, said = await explain_register(THREE, environment)
        assert value == b""
        assert all(one.problem for one in said)
