"""A few clients race over one bare loglet: some append, some seal it and read its stop, some only look at its tail."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs
import trio

from simulation.observed import ObservedLoglet
from simulation.world.world import World
from virtuallog.api import Loglet
from virtuallog.batch import Batch, SessionId
from virtuallog.chain import SegmentId
from virtuallog.errors import RetryableError, VirtualLogError
from virtuallog.ports import Environment
from virtuallog.types import LogletOffset, NodeId, Sealed

OpenLoglet: TypeAlias = Callable[[Environment], Loglet]
_Role: TypeAlias = Callable[["Loglet", "Cast", random.Random], Awaitable[None]]
SEGMENT = SegmentId(1, 1)


@attrs.frozen(kw_only=True)
class Cast:
    """How many of each take part, and what they do. A loglet is sealed for good, so a run is short."""

    appenders: int = 2
    batches: int = 6
    """Each appender offers so many, one after the other."""
    sealers: int = 2
    observers: int = 3
    looks: int = 8
    """Each observer checks the tail so many times."""
    pause_seconds: float = 0.02
    """Mean time between two calls of one client."""


async def read_all(world: World, open_loglet: OpenLoglet) -> bool:
    """Seal the loglet and read everything below its stop, as a client that knows nothing; whether that worked."""
    async with world.client(NodeId(2000)) as environment:
        loglet = ObservedLoglet(open_loglet(environment), SEGMENT, world.history, "judge")
        try:
            await loglet.seal()
            stop, at = (await loglet.check_tail()).tail, 0
            while at < stop:
                at = (await loglet.read(LogletOffset(at), LogletOffset(stop), 1 << 20))[-1].stop
        except RetryableError:
            return False
        return True


async def run(world: World, cast: Cast, open_loglet: OpenLoglet) -> None:
    """Return when everybody has finished."""
    async with trio.open_nursery() as nursery:
        node = 1000
        for name, role, count in (
            ("appender", _append, cast.appenders),
            ("sealer", _seal, cast.sealers),
            ("observer", _look, cast.observers),
        ):
            for _ in range(count):
                node += 1
                nursery.start_soon(_client, world, NodeId(node), name, role, cast, open_loglet)


async def _client(world: World, node: NodeId, name: str, role: _Role, cast: Cast, open_loglet: OpenLoglet) -> None:
    async with world.client(node) as environment:
        loglet = ObservedLoglet(open_loglet(environment), SEGMENT, world.history, f"{name} {node}")
        await role(loglet, cast, environment.random)


async def _append(loglet: Loglet, cast: Cast, source: random.Random) -> None:
    """One session; a maybe is offered again, to the same loglet, before anything newer."""
    session, sequence = SessionId(source.randbytes(16)), 0
    for _ in range(cast.batches):
        await _pause(cast, source)
        batch = Batch.build(session, sequence, [b"%d" % sequence] * source.randint(1, 3))
        if not await _offer(loglet, batch, opens=sequence == 0):
            return
        sequence = batch.stop_sequence


async def _offer(loglet: Loglet, batch: Batch, *, opens: bool) -> bool:
    """Whether the loglet took it."""
    for _ in range(5):
        try:
            await loglet.append(batch, opens=opens)
        except RetryableError:
            continue
        except VirtualLogError:  # sealed, or will never take appends again
            return False
        return True
    return False


async def _seal(loglet: Loglet, cast: Cast, source: random.Random) -> None:
    """What a reconfigurer does: seal, then read the stop."""
    await trio.sleep(source.random() * cast.batches * (cast.pause_seconds + 0.01))
    for _ in range(20):
        try:
            await loglet.seal()
            if isinstance(await loglet.check_tail(), Sealed):
                return
        except RetryableError:
            await _pause(cast, source)


async def _look(loglet: Loglet, cast: Cast, source: random.Random) -> None:
    for _ in range(cast.looks):
        await _pause(cast, source)
        try:
            await loglet.check_tail()
        except RetryableError:
            continue


async def _pause(cast: Cast, source: random.Random) -> None:
    await trio.sleep(source.expovariate(1.0 / cast.pause_seconds))
