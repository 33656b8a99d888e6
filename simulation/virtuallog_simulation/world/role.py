"""Runs the serving side of one component on a machine, without the rest of a node."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import trio

from virtuallog.contract.errors import SealedError
from virtuallog.contract.ports import Handlers, NodeEnvironment
from virtuallog_simulation.world.machine import MachinePorts, Program
from virtuallog_simulation.world.world import World

Serve: TypeAlias = Callable[[NodeEnvironment], Awaitable[Handlers]]
FIRST_BOOT: Final = 1
SegmentConfig: TypeAlias = Callable[[Any], Awaitable[tuple[str, bytes]]]


async def no_segments(_: Any) -> tuple[str, bytes]:
    """The chain of a world that has none."""
    raise SealedError("there are no segments in this scenario")


async def no_register() -> int:
    """The version of the register of a world that has none."""
    return 0


def role(
    world: World,
    serve: Serve,
    segment_config: SegmentConfig = no_segments,
    register_version: Callable[[], Awaitable[int]] = no_register,
) -> Program:
    """A program that serves. Its process stops when the component says that it can no longer be trusted."""

    async def program(ports: MachinePorts) -> None:
        process = ports.process
        failures: list[BaseException] = []
        async with trio.open_nursery() as nursery:

            def fail(error: BaseException) -> None:
                failures.append(error)
                nursery.cancel_scope.cancel()

            environment = NodeEnvironment(
                services=ports.services,
                clock=ports.clock,
                random=world.random(f"role {process.node}.{process.boot}"),
                nursery=nursery,
                node=process.node,
                boot=process.boot,
                storage=ports.storage,
                key_values=ports.key_values,
                segment_config=segment_config,
                fail=fail,
                is_lost=lambda role: process.boot != FIRST_BOOT,
                register_version=register_version,
            )
            ports.listen(await serve(environment))
            await trio.sleep_forever()
        raise failures[0]

    return program
