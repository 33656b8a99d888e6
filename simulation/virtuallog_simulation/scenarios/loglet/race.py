"""Clients race over one bare loglet: some append, some seal it and read its stop, some look, wait, read or trim."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import RetryableError, SealedError, VirtualLogError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.recorders import RecordedLoglet
from virtuallog.testing.checker.violation import Violation
from virtuallog_simulation.scenarios.loglet.race_clients import ROLES, RaceClients, Role, read_range
from virtuallog_simulation.world.world import World

__all__ = ["SEGMENT", "RaceClients", "OpenLoglet", "LogletRace", "run"]

OpenLoglet: TypeAlias = Callable[[Environment], Loglet]
SEGMENT: Final = SegmentId(1, 1)


@attrs.define(eq=False)
class LogletRace:
    """One loglet and what all clients of it have done."""

    world: World
    open_loglet: OpenLoglet
    segment: SegmentId = SEGMENT
    _clients: int = attrs.field(default=1000, init=False)

    async def run(self, cast: RaceClients) -> None:
        """Return when all clients have finished."""
        async with trio.open_nursery() as nursery:
            for name, count in cast.counts.items():
                for _ in range(count):
                    self._clients += 1
                    nursery.start_soon(self._client, NodeId(self._clients), name, ROLES[name], cast)

    async def demand_seal(self, within_seconds: float) -> None:
        """Only seal, tail and reads must survive: with a majority alive they do, within a bound."""
        with trio.move_on_after(within_seconds) as limit:
            while not await self.read_all():
                await trio.sleep(0.1)
        if limit.cancelled_caught:
            message = f"not sealed and read within {within_seconds:g} s after the faults stopped"
            self.world.violations.append(Violation("progress", message, (len(self.world.history.events) - 1,)))

    async def demand_append(self, within_seconds: float) -> bool:
        """Demand an append by a client that knows nothing; a sealed loglet only has to refuse it as sealed. Returns False if
        that took longer."""
        world, began = self.world, self.world.now()
        with trio.move_on_after(within_seconds) as limit:
            async with world.client(NodeId(2001)) as environment:
                await _append(self._recorded(environment, "judge"))
        world.demanded("append", world.now() - began)
        if limit.cancelled_caught:
            message = f"no append within {within_seconds:g} s after the faults stopped"
            world.violations.append(Violation("progress", message, (len(world.history.events) - 1,)))
        return not limit.cancelled_caught

    async def read_all(self) -> bool:
        """Seal the loglet and read all below its stop, as a client that knows nothing; whether that worked."""
        async with self.world.client(NodeId(2000)) as environment:
            loglet = self._recorded(environment, "judge")
            try:
                await loglet.seal()
                await read_range(loglet, 0, (await loglet.check_tail()).tail)
            except RetryableError:
                return False
        return True

    async def look(self) -> None:
        """Check the tail as a client that knows nothing; the outcome does not matter."""
        async with self.world.client(NodeId(2000)) as environment:
            with suppress(VirtualLogError):
                await self._recorded(environment, "judge").check_tail()

    async def _client(self, node: NodeId, name: str, act: Role, cast: RaceClients) -> None:
        async with self.world.client(node) as environment:
            await act(self._recorded(environment, f"{name} {node}"), cast, environment.random)

    def _recorded(self, environment: Environment, who: str) -> Loglet:
        return RecordedLoglet(self.open_loglet(environment), self.world.history, self.segment, who)


async def _append(loglet: Loglet) -> None:
    batch = Batch.build(SessionId(b"demanded by all."), 0, [b"entry"])
    while True:
        try:
            await loglet.append(batch, opens=True)
        except RetryableError:
            await trio.sleep(0.1)
            continue
        except SealedError:
            pass
        return


async def run(world: World, cast: RaceClients, open_loglet: OpenLoglet) -> None:
    """One race."""
    await LogletRace(world, open_loglet).run(cast)
