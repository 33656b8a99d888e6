"""Demands progress once the faults are over: a majority lives, so everything that the product offers must work, soon.

The judge is a client that knows nothing. Each demand is made again until it is met or its time is over, and has a time
of its own, so that a violation names what did not come. Readers that the workload has parked must arrive as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.provider import replicated
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.weak_seal_provider import KIND as WEAK_SEAL
from virtuallog_simulation.faults.nemesis import Nemesis
from virtuallog_simulation.workload import chain_changes
from virtuallog_simulation.workload.actor import Actor, Follower, WorkloadContext, attempt
from virtuallog_simulation.workload.blocked_readers import BlockedReader
from virtuallog_simulation.world.cluster import Cluster
from virtuallog_simulation.world.external_services import ZOOKEEPER

JUDGE: Final = "judge"
"""Name of the clients that demand."""
CALM_SECONDS: Final = 60.0
"""Seconds for each demand: several times the longest timeout, grace period and watchdog period one
after the other."""
HEAL_SECONDS: Final = 20.0
"""Seconds for the first append: the cluster must have replaced all that died. A suspicion takes two
seconds, some more for a node that kept coming back; a failed attempt is repeated after up to
eight."""
OPERATOR_SECONDS: Final = 10.0
"""Seconds without a successful append after which the judge acts as operator, where one is needed
(`HurtNodes`)."""
RETRY_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 0.1


async def demand_progress(stage: WorkloadContext, hurt_nodes: HurtNodes) -> None:
    """All demands, by one client; then an append and a full read once more, by another."""
    async with stage.cluster.client(JUDGE) as client:
        judge = LivenessJudge(Actor(stage, client, client.random, "j1"), hurt_nodes)
        if not await judge.demand_all():
            return
    async with stage.cluster.client(JUDGE) as client:
        await LivenessJudge(Actor(stage, client, client.random, "j2"), hurt_nodes).demand_log()


@attrs.define(eq=False)
class LivenessJudge:
    """One client and what it demands. Methods return whether they got it; if not, that is a violation already."""

    actor: Actor
    _hurt_nodes: HurtNodes
    _readers: list[BlockedReader] = attrs.field(factory=list, init=False)

    async def demand_all(self) -> bool:
        self._read_on(LogPosition(0))
        if not await self.demand_log():
            return False
        self._read_on(LogPosition(self.actor.stage.tail))
        return (
            await self._demand("extend", lambda: chain_changes.extend(self.actor))
            and await self._swap()
            and await self._demand("change of the members", self._change_members)
            and await self._demand("append", self.actor.append)
            and await self._demand("arrival of all readers", self._arrive, self._absent)
            and await self._demand("trim", self._trim)
        )

    async def demand_log(self) -> bool:
        """An append, soon: the cluster heals itself. Then an append and a full read."""
        began = self._now()

        async def work() -> None:
            try:
                await self._append()
            except VirtualLogError:
                if self._now() - began > OPERATOR_SECONDS and self._may_replace():
                    self.actor.stage.cluster.world.fault("judge replaced a dead loglet")
                    await chain_changes.extend(self.actor)
                raise

        return await self._demand("first append", work, seconds=HEAL_SECONDS) and await self._demand(
            "append and full read", self._append_and_read
        )

    def _may_replace(self) -> bool:
        """A loglet that the cluster should heal is not replaced: that it does is what a judge is there to see."""
        view = self.actor.client.log.view
        active = None if view.cached is None else view.cached.chain.active
        return active is not None and self._hurt_nodes.excuse(active, view.provider(active.kind))

    async def _append(self) -> None:
        """The log may have been closed on purpose, by an operator who died before it was opened again."""
        actor = self.actor
        if (await actor.client.log.view.refresh()).chain.active is None:
            await chain_changes.extend(actor)
        await actor.append()

    async def _append_and_read(self) -> None:
        actor = self.actor
        await self._append()
        tail, at = await actor.check_tail(), 0
        while at < tail:
            at = await actor.read(at, tail, 1 << 20)

    async def _swap(self) -> bool:
        """Each kind that lives on the nodes takes appends, whichever was in use."""
        for kind in self.actor.stage.swaps:
            extend = partial(chain_changes.extend, self.actor, kind)
            if not (await self._demand(f"swap to {kind}", extend) and await self._demand("append", self.actor.append)):
                return False
        return True

    async def _change_members(self) -> None:
        """Change the members to the first three nodes; to all if those are the members already."""
        nodes = self.actor.stage.cluster.nodes
        members: Sequence[NodeId] = nodes[: chain_changes.MEMBERS]
        if (await self.actor.client.log.view.refresh()).members == tuple(members):
            members = nodes
        await chain_changes.put_members(self.actor, members)

    async def _trim(self) -> None:
        await self.actor.trim(self.actor.stage.tail - 1)

    # -- readers --------------------------------------------------------------------------------------------------

    def _read_on(self, start: LogPosition) -> None:
        """One that tails the log until the run is over."""
        reader = BlockedReader(f"judge's reader from {start} on", start)
        reader.may_read.set()
        self._readers.append(reader)
        self.actor.stage.nursery.start_soon(reader.run, self.actor.stage)

    async def _arrive(self) -> None:
        while self._late():
            await trio.sleep(LOOK_SECONDS)

    def _late(self) -> list[Follower]:
        tail = self.actor.stage.tail
        return [reader for reader in (*self._readers, *self.actor.stage.parked) if reader.position < tail]

    def _absent(self) -> str:
        where = ", ".join(f"{reader.where} is at {reader.position}" for reader in self._late())
        return f": the tail is {self.actor.stage.tail}, {where}"

    # -- time -----------------------------------------------------------------------------------------------------

    async def _demand(
        self,
        what: str,
        work: Callable[[], Awaitable[object]],
        tell: Callable[[], str] = lambda: "",
        *,
        seconds: float = CALM_SECONDS,
    ) -> bool:
        world, began = self.actor.stage.cluster.world, self._now()
        with trio.move_on_after(seconds) as limit:
            while not await attempt(work()):
                await trio.sleep(RETRY_SECONDS)
        world.demanded(what, self._now() - began)
        if limit.cancelled_caught:
            message = f"no {what} within {seconds:g} s after the faults stopped{tell()}"
            world.violations.append(Violation("progress", message, (len(world.history.events) - 1,)))
        return not limit.cancelled_caught

    def _now(self) -> float:
        return self.actor.stage.cluster.world.now()


@attrs.frozen(eq=False)
class HurtNodes:
    """Nodes that the faults have hurt; decides whether replacing a loglet is an operator's task.

    The cluster heals loglets that are copies on its own nodes by itself, and is judged by it. A kind
    that it knows nothing of may rest on any node; operators of such loglets replace them by hand when
    nodes have been hurt. An external service is well, and nothing is excused in a run without faults.
    Queried repeatedly while a run goes on, as nodes are still starting when the faults stop.
    """

    cluster: Cluster
    nodes: frozenset[int]
    """Dead for good, or without the data that they had."""
    outside: frozenset[str]
    """Kinds of loglets that live on an external service, which is well."""
    faults: bool
    """True if there have been any."""

    @classmethod
    def after(cls, stage: WorkloadContext, nemesis: Nemesis, dead: Sequence[NodeId]) -> HurtNodes:
        """`dead`: what `Nemesis.stop` has returned."""
        outside = frozenset({WEAK_SEAL, ZOOKEEPER})
        return cls(stage.cluster, frozenset(dead) | nemesis.wounds.lost, outside, bool(nemesis.plan.active))

    def excuse(self, active: Segment, provider: object) -> bool:
        """True if only an operator can be expected to replace this loglet."""
        if not self.faults or active.kind in self.outside or replicated(provider) is not None:
            return False
        return any(self._is_hurt(node) for node in self.cluster.nodes)

    def _is_hurt(self, node: NodeId) -> bool:
        machine = self.cluster.machines[node]
        return node in self.nodes or machine.process is None or not machine.running or machine.process.boot > 1
