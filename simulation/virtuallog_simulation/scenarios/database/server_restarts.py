"""Servers of a database that are killed, restarted, misconfigured, replaced and given up by an operator who looks after each act.

Nodes are started from their config files, as `serve --config` does. After each act, and again in
the end, an operator asks what `status`, `explain` and `database status` ask. The answers are
compared with the truth: each replica of the view that no node serves is reported and no other, and
so is each role that a node has lost with its config. In the end every file is as it was, and all
serve again.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.admin.membership import Progress, ReplaceNode
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_metastore import PaxosProvider
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.diagnosis.collector import gather
from virtuallog_server.diagnosis.core.conclusions import conclude
from virtuallog_server.diagnosis.core.database import findings, problems
from virtuallog_server.diagnosis.core.evidence import LogEvidence
from virtuallog_server.diagnosis.core.finding import all_well
from virtuallog_server.node.node import Node
from virtuallog_server.storage.identity import FormatPhase
from virtuallog_simulation.checks.cluster.node_state import OPENING_SECONDS, roles_come_back
from virtuallog_simulation.scenarios.database.servers import OptionalEngines
from virtuallog_simulation.scenarios.database.three_servers import NODES, ThreeServers
from virtuallog_simulation.workload.database.embedded_client import EmbeddedClientPace
from virtuallog_simulation.world.machine import MachinePorts
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

START_SECONDS: Final = 30.0
BACK_SECONDS: Final = 40.0
"""Seconds after the last act within which all serve, and no problem is reported."""
ASK_SECONDS: Final = 3.0
ACTS: Final = (1, 2)
SETTLE_SECONDS: Final = (0.3, 3.0)
"""Seconds before the operator looks. A replica is ejected after four seconds (`servers.STACK`)."""
WRITE_SECONDS: Final = (1.0, 5.0)
"""Before the first act: with more of it a snapshot is durable."""

MANNER: Final = EmbeddedClientPace(pause_seconds=0.4)
"""Programs beside the replicas write and read now and then: the log shall grow, and is not what is judged here."""

LOOKS: Final = "comeback looks of an operator"
UNSERVED: Final = "comeback replicas that no node served"
STALE: Final = "comeback replicas of directories that were given up"
LOST: Final = "comeback roles lost with a config"
LOOKED: Final = (LOOKS, UNSERVED, STALE, LOST)


@attrs.frozen
class _Truth:
    """True state at one moment."""

    everywhere: frozenset[str]
    """Replicas that are in the view as every replica has it."""
    anywhere: frozenset[str]
    served: frozenset[str]


@attrs.define(eq=False)
class _Run:
    world: World
    source: random.Random
    three: ThreeServers = attrs.field(init=False)

    # -- what is so ------------------------------------------------------------------------------------------------

    def product(self, node: NodeId) -> Node | None:
        """The node, if it runs."""
        return self.three.cluster.products.get(node) if self.three.machine(node).running else None

    def serves(self, node: NodeId) -> bool:
        product = self.product(node)
        return product is not None and product.database is not None and product.database.life is not None

    def truth(self) -> _Truth:
        """True state, from the states of running nodes without asking them."""
        views, served = [], set[str]()
        for node in NODES:
            product = self.product(node)
            if product is None or product.database is None or "database" not in product.open_roles:
                continue
            identity = product.identity
            served.add(ReplicaIdentity(node=node, store=identity.store_id, boot=0).name)
            life = product.database.life
            view = None if life is None else life.replica.stack.find(ViewTrackingEngine)
            if view is not None:
                views.append(frozenset(view.members()))
        if not views:
            return _Truth(frozenset(), frozenset(), frozenset(served))
        return _Truth(frozenset.intersection(*views), frozenset.union(*views), frozenset(served))

    # -- what an operator is told ----------------------------------------------------------------------------------

    async def look(self) -> Sequence[str] | None:
        """Compare the reports with the truth; returns the problems reported of the database, None
        if no node answered."""
        async with self.three.cluster.client("operator") as client:
            before, boots = self.truth(), self.boots()
            providers = {provider.kind: provider for provider in (make() for make in self.three.cluster.kinds)}
            try:
                picture = await gather(list(NODES), providers, PaxosProvider(), client.log.view.environment)
            except VirtualLogError:
                return None
            after = self.truth()
            told = problems(findings(picture.database))
            if boots == self.boots():
                self.world.counts[LOOKS] += 1
                self._compare_replicas(before, after, told, picture)
                self._compare_roles(picture)
            return told

    def boots(self) -> Sequence[int]:
        return [0 if (product := self.product(node)) is None else product.identity.boot for node in NODES]

    def _compare_replicas(self, before: _Truth, after: _Truth, told: Sequence[str], picture: LogEvidence) -> None:
        text = "\n".join(told)
        for name in (before.everywhere & after.everywhere) - before.served - after.served:
            self.world.counts[UNSERVED] += 1
            entry = picture.register.nodes.get(NodeId(int(name.partition("-")[0])))
            if entry is None or not name.endswith(entry.store_id.hex()[:16] or "-"):
                self.world.counts[STALE] += 1
            if name not in text:
                self._object("unserved replicas are told", f"{name} is served by no node; told: {told}")
        for name in before.served & after.served & before.anywhere:
            if name in text:
                self._object("served replicas are not called unserved", f"{name} is served; told: {told}")
        if told and all_well(conclude(picture)):
            self._object("unserved replicas are told", f"explain calls this well: {told}")

    def _compare_roles(self, picture: LogEvidence) -> None:
        """Compare roles of nodes that know the register and have had the time to open their roles."""
        for node in NODES:
            product, machine = self.product(node), self.three.machine(node)
            if (
                product is None
                or product.identity.phase is not FormatPhase.FORMATTED
                or not picture.nodes[node].version
            ):
                continue
            if self.world.now() - self.three.cluster.began[node] < OPENING_SECONDS:
                continue
            config, entry = self.three.cluster.started[node], picture.register.nodes[node]
            lost = set() if config.zookeeper or not machine.has("database") else {"database"}
            if entry.store_id == product.identity.store_id:
                lost |= entry.roles.intersection({"sequencer", "replica"}).difference(config.all_roles)
            text = "\n".join(product.status().failures)
            self.world.counts[LOST] += len(lost)
            for role in lost:
                if role not in text:
                    self._object("lost roles are told", f"node {node} has lost {role}, and says '{text}'")
            if lost and all_well(conclude(picture)):
                self._object("lost roles are told", f"explain calls it well that node {node} has lost {lost}")

    def _object(self, check: str, message: str) -> None:
        self.world.violations.append(Violation(check, message))

    async def look_after(self, seconds: float) -> None:
        await trio.sleep(seconds)
        await self.look()

    def settle(self) -> float:
        return self.source.uniform(*SETTLE_SECONDS)

    # -- acts --------------------------------------------------------------------------------------------------------

    def end(self, node: NodeId) -> None:
        """Kill -9, or the power."""
        machine = self.three.machine(node)
        if machine.running:
            machine.crash(power=self.source.random() < 0.5)

    async def restart(self, node: NodeId) -> None:
        """Once, or several times in a row."""
        for _ in range(self.source.choice((1, 1, 3))):
            self.end(node)
            await self.look_after(self.settle())
            self.three.machine(node).start()
            await self.look_after(self.settle())

    async def restart_all(self, _: NodeId) -> None:
        """One after the other, each once the one before serves."""
        for node in self.source.sample(NODES, len(NODES)):
            self.end(node)
            self.three.machine(node).start()
            with trio.move_on_after(BACK_SECONDS):
                while not self.serves(node):
                    await trio.sleep(0.1)
        await self.look()

    async def edit(self, node: NodeId, change: Callable[[NodeConfig], NodeConfig]) -> None:
        """Start a node with another config for a while, and then with the former one."""
        cluster, machine = self.three.cluster, self.three.machine(node)
        former = cluster.started[node]
        self.end(node)
        cluster.write_file(node, change(former))
        if self.source.random() < 0.2:
            machine.lose("database")  # as who wants no server there any more
        machine.start()
        await self.look_after(self.settle())
        await self.look_after(OPENING_SECONDS)
        self.end(node)
        cluster.write_file(node, former)
        machine.start()
        await self.look_after(self.settle())

    async def drop_section(self, node: NodeId) -> None:
        await self.edit(node, lambda config: attrs.evolve(config, zookeeper=None))

    async def drop_roles(self, node: NodeId) -> None:
        await self.edit(node, lambda config: attrs.evolve(config, roles=("log-server",)))

    async def replace(self, node: NodeId) -> None:
        """Give up the directory; the new one comes after a while, as a server or, for a while, as none."""
        cluster, machine = self.three.cluster, self.three.machine(node)
        product, former = self.product(node), cluster.started[node]
        store_id = b"" if product is None else product.identity.store_id
        request = ReplaceNode(node=node, store_id=store_id)
        self.end(node)
        if not await self._ask(request, lambda progress: progress.waits):
            machine.start()
            return
        machine.swap()
        await self.look_after(self.settle())
        if self.source.random() < 0.5:
            cluster.write_file(node, attrs.evolve(former, zookeeper=None))
        machine.start()
        await self.look_after(self.settle())
        self.end(node)
        cluster.write_file(node, former)
        machine.start()
        await self.look_after(self.settle())
        await self._ask(request, lambda progress: progress.done)

    async def _ask(self, request: ReplaceNode, is_enough: Callable[[Progress], bool]) -> bool:
        """Ask as `virtuallog node replace` does, again and again: a refusal may have a reason that
        passes."""
        via = self.source.choice([node for node in NODES if node != request.node])
        async with self.three.cluster.client("replacing") as client:
            with trio.move_on_after(BACK_SECONDS):
                while True:
                    with suppress(VirtualLogError):
                        if is_enough(await client.log.view.environment.services.call(via, request, ASK_SECONDS)):
                            return True
                    await trio.sleep(0.3)
        return False


_ACTS: Final[Sequence[tuple[float, Callable[[_Run, NodeId], Awaitable[None]]]]] = (
    (2, _Run.restart),
    (1, _Run.restart_all),
    (5, _Run.drop_section),
    (2, _Run.drop_roles),
    (2, _Run.replace),
)


async def _story(world: World) -> None:
    source = world.random("plan")
    run = _Run(world, source)
    run.three = ThreeServers.begin(world, OptionalEngines((), frozenset()), lambda what: None, manner=MANNER)
    run.three.cluster.on_node = partial(_prepare, run.three)
    with trio.move_on_after(START_SECONDS) as scope:
        while not all(run.serves(node) for node in NODES):
            await trio.sleep(0.1)
    if scope.cancelled_caught:
        world.violations.append(Violation("progress", f"not all serve within {START_SECONDS:g} s of the first start"))
        return
    await run.look_after(source.uniform(*WRITE_SECONDS))
    weights, acts = zip(*_ACTS, strict=True)
    for act in source.choices(acts, weights, k=source.choice(ACTS)):
        await act(run, source.choice(NODES))
        await _wait_well(run)
    await trio.sleep(OPENING_SECONDS)
    world.violations.extend(roles_come_back(run.three.cluster))


async def _wait_well(run: _Run) -> None:
    """All is as it was before the act: what an operator does next has nothing to do with the last act."""
    told: Sequence[str] | None = None
    with trio.move_on_after(BACK_SECONDS):
        while True:
            told = await run.look()
            if told is not None and not told and all(run.serves(node) for node in NODES):
                return
            await trio.sleep(0.3)
    serving = [node for node in NODES if run.serves(node)]
    message = f"{BACK_SECONDS:g} s after all was put back nodes {serving} serve the database, and {told} is told"
    run.world.violations.append(Violation("restarts serve what was served", message))


def _prepare(three: ThreeServers, node: Node, ports: MachinePorts, nursery: trio.Nursery) -> None:
    if node.database is not None:
        three.servers.prepare(node, ports, nursery)
    else:
        three.servers.lives.pop(node.config.node, None)


COMEBACK: Final = Scenario(
    name="comeback",
    about="servers of a database are restarted, misconfigured, replaced; what an operator is told is compared with what is so",
    story=_story,
    limit_seconds=400.0,
)
