"""Parts of stories about one bare raft loglet: its replicas on machines, clients, a watch on every replica.

The replicas elect a leader by themselves: as long as a majority lives and hears each other, appends go on. That is demanded
at the end of each story, and that all replicas then have the same log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.recorders import RecordedLoglet
from virtuallog.testing.checker.violation import Violation
from virtuallog_loglets.raft.config import RaftLimits, decode_untrusted
from virtuallog_loglets.raft.core.replica import RaftReplica
from virtuallog_loglets.raft.drivers.replica_service import RaftService
from virtuallog_loglets.raft.provider import RaftProvider
from virtuallog_loglets.wal import WalSettings
from virtuallog_simulation.checks.cluster.raft_watch import RaftWatch
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.loglet.race import SEGMENT, LogletRace
from virtuallog_simulation.scenarios.loglet.served_loglets import ServedLoglets
from virtuallog_simulation.world.world import World

APPEND_SECONDS: Final = 20.0
"""Seconds within which a replica must lead: some elections, one after the other, and a client that finds it."""
CALM_SECONDS: Final = 60.0
CONVERGE_SECONDS: Final = 5.0
"""Seconds after an append, without faults, within which every replica that lives knows all that is committed."""
_FIRST_CLIENT: Final = 3000
_WAL: Final = WalSettings(
    segment_bytes=48 << 10, record_bytes_max=24 << 10, group_bytes_max=28 << 10, queue_bytes_max=1 << 20,
    headroom_bytes=6 << 10, begins_late=True,
)  # fmt: skip
"""Small segments, so that a run rolls over and drops some. A quarter of one is for the snapshot."""
_LIMITS: Final = RaftLimits(record_bytes=8 << 10, message_bytes=16 << 10, piece_bytes=16 << 10)


def raft() -> RaftProvider:
    """Provider with a WAL of small segments, and records and messages that fit into it."""
    return RaftProvider(_WAL, _LIMITS)


@attrs.define(eq=False)
class ReplicaGroup:
    """One loglet on the machines 1, 2, ..., of which all or the first ones have a replica."""

    world: World
    served: ServedLoglets
    watch: RaftWatch
    race: LogletRace
    _clients: int = attrs.field(default=0, init=False)

    @classmethod
    def begin(cls, world: World, replicas: int, machines: int = 0) -> ReplicaGroup:
        """Start machines, so many as there are replicas if it is not said. Let the watch begin when the nemesis is made."""
        served = ServedLoglets(world, raft)
        group = cls(
            world,
            served,
            RaftWatch(world, served.machines, lambda: services(served)),
            LogletRace(world, partial(served.open, SEGMENT)),
        )
        served.start(max(replicas, machines))
        served.create(SEGMENT, settings={"servers": ",".join(str(number) for number in range(1, replicas + 1))})
        return group

    @property
    def nodes(self) -> Sequence[NodeId]:
        return list(self.served.machines)

    @property
    def minority(self) -> int:
        """Number of replicas that may be lost at once."""
        return (len(self.nodes) - 1) // 2

    def replicas(self) -> Mapping[NodeId, RaftReplica]:
        """The replicas of the processes that run."""
        machines = self.served.machines
        return {
            node: service.drivers[SEGMENT].replica
            for node, service in services(self.served).items()
            if service is not None and SEGMENT in service.drivers and machines[node].running
        }

    def leader(self) -> NodeId | None:
        """The replica that leads the highest term; None if none leads."""
        leading = [(each.state.term, node) for node, each in self.replicas().items() if each.leading is not None]
        return max(leading)[1] if leading else None

    def cut(self, one: NodeId, others: Iterable[NodeId], *, out: bool = True, into: bool = True) -> None:
        """Let no message pass from `one` to the others, or into the other direction, until the network is healed."""
        link = self.world.network.link
        for other in others:
            if other != one:
                link(one, other).blocked = out or link(one, other).blocked
                link(other, one).blocked = into or link(other, one).blocked

    async def act(self, name: str, act: Callable[[Loglet], Awaitable[None]], replicas: Sequence[NodeId] = ()) -> None:
        """Let a client of its own do this, as far as it gets; with `replicas` it knows of these only."""
        self._clients += 1
        node = NodeId(_FIRST_CLIENT + self._clients)
        async with self.world.client(node) as environment:
            config = decode_untrusted(self.served.config(SEGMENT))
            if replicas:
                config = attrs.evolve(config, replicas=tuple(replicas), leader=replicas[0])
            loglet = RaftProvider().open(SEGMENT, config.encode(), environment)
            with suppress(VirtualLogError):
                await act(RecordedLoglet(loglet, self.world.history, SEGMENT, f"{name} {node}"))

    async def demand_append(self, what: str, within_seconds: float = APPEND_SECONDS) -> bool:
        """Demand that a client appends a batch of a session of its own. Returns False if that took longer."""
        world, began = self.world, self.world.now()
        batch = Batch.build(SessionId(world.random(f"{what} at {began}").randbytes(16)), 0, [what.encode()])
        with trio.move_on_after(within_seconds) as limit:
            await self.act("demander", partial(_append, batch))
        world.demanded(f"append {what}", world.now() - began)
        if limit.cancelled_caught:
            self.object("progress", f"no append {what} within {within_seconds:g} s")
        return not limit.cancelled_caught

    async def demand_convergence(self) -> None:
        """Demand that all replicas that live come to know the same log as committed, without a further append."""
        with trio.move_on_after(CONVERGE_SECONDS):
            while not self._is_converged():
                await trio.sleep(0.1)
        if not self._is_converged():
            ends = {node: (each.state.commit, each.state.log.last_index) for node, each in self.replicas().items()}
            message = f"{CONVERGE_SECONDS:g} s after an append replicas have (commit, last index) {ends}"
            self.object("progress", message)

    def _is_converged(self) -> bool:
        if all(each.state.is_sealed for each in self.replicas().values()):
            return True
        ends = {(each.state.commit, each.state.log.last_index) for each in self.replicas().values()}
        return len(ends) == 1 and all(commit == last for commit, last in ends)

    async def finish(self) -> None:
        """Demand what must be possible now that a majority is well, then check everything."""
        if await self.race.demand_append(APPEND_SECONDS):
            await self.demand_convergence()
            await self.race.demand_seal(CALM_SECONDS)
        self.check()

    def check(self) -> None:
        """Check everything that was seen and heard."""
        self.watch.look()
        self.world.check(*LOGLET_CHECKS)

    def object(self, check: str, message: str) -> None:
        """Note a violation."""
        self.world.violations.append(Violation(check, message, (len(self.world.history.events) - 1,)))


def services(served: ServedLoglets) -> Mapping[NodeId, RaftService | None]:
    """The replicas of each machine's present life."""
    found: dict[NodeId, RaftService | None] = {}
    for node, kinds in served.served.items():
        provider = kinds["raft"]
        assert isinstance(provider, RaftProvider)
        found[node] = provider.replicas
    return found


async def _append(batch: Batch, loglet: Loglet) -> None:
    while True:
        try:
            await loglet.append(batch, opens=True)
        except RetryableError:
            await trio.sleep(0.05)
            continue
        return
