"""Drain of a living node: everything moves off it, so that it can be stopped.

    check --> roles withdrawn --> its seat in the MetaStore --> the open segment --> each closed segment --> nothing is left

From the second step on the register takes nothing new onto the node (`virtuallog.reconfiguration.core.chain_change`), so the
rest only shrinks. Each step is decided by the register, and none leaves fewer copies or members than before. So a drain may be
given up, or killed, anywhere, and continues with the next request. `virtuallog node add` takes the node back.

"May be stopped" is said of a register in which the node is withdrawn and nothing rests on it. Seats of other drained nodes are
handed over as well: their operator may be about to stop them.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from virtuallog.admin.membership import Progress
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, UnavailableError
from virtuallog.contract.provider import Pace
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.core.metastore_members import ReplaceMember, drained_members
from virtuallog.reconfiguration.core.node_table import Amendment, WithdrawRoles
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog_server.healing.core.healing_policy import PlacedSegment
from virtuallog_server.healing.rebuild import rebuild_unless_moved
from virtuallog_server.membership.cluster_state import (
    Survey,
    placement_of,
    read_cluster_state,
    read_state_with_replicas,
)
from virtuallog_server.membership.safety import (
    ClusterState,
    database_problems,
    depends_on,
    drain_problems,
    servers_without,
    spell,
)

_WITHDRAWN = CrashPoint("draining: a node is to be drained, everything is still on it", rare=True)
_UNSEATED = CrashPoint("draining: a drained node has left the MetaStore, segments are still on it", rare=True)
_LEFT = CrashPoint("draining: one segment more is off a drained node", rare=True)


@attrs.frozen(eq=False)
class Drain:
    """The drain of one node."""

    node: NodeId
    _log: VirtualLog
    _survey: Survey
    _pace: Pace
    _level: Callable[[], int]
    """Least protocol version of the cluster (`rebuild`)."""

    async def check(self) -> Progress:
        """Find the problems that prevent the drain; change nothing.

        Raises:
            InvalidSettingError: there is no such node.
            UnavailableError: the register cannot be read.
        """
        state = await self._look()
        problems = await self._problems(state)
        says = f"{len(state.uses(self.node))} segments are on node {self.node}"
        return Progress(done=not problems, waits=False, says=says, problems=tuple(problems))

    async def run(self, tell: Callable[[str], None]) -> Progress:
        """Move until nothing is on the node.

        Raises:
            InvalidSettingError: there is no such node, or not enough others, or the node has been added again meanwhile. Finished
                moves stay.
            UnavailableError: not enough nodes answered; may be called again.
        """
        if problems := await self._problems(await self._look()):
            raise InvalidSettingError(f"node {self.node}", "; ".join(problems))
        await self._amend(WithdrawRoles(node=self.node, placement=placement_of(self._log)))
        _WITHDRAWN.reached()
        while await self._step(state := await self._look(), tell):
            pass
        if not state.register.drained([self.node]):
            raise InvalidSettingError(f"node {self.node}", "was added again while it was drained: it is in use")
        if problems := database_problems(await read_state_with_replicas(self._log, state), self.node):
            raise InvalidSettingError(f"node {self.node}", "; ".join(problems))  # another drain has ended meanwhile
        return Progress(done=True, waits=False, says=f"nothing is on node {self.node} any more; it may be stopped")

    async def _problems(self, state: ClusterState) -> list[str]:
        """Problems that prevent the drain."""
        database = database_problems(await read_state_with_replicas(self._log, state), self.node)
        return drain_problems(state, self.node, placement_of(self._log)) + database

    async def _amend(self, amendment: Amendment) -> Register:
        view = self._log.view
        return view.adopt(await update_node_table(view.metastore, amendment, view.environment.random))

    async def _step(self, state: ClusterState, tell: Callable[[str], None]) -> bool:
        """Move one thing. False if nothing is left."""
        if leaving := drained_members(state.register):
            first = self.node if self.node in leaving else leaving[0]
            tell(f"handing over the seat of node {first} in the MetaStore")
            await self._amend(ReplaceMember(leaves=first, candidates=state.seatable))
            _UNSEATED.reached()
            return True
        used = state.uses(self.node)
        if used:
            await self._move(state, used[0] if state.active not in used else used[-1], len(used), tell)
            _LEFT.reached()
        return bool(used)

    async def _move(self, state: ClusterState, placed: PlacedSegment, left: int, tell: Callable[[str], None]) -> None:
        segment = placed.segment
        tell(f"moving {spell(segment)}, one of {left}")
        if segment.stop is None:
            register = await self._log.reconfig_extend(segment.kind)
            last = register.chain.last
            if last.id != segment.id and any(depends_on(one, self.node) for one in (await self._look()).placed[-1:]):
                raise UnavailableError(f"the log goes on on node {self.node}: too few other nodes answer")
            return
        await self._rebuild(state, placed)

    async def _rebuild(self, state: ClusterState, placed: PlacedSegment) -> None:
        """Rebuild the segment on the first spare node that can take it. One may have an old copy with a hole, which cannot be filled."""
        segment, unfit = placed.segment, set[NodeId]()
        while True:
            servers = _found(servers_without(state, placed, self.node, unfit), f"to take {spell(segment)}")
            try:
                await rebuild_unless_moved(self._log, segment.id, servers, self._pace, self._level)
            except CorruptionError:
                unfit |= set(servers) - set(placed.placement.servers)
            except InvalidSettingError as error:
                # The newcomer has been drained or replaced meanwhile. The next step looks at the rest again.
                raise UnavailableError(f"{spell(segment)} has to be copied once more: {error}") from error
            else:
                return

    async def _look(self) -> ClusterState:
        state = await read_cluster_state(self._log, self._survey)
        if self.node not in state.register.nodes:
            raise InvalidSettingError("node", f"the cluster has no node {self.node}")
        return state


def _found(nodes: tuple[NodeId, ...] | None, purpose: str) -> tuple[NodeId, ...]:
    if nodes is None:
        raise UnavailableError(f"no node lives {purpose}")
    return nodes
