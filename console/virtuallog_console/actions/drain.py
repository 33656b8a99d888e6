"""Drain of a node."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import attrs

from virtuallog.admin.cluster_status import fetch_cluster
from virtuallog.admin.membership import DrainNode
from virtuallog.contract.types import NodeId
from virtuallog_console.actions.contract import Action, ActionPlan, FormField, PlanPart
from virtuallog_console.pages.page_query import PageQuery, PageQueryError
from virtuallog_server.healing.core.healing_policy import PlacedSegment
from virtuallog_server.membership.cluster_state import placement_of, read_cluster_state, read_state_with_replicas
from virtuallog_server.membership.requests import ask_until_done
from virtuallog_server.membership.safety import (
    ClusterState,
    database_problems,
    drain_problems,
    servers_without,
    spell,
)


@attrs.frozen
class DrainAction(Action):
    """Moves everything off a node. Nodes check it again, and refuse what would leave fewer copies than before."""

    name: ClassVar[str] = "drain"
    title: ClassVar[str] = "Drain"
    summary: ClassVar[str] = (
        "Move everything off a node, so that it can be stopped. `virtuallog node add` takes it back."
    )
    seconds: ClassVar[float] = 6 * 3600.0

    async def fields(self) -> Sequence[FormField]:
        nodes = sorted((await self.log.view.current()).nodes)
        return [FormField(name="node", label="Node", options=[(str(node), f"node {node}") for node in nodes])]

    async def plan(self, query: PageQuery) -> ActionPlan | None:
        number = query.number("node")
        if number is None:
            return None
        node, services = NodeId(number), self.log.view.environment.services
        state = await read_cluster_state(
            self.log, lambda register: fetch_cluster(services, register, register.members[0])
        )
        if node not in state.register.nodes:
            raise PageQueryError(f"The cluster has no node {node}.")
        state = await read_state_with_replicas(self.log, state)
        problems = drain_problems(state, node, placement_of(self.log)) + database_problems(state, node)
        if not state.register.nodes[node].roles and not state.uses(node):
            problems.append(f"nothing is on node {node}: it is drained")
        return ActionPlan(
            arguments={"node": str(node)},
            version=state.register.version,
            confirmation=f"drain {node}",
            parts=tuple(_parts(state, node)),
            refusals=tuple(problems),
        )

    async def act(self, plan: ActionPlan, tell: Callable[[str], None]) -> str:
        node, environment = NodeId(int(plan.arguments["node"])), self.log.view.environment
        nodes = sorted((await self.log.view.current()).nodes)
        progress = await ask_until_done(
            environment.services, nodes, DrainNode(node=node), node, tell, environment.clock
        )
        return progress.says


def _parts(state: ClusterState, node: NodeId) -> Iterator[PlanPart]:
    register, uses = state.register, state.uses(node)
    roles = ", ".join(sorted(register.nodes[node].roles)) or "none"
    life = "it answers" if node in state.living else "it does not answer"
    seat = "it is" if node in register.members else "it is not"
    yield PlanPart.of(
        f"Node {node} now",
        [
            f"roles: {roles}; {life}",
            f"{len(uses):,} of {len(state.placed):,} segments are on it",
            f"{seat} one of {len(register.members)} members of the MetaStore",
            *([f"{len(state.replicas)} replicas of the database are known"] if state.replicas else []),
        ],
    )
    moves = [_move(state, placed, node) for placed in uses]
    if node in register.members:
        free = [str(other) for other in state.seatable if other != node]
        takes = f"goes to one of the nodes {', '.join(free)}" if free else "goes to no other node: none can take it"
        moves.append(f"its seat in the MetaStore {takes}")
    yield PlanPart.of("Moves", [*moves, "the register takes nothing new onto the node from the first step on"])


def _move(state: ClusterState, placed: PlacedSegment, node: NodeId) -> str:
    name = f"{placed.segment.kind} {spell(placed.segment)}"
    if placed.segment.stop is None:
        return f"{name}: it is sealed, and the log goes on on a new one of the kind without node {node}"
    servers = servers_without(state, placed, node)
    if servers is None:
        return f"{name}: no node can take it"
    return f"{name}: copied, and then on nodes {', '.join(map(str, servers))}"
