"""Seals of a raft loglet against a leader that works, or is stuck: alive for its peers, and of no use to its clients.

Clients append, and some seal at about the same moment, each through other replicas. The leader is well, or its disk stands
still, or its process does, or one direction of its links is cut, or it dies. A majority is well, so the seal is demanded while the
leader is still stuck: a replica stands for election whether or not the leader lives, and its first record is the SEAL. Then the former leader
comes back, and says the same.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import trio

from virtuallog.contract.errors import RetryableError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_simulation.scenarios.loglet.race import RaceClients
from virtuallog_simulation.scenarios.raft.replica_group import ReplicaGroup
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_SEAL_SECONDS: Final = 12.0
"""Seconds within which a loglet is sealed by a client that has to try one replica after the other: it insists, for three seconds
each, where no replica leads."""
_STUCK_SECONDS: Final = 1000.0
_BACK_SECONDS: Final = 3.0
_WAYS: Final = ("works", "disk stands still", "stands still", "is deaf", "is not heard", "is alone", "dies")
SEALED: Final = "looked: seals while the leader "


async def _seals(world: World) -> None:
    source = world.random("plan")
    group = ReplicaGroup.begin(world, source.choice((3, 3, 5)))
    world.network.set_quality(
        LinkQuality(
            tail_probability=source.choice((0.05, 0.3)),
            tail_seconds=source.choice((0.01, 0.1)),
            duplicate=source.choice((0.0, 0.1)),
            reorder=source.choice((0.0, 0.3)),
        )
    )
    for machine in group.served.machines.values():
        machine.faults.write_seconds = (0.0, source.choice((0.0005, 0.005, 0.05)))
    group.watch.start()
    cast = RaceClients(
        appenders=source.randint(1, 4), batches=60, in_flight=source.choice((1, 4)), observers=1, looks=20, sealers=0,
        readers=1, waiters=1, trimmers=source.randint(0, 1), pause_seconds=source.choice((0.002, 0.01)), conditional=0.05,
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        nursery.start_soon(group.race.run, cast)
        if not await group.demand_append("at first"):
            return
        await trio.sleep(source.uniform(0.0, 0.4))
        leader = group.leader() or source.choice(group.nodes)
        way = source.choice(_WAYS)
        _strike(group, leader, way)
        if source.random() < 0.5:
            await trio.sleep(source.uniform(0.0, 2.0))
        await _demand_seal(group, source.randint(1, 3), way)
        _recover(group, leader)
        await trio.sleep(_BACK_SECONDS)
        if not all(replica.state.is_sealed for replica in group.replicas().values()):
            unaware = [node for node, replica in group.replicas().items() if not replica.state.is_sealed]
            group.object("progress", f"{_BACK_SECONDS:g} s after the seal nodes {unaware} do not know of it")
        nursery.cancel_scope.cancel()
    await group.race.demand_seal(_SEAL_SECONDS)
    group.check()


def _strike(group: ReplicaGroup, leader: NodeId, way: str) -> None:
    machine = group.served.machines[leader]
    group.world.fault(f"leader {way}", str(leader))
    match way:
        case "disk stands still":
            machine.faults.write_seconds = (_STUCK_SECONDS, _STUCK_SECONDS)
        case "stands still":
            machine.pause()
        case "is deaf":
            group.cut(leader, group.nodes, out=False)
        case "is not heard":
            group.cut(leader, group.nodes, into=False)
        case "is alone":
            group.cut(leader, group.nodes)
        case "dies":
            machine.crash()


async def _demand_seal(group: ReplicaGroup, sealers: int, way: str) -> None:
    """Some clients seal at once; one must be through in time."""
    sealed = trio.Event()
    began = group.world.now()
    with trio.move_on_after(_SEAL_SECONDS):
        async with trio.open_nursery() as nursery:
            for _ in range(sealers):
                nursery.start_soon(group.act, "sealer", partial(_seal, sealed))
            await sealed.wait()
            nursery.cancel_scope.cancel()
    group.world.demanded(f"seal while the leader {way}", group.world.now() - began)
    group.world.counts[SEALED + way] += sealed.is_set()
    if not sealed.is_set():
        group.object("progress", f"not sealed within {_SEAL_SECONDS:g} s while the leader {way}")


async def _seal(sealed: trio.Event, loglet: Loglet) -> None:
    while True:
        try:
            await loglet.seal()
        except RetryableError:
            continue
        sealed.set()
        return


def _recover(group: ReplicaGroup, leader: NodeId) -> None:
    machine = group.served.machines[leader]
    group.world.network.heal()
    group.world.history.fault("healed")
    machine.resume()
    if machine.faults.write_seconds[0] == _STUCK_SECONDS:
        machine.faults.write_seconds = (0.0, 0.005)
        machine.crash(power=False)
    if not machine.running:
        machine.start()


RAFT_SEALS: Final = Scenario(
    name="raft-seals",
    about="a raft loglet is sealed while its leader works, or is stuck in one of several ways",
    story=_seals,
    limit_seconds=120.0,
)
