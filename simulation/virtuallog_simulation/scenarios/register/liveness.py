"""Liveness of the MetaStore: with all faults gone, a new client gets a put decided."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from virtuallog.contract.errors import ChainConflictError, RetryableError
from virtuallog.contract.metastore import MetaStore
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_simulation.world.world import World

JUDGE: Final = NodeId(2000)


async def demand_put(world: World, open_metastore: Callable[[Environment], MetaStore], calm_seconds: float) -> None:
    """Put as the judge, in `calm_seconds`, or report a violation. Others may go on putting meanwhile."""
    with trio.move_on_after(calm_seconds):
        async with world.client(JUDGE) as environment:
            metastore = open_metastore(environment)
            while True:
                with suppress(RetryableError, ChainConflictError):
                    version, _ = await metastore.get()
                    await metastore.put(b"judge", version, environment.random.getrandbits(63))
                    return
    message = f"no put was decided within {calm_seconds:g} s after the faults stopped"
    world.violations.append(Violation("progress", message, (len(world.history.events) - 1,)))
