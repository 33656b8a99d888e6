"""Bugs of the node: it must know who it is, and what is still needed of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.errors import WrongRecipientError
from virtuallog.contract.ports import Storage
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.rpc.link import NodeLink
from virtuallog.rpc.protocol.node import Identity as RpcIdentity
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog.rpc.session import RpcSession
from virtuallog_server.healing.core.healing_policy import PlacedSegment
from virtuallog_server.membership.safety import ClusterState, depends_on
from virtuallog_server.node.formatter import WaitForPeers, advance
from virtuallog_server.node.node import Node
from virtuallog_server.node.register_follower import RegisterFollower, live_loglets
from virtuallog_server.storage.identity import FILE_NAME, FormatPhase, Identity, decode_untrusted
from virtuallog_simulation.world.options import Options

QUIET: Final = Options(faults=(), seconds=4.0)
"""Found without faults: the workload alone brings about what it takes, and a seed is cheap."""

mismatch = OpenNode._mismatch


@mutant(
    advance,
    scenario="wiped",
    found_by=["tails move forward", "known tails are readable", "versions move forward", "one value per version"],
    published="BookKeeper 544, Restate 2415, Restate 2734",
)
def identity_of_a_wiped_disk_used_again(
    own: FormatPhase, peers: Mapping[NodeId, FormatPhase | None]
) -> FormatPhase | WaitForPeers:
    """A node with an empty disk takes its place again, without asking who else is new."""
    return FormatPhase.FORMATTING if own is FormatPhase.UNFORMATTED else FormatPhase.FORMATTED


@mutant(
    Identity.open,
    scenario="reborn",
    found_by=["one wave per offset", "one entry per position", "acknowledged is readable"],
)
async def boot_not_counted(storage: Storage, node: NodeId) -> Identity:
    """A process that starts again has the number of the one before: its sequencers may order entries."""
    if FILE_NAME not in await storage.names():
        return Identity(storage, node, None)
    file = await storage.open(FILE_NAME)
    try:
        return Identity(storage, node, decode_untrusted(await file.read(0, file.size)))
    finally:
        await file.close()


@mutant(
    RegisterFollower._act_on,
    scenario="cluster",
    options=QUIET,
    within=10,
    found_by=["progress", "followers reach the tail", "acknowledged survives"],
)
async def live_loglets_forgotten(self: RegisterFollower, register: Register) -> None:
    """A node drops all loglets but the active one, as if sealed meant done with."""
    await self._identity.join(register.cluster)
    self._on_register(register)
    active = live_loglets(attrs.evolve(register.chain, segments=(register.chain.last,)), self._providers) or ()
    for kind, role in self._roles.items():
        if role.is_open:
            await self._forget(role, self._providers[kind], register, active)


@mutant(Node._is_seated, scenario="unseated", within=8, found_by=["one winner per version", "versions move forward"])
def replaced_acceptor_votes_under_its_old_seat(self: Node, version: int, value: bytes) -> bool:
    """A directory votes for its node although the register names another one."""
    return True


@mutant(OpenNode._mismatch, scenario="returned", within=8, found_by=["loglet tails move forward", "tails move forward"])
def old_disk_let_back_in(self: OpenNode, found: RpcIdentity) -> WrongRecipientError | None:
    """A node answers although it is on another data directory than the one that is meant."""
    return mismatch(attrs.evolve(self, store_id=self.store_id and found.store_id), found)


@mutant(ClusterState.uses, scenario="drained", within=8, found_by=["healing"])
def drain_that_leaves_closed_segments(self: ClusterState, node: NodeId) -> Sequence[PlacedSegment]:
    """Nothing is said to be on a node that no longer takes part in the open segment."""
    return [placed for placed in self.placed if placed.segment.stop is None and depends_on(placed, node)]


@mutant(
    NodeLink._session_now,
    scenario="usurped",
    within=4,
    found_by=[
        "one entry per position",
        "tails move forward",
        "acknowledged below the stop",
        "loglet tails move forward",
    ],
)
def open_connection_to_a_directory_that_was_given_up(self: NodeLink, now: float) -> RpcSession:
    """Identity is checked when a connection is opened, and never again."""
    return self._session or self._start(self._resolve(self.node), now)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
