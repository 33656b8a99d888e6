"""One bare NativeLoglet: its servers and its sequencer on machines, clients that race over it.

`native` is the loglet under load and faults, `loaded` under load alone, with disks as slow as it takes. `repair` is directed at one danger (specs: Delos, section 5.3): a wave
that reached a minority, one client that seals without seeing it, another one that repairs it, and an observer who may
take the repair for news from the sequencer. Who reaches whom is staged; only the interleaving is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.testing.checker.recorders import RecordedLoglet
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.messages import NativeStore
from virtuallog_loglets.wal import WalSettings
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.faults.nemesis import LOSING, FaultPlan, Nemesis
from virtuallog_simulation.scenarios.loglet.race import SEGMENT, LogletRace, RaceClients
from virtuallog_simulation.scenarios.loglet.served_loglets import ServedLoglets
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

CALM_SECONDS: Final = 60.0
_WAL: Final = WalSettings(
    segment_bytes=128 << 10, record_bytes_max=32 << 10, group_bytes_max=48 << 10, queue_bytes_max=1 << 20,
    headroom_bytes=32 << 10,
)  # fmt: skip

_ROOMY_WAL: Final = WalSettings(
    segment_bytes=24 << 20, record_bytes_max=9 << 20, group_bytes_max=10 << 20, queue_bytes_max=20 << 20,
    headroom_bytes=1 << 20,
)  # fmt: skip


async def _native(world: World) -> None:
    source = world.random("plan")
    servers = source.choice((3, 5))
    config = _config(servers, sequencer=source.randint(1, servers))
    served = _served(world, config)
    nemesis = Nemesis(world, served.machines, FaultPlan.draw(source, without=LOSING, pace=0.1))
    nemesis.prepare()
    cast = RaceClients(
        appenders=source.randint(1, 6),
        batches=source.randint(5, 40),
        sealers=source.randint(1, 3),
        observers=source.randint(0, 2),
        pause_seconds=source.choice((0.001, 0.005, 0.02)),
        in_flight=source.choice((1, 1, 4)),
        conditional=source.choice((0.0, 0.1)),
        impatient=source.choice((0.0, 0.1)),
        readers=source.randint(0, 1),
        waiters=source.randint(0, 1),
        trimmers=source.randint(0, 1),
    )
    race = _race(served)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        with trio.move_on_after(CALM_SECONDS):
            await race.run(cast)
        nursery.cancel_scope.cancel()
    nemesis.stop(dead_max=1)
    await race.demand_seal(CALM_SECONDS)
    world.check(*LOGLET_CHECKS)


async def _loaded(world: World) -> None:
    """Slow disks always have writes in flight when a seal comes, or when the power goes, once, everywhere.

    Each sealer misses one server at first, so that stores and the seal cross there.
    """
    source = world.random("plan")
    config = _config(source.choice((3, 5)), sequencer=1)
    world.network.set_quality(LinkQuality(tail_probability=0.3, tail_seconds=0.03, reorder=0.1))
    served = _served(world, config)
    for machine in served.machines.values():
        machine.faults.write_seconds = (0.0, source.choice((0.02, 0.1)))
    cast = RaceClients(appenders=5, batches=20, sealers=0, observers=1, pause_seconds=0.002)
    race = _race(served)
    async with trio.open_nursery() as nursery:
        if source.random() < 0.5:
            nursery.start_soon(_lose_power, world, served.machines, source.random() * 0.15)
        for node in (NodeId(1101), NodeId(1102)):
            act = partial(_seal_most_first, world, node, source.choice(config.servers), source.random() * 0.2)
            nursery.start_soon(_act, served, "sealer", node, act)
        await race.run(cast)
    await race.demand_seal(CALM_SECONDS)
    world.check(*LOGLET_CHECKS)


async def _seal_most_first(world: World, node: NodeId, missed: NodeId, after_seconds: float, loglet: Loglet) -> None:
    await trio.sleep(after_seconds)
    _block(world, node, missed)
    await loglet.seal()
    world.network.heal_node(node)
    await loglet.check_tail()


async def _lose_power(world: World, machines: Mapping[NodeId, Machine], after_seconds: float) -> None:
    await trio.sleep(after_seconds)
    world.fault("blackout")
    for machine in machines.values():
        machine.crash()
    for machine in machines.values():
        machine.start()


async def _repair(world: World) -> None:
    """Servers a, b, c, d, e; d holds the wave. The sealer reaches a, b and c, the repairer all but e, the observer a, d
    and e; what travels between the observer and a may take long. Once it has repaired, the repairer reaches e."""
    source = world.random("plan")
    config = _config(5, sequencer=5)
    served = _served(world, config)
    a, b, c, d, e = source.sample(config.servers, 5)
    sealer, repairer, observer = NodeId(1001), NodeId(1002), NodeId(1003)
    _block(world, sealer, d, e)
    _block(world, repairer, e)
    _block(world, observer, b, c)
    for link in (world.network.link(observer, a), world.network.link(a, observer)):
        link.quality = LinkQuality(tail_probability=0.5, tail_seconds=0.3, reorder=0.5)
    await _half_an_append(world, d)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_act, served, "sealer", sealer, _seal)
        nursery.start_soon(_act, served, "repairer", repairer, partial(_repair_and_trim, world, repairer))
        nursery.start_soon(_act, served, "observer", observer, _look)
    world.check(*LOGLET_CHECKS)


def _block(world: World, client: NodeId, *servers: NodeId) -> None:
    for server in servers:
        world.network.link(client, server).blocked = world.network.link(server, client).blocked = True


async def _half_an_append(world: World, server: NodeId) -> None:
    """The sequencer died after a single server had stored its only wave."""
    batch = Batch.build(SessionId(bytes(16)), 0, [b"entry"])
    wave = waves.build(segment=SEGMENT, first=0, known_tail=0, time_ms=0, batches=[batch])
    async with world.client(NodeId(1000)) as environment:
        store = NativeStore(segment=SEGMENT, wave=wave.blob, known_tail=0)
        while True:
            try:
                await environment.services.call(server, store, 1.0)
            except RetryableError:  # the server has only just been started
                continue
            return


async def _act(served: ServedLoglets, name: str, node: NodeId, act: Any) -> None:
    async with served.world.client(node) as environment:
        await trio.sleep(environment.random.random() * 0.01)
        loglet = RecordedLoglet(served.open(SEGMENT, environment), served.world.history, SEGMENT, f"{name} {node}")
        try:
            await act(loglet)
        except RetryableError:
            return


async def _seal(loglet: Loglet) -> None:
    await loglet.seal()
    await loglet.check_tail()


async def _repair_and_trim(world: World, repairer: NodeId, loglet: Loglet) -> None:
    """The trim carries what the repair has made known, also to a server that is not sealed."""
    await loglet.seal()
    tail = await loglet.check_tail()
    world.network.heal_node(repairer)
    await loglet.prefix_trim(LogletOffset(tail.tail))


async def _look(loglet: Loglet) -> None:
    await loglet.check_tail()


def _config(servers: int, sequencer: int) -> NativeConfig:
    return NativeConfig(
        servers=tuple(NodeId(number) for number in range(1, servers + 1)), sequencer=NodeId(sequencer), boot=1
    )


def _served(world: World, config: NativeConfig) -> ServedLoglets:
    served = ServedLoglets(world, provider)
    served.create(SEGMENT, config.encode())
    served.start(len(config.servers))
    return served


def _race(served: ServedLoglets) -> LogletRace:
    return LogletRace(served.world, partial(served.open, SEGMENT))


def provider() -> NativeProvider:
    """Provider with a WAL of small segments, so that a short run fills some."""
    return NativeProvider(wal_settings=_WAL)


def roomy_provider() -> NativeProvider:
    """Provider with a WAL that takes the largest batches there are."""
    return NativeProvider(wal_settings=_ROOMY_WAL)


NATIVE: Final = Scenario(
    name="native",
    about="clients race over one NativeLoglet whose servers crash",
    story=_native,
    limit_seconds=300.0,
)
LOADED: Final = Scenario(
    name="loaded",
    about="a NativeLoglet on slow disks is sealed, or loses its power, while much is in flight",
    story=_loaded,
    limit_seconds=300.0,
)
REPAIR: Final = Scenario(
    name="repair",
    about="one half append, a sealer, a repairer and an observer of a NativeLoglet",
    story=_repair,
    limit_seconds=60.0,
)
