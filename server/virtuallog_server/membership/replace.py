"""Replacement of a lost data directory: a new one takes its place, and gets the copies that it lacks.

    check --> the register forgets the old store id --> (the operator starts the node) --> the new directory takes the place
                                                                                            (server/virtuallog_server/node/join.py)
          --> the open segment goes on, on servers that have all of it --> each closed segment is copied again --> done

A directory is given up only if the rest has everything, judged on the register that the change is put on: another operator
may have given up the next one a moment before.

Old and new directory are never both the node: between them the register names none
(`virtuallog.reconfiguration.core.node_table.Forget`). A replacement may be interrupted anywhere and requested again.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from virtuallog.admin.membership import Progress
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.provider import Pace
from virtuallog.contract.register import NodeEntry, Register
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.core.node_table import Forget
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog_server.healing.healer import placed_segments
from virtuallog_server.healing.rebuild import rebuild_unless_moved
from virtuallog_server.membership.cluster_state import (
    Survey,
    read_cluster_state,
    read_state_with_copies,
    read_state_with_replicas,
)
from virtuallog_server.membership.safety import (
    ClusterState,
    copies_problems,
    database_problems,
    missing_copies_on,
    seat_problems,
    spell,
)

_FORGOTTEN = CrashPoint("replacing: a lost directory is forgotten, nobody has its place", rare=True)
_RESTORED = CrashPoint("replacing: one segment more is on the directory that replaced a lost one", rare=True)


@attrs.frozen(eq=False, kw_only=True)
class Replace:
    """The replacement of one node's directory."""

    node: NodeId
    store_id: bytes
    """The directory to give up. A node that has a new one, and is silent for a moment, must not lose that as well."""
    addresses: tuple[str, ...]
    """Addresses of the new directory. Empty if they do not change."""
    force: bool
    """Give up the directory even if the node answers, or if the others may not have all that it has."""
    log: VirtualLog
    survey: Survey
    pace: Pace
    level: Callable[[], int]
    """Least protocol version of the cluster (`rebuild`)."""

    async def run(self, tell: Callable[[str], None]) -> Progress:
        """Replace as far as possible without the operator.

        Raises:
            InvalidSettingError: there is no such node, or it must not be given up; nothing was done.
            UnavailableError: not enough nodes answered; may be called again.
        """
        state = await self._look()
        entry = state.register.nodes[self.node]
        answers = self.node in state.living
        if entry.is_expected and self.addresses in {(), entry.addresses}:
            return self._expected(entry)
        unfinished = entry.joined and missing_copies_on(state, self.node)  # an earlier replacement is not at its end
        if entry.store_id == self.store_id and (self.force or not (answers or unfinished)):
            return await self._forget(state, entry)
        if answers:
            return await self._restore(state, tell)
        says = f"node {self.node} has a new data directory and does not answer: start it"
        return Progress(done=False, waits=True, says=f"{says} (--force gives this one up, too)")

    async def _forget(self, state: ClusterState, entry: NodeEntry) -> Progress:
        if not self.force:
            state = await read_state_with_replicas(self.log, await read_state_with_copies(self.log, state))

        def problems(register: Register) -> list[str]:
            now = state.on(register, placed_segments(self.log.view, register))
            copies = [] if self.force else copies_problems(now, self.node) + database_problems(now, self.node)
            return seat_problems(now, self.node) + copies

        forget = Forget(node=self.node, store_id=entry.store_id, addresses=self.addresses, problems=problems)
        view = self.log.view
        changed = view.adopt(await update_node_table(view.metastore, forget, view.environment.random))
        _FORGOTTEN.reached()
        return self._expected(changed.nodes[self.node])

    def _expected(self, entry: NodeEntry) -> Progress:
        where = ", ".join(entry.addresses)
        says = f"node {self.node} is expected at {where}: start it with an empty data directory"
        return Progress(done=False, waits=True, says=says)

    async def _restore(self, state: ClusterState, tell: Callable[[str], None]) -> Progress:
        """Give the new directory the copies of the old one."""
        while lost := missing_copies_on(state, self.node):
            placed = lost[-1]  # the open one first: until it goes on elsewhere, it has one copy less of all that comes
            tell(f"copying {spell(placed.segment)}, one of {len(lost)}")
            if placed.segment.stop is None:
                await self.log.reconfig_extend(placed.segment.kind)
            else:
                await rebuild_unless_moved(self.log, placed.segment.id, placed.placement.servers, self.pace, self.level)
            _RESTORED.reached()
            state = await self._look()
        entry = state.register.nodes[self.node]
        if entry.is_expected:  # another operator has given up this directory, too
            return self._expected(entry)
        if self.node not in state.living:
            raise UnavailableError(f"node {self.node} does not answer any more")
        return Progress(done=True, waits=False, says=f"node {self.node} answers and has all that it should have")

    async def _look(self) -> ClusterState:
        state = await read_cluster_state(self.log, self.survey)
        if self.node not in state.register.nodes:
            raise InvalidSettingError("node", f"the cluster has no node {self.node}")
        return state
