"""Bugs of changes of sets: seats, roles, drains, replacements, servers of segments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.admin.membership import Progress
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import Segment
from virtuallog.contract.register import NodeEntry, Register
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.core import metastore_members, node_table
from virtuallog.reconfiguration.core.chain_change import ChangeMembers, Effect, Extend, Reconfiguration, _with_members
from virtuallog.reconfiguration.core.metastore_members import ReplaceMember
from virtuallog.reconfiguration.core.node_table import Expect, Remove, WithdrawRoles
from virtuallog_loglets.native.drivers.rereplication import NativeRereplication
from virtuallog_server.healing.core.healing_policy import PlacedSegment
from virtuallog_server.membership import replace as replacing
from virtuallog_server.membership import safety as pictures
from virtuallog_server.membership.cluster_state import read_state_with_copies
from virtuallog_server.membership.drain import Drain
from virtuallog_server.membership.replace import Replace
from virtuallog_server.membership.safety import ClusterState


@attrs.frozen
class Members:
    """An amendment that names them all."""

    members: tuple[NodeId, ...]

    def amend(self, register: Register) -> Register | None:
        return register.with_members(self.members)


SETS: Final = "sets are amended"
DONE: Final = "done is done"

propose = Reconfiguration._propose
step = Drain._step
uses = ClusterState.uses


@mutant(_with_members, scenario="operated", found_by=["changes take effect"])
def the_members_of_a_lost_put_are_put_again(before: Register, change: ChangeMembers) -> Register | None:
    """The change that another operator has made meanwhile is undone."""
    if before.drained(change.members):
        return None
    return before.with_members(change.members)


@mutant(_with_members, scenario="operated", found_by=[SETS])
def members_are_drained_nodes(before: Register, change: ChangeMembers) -> Register | None:
    """The operator named them, and they answer."""
    return before.with_members(change.members) if before.members == change.seen else None


@mutant(Reconfiguration._propose, scenario="operated", found_by=[SETS, DONE])
def a_loglet_is_put_as_it_was_planned(self: Reconfiguration) -> Effect:
    """Though a node that it was planned on has been drained, and was perhaps said to be free, since."""
    if isinstance(self.change, Extend):
        self.change = attrs.evolve(self.change, nodes=frozenset())
    return propose(self)


@mutant(Expect.amend, scenario="operated", found_by=[SETS])
def adding_a_node_sets_its_roles(self: Expect, register: Register) -> Register | None:
    """The roles of a node are set to the asked ones, of a node in use as well: the next loglet has fewer servers."""
    known = register.nodes.get(self.node, NodeEntry(store_id=b"", addresses=self.addresses, roles=frozenset()))
    if self.node in register.nodes and known.roles == self.roles:
        return None
    return register.with_nodes({**register.nodes, self.node: attrs.evolve(known, roles=self.roles)})


@mutant(ReplaceMember.amend, scenario="emptied", found_by=[SETS])
def a_seat_goes_to_the_first_candidate_of_an_older_picture(self: ReplaceMember, register: Register) -> Register | None:
    """It was free, and in use, when the drain looked."""
    if self.leaves not in register.members:
        return None
    return register.with_members(tuple(sorted({*register.members, self.candidates[0]} - {self.leaves})))


@mutant(metastore_members.too_few_seats, scenario="emptied", found_by=[SETS, "progress"], used_in=node_table)
def drained_nodes_count_as_free_for_seats(register: Register) -> str:
    """All nodes without a seat do, with roles or without: the drain is begun, and cannot end."""
    leaving, free = metastore_members.drained_members(register), register.nodes.keys() - set(register.members)
    return "add a node first" if len(leaving) > len(free) else ""


@mutant(Drain._step, scenario="emptied", found_by=[SETS, DONE])
async def a_drain_puts_the_members_that_it_planned(
    self: Drain, state: ClusterState, tell: Callable[[str], None]
) -> bool:
    """As a list, again after a lost put, on top of what others have decided meanwhile."""
    if self.node in state.register.members:
        members = {*state.register.members, state.seatable[0]} - {self.node}
        await self._amend(Members(tuple(sorted(members))))
        return True
    return await step(self, state, tell)


@mutant(WithdrawRoles.amend, scenario="emptied", found_by=[SETS, "progress"])
def a_drain_is_checked_once_before_it_begins(self: WithdrawRoles, register: Register) -> Register | None:
    """Another one that has begun meanwhile needs the same nodes."""
    known = register.nodes[self.node]
    drained = attrs.evolve(known, roles=frozenset())
    return register.with_nodes({**register.nodes, self.node: drained}) if known.roles else None


@mutant(node_table.lost_copies, scenario="operated", used_in=pictures, found_by=[SETS, DONE, "progress"])
def a_new_directory_has_what_the_former_had(
    register: Register, segment: Segment, servers: Iterable[NodeId]
) -> frozenset[NodeId]:
    """A node that answers counts as a holder, before its copies are made again."""
    return frozenset()


@mutant(Remove._needed, scenario="operated", found_by=[SETS])
def a_node_is_removed_that_has_a_seat_or_copies(self: Remove, register: Register) -> str:
    """Only the open segment is looked at."""
    return "is in use" if self.is_used(register.chain.last) else ""


@mutant(Drain.run, scenario="operated", found_by=[DONE, "progress"])
async def a_drain_is_done_when_it_has_begun(self: Drain, tell: Callable[[str], None]) -> Progress:
    """One step is made, and the rest is believed to follow."""
    await self._amend(node_table.WithdrawRoles(node=self.node))
    await step(self, await self._look(), tell)
    return Progress(done=True, waits=False, says=f"node {self.node} may be stopped")


@mutant(ClusterState.uses, scenario="operated", found_by=[DONE, "progress"])
def a_drain_does_not_see_the_open_segment(self: ClusterState, node: NodeId) -> Sequence[PlacedSegment]:
    """It is closed at some time."""
    return [placed for placed in uses(self, node) if placed.segment.stop is not None]


@mutant(pictures.sufficient_copies, scenario="replaced", found_by=[SETS, "acknowledged is readable", "progress"])
def one_other_copy_is_enough(group: Collection[NodeId]) -> int:
    """It may have a hole where the two servers that go have acknowledged."""
    return 1


@mutant(ClusterState.on, scenario="replaced", found_by=[SETS, "progress"])
def a_directory_is_given_up_as_the_picture_was(
    self: ClusterState, register: Register, placed: Sequence[PlacedSegment]
) -> ClusterState:
    """Another operator has given up the next one since."""
    return self


@mutant(ClusterState.on, scenario="replaced", found_by=[SETS, "progress"])
def a_node_that_answered_counts_though_it_is_forgotten(
    self: ClusterState, register: Register, placed: Sequence[PlacedSegment]
) -> ClusterState:
    """The register is the new one, and who holds a copy is as before."""
    return attrs.evolve(self, register=register, placed=placed)


@mutant(ClusterState.holders, scenario="replaced", found_by=[SETS, "progress"])
def servers_that_are_down_count_as_holders(self: ClusterState, placed: PlacedSegment) -> frozenset[NodeId]:
    """Their disks are said to be whole, and one of them is lost."""
    lost = node_table.lost_copies(self.register, placed.segment, placed.placement.servers)
    return frozenset(placed.placement.servers) - lost


@mutant(read_state_with_copies, scenario="replaced", used_in=replacing, found_by=["progress"])
async def a_replica_that_recovers_counts_as_a_whole_one(log: VirtualLog, state: ClusterState) -> ClusterState:
    """Its directory is the one that the register names."""
    return state


@mutant(Replace._restore, scenario="operated", found_by=[DONE, "progress"])
async def a_replacement_is_complete_when_the_node_answers(
    self: Replace, state: ClusterState, tell: Callable[[str], None]
) -> Progress:
    """Its copies are left to others."""
    return Progress(done=True, waits=False, says=f"node {self.node} answers")


@mutant(NativeRereplication._verify, scenario="operated", found_by=["copies are whole"])
async def an_old_copy_with_a_hole_is_taken_for_a_whole_one(self: NativeRereplication, start: int) -> None:
    """A node that had the segment once, and gets it again, is not read back."""


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
