"""Proposers of the first slot of the MetaStore whose messages a story delivers itself, and clients
that read."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import attrs

from virtuallog.contract.errors import RetryableError
from virtuallog.contract.ports import Handlers, NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import RegisterPut
from virtuallog.testing.checker.recorders import RecordedMetaStore
from virtuallog_metastore import PaxosProvider
from virtuallog_metastore.core.proposer import Proposer
from virtuallog_metastore.messages import Ballot, Decision, genesis
from virtuallog_simulation.world.world import World

MEMBERS: Final = tuple(NodeId(number) for number in range(1, 4))
_BASIS: Final = genesis(MEMBERS)


@attrs.define(eq=False)
class ScriptedProposer:
    """A proposer, and its put in the history."""

    core: Proposer
    put: RegisterPut

    @classmethod
    def make(cls, number: int) -> ScriptedProposer:
        """Its number is also that of its ballot: a higher one preempts a lower one."""
        value = b"value %d" % number
        own = _BASIS.next(value, None, attempt=number)
        ballot = Ballot(round=number, node=0, boot=0, nonce=number)
        return cls(Proposer(_BASIS, ballot, own), RegisterPut(1, value, number))

    def open(self, world: World) -> None:
        """Begin a put, whose outcome is unknown until its votes are counted."""
        with suppress(_LostError), world.history.record(f"candidate {self.put.attempt}", self.put):
            raise _LostError

    def tell(self, world: World, decision: Decision) -> None:
        """Record that a majority was counted: the put is decided, for ever."""
        proposal = decision.proposal
        put = RegisterPut(decision.version, proposal.value, proposal.attempt)
        world.history.observed(f"candidate {self.put.attempt}", put, decision.version)


class _LostError(Exception):
    """The proposer died without an answer."""


async def serve(environment: NodeEnvironment) -> Handlers:
    """Program of the machine of a member."""
    return await PaxosProvider().serve(MEMBERS, environment)


async def read(world: World, node: NodeId, missed: NodeId) -> None:
    """A client that knows nothing reads, with one member out of its reach."""
    world.network.link(node, missed).blocked = True
    async with world.client(node) as environment:
        register = RecordedMetaStore(PaxosProvider().open(MEMBERS, environment), world.history, f"reader {node}")
        with suppress(RetryableError):
            await register.get()
