"""Connections that break in the ways of TCP, in runs whose messages travel as bytes (`simulation/virtuallog_simulation/world/transport.py`).

Segment sizes, buffers and timeouts of streams are drawn in `world/transport.py` and hold for a run.
A power loss leaves half-open connections by itself.
"""

from __future__ import annotations

from typing import Final

from virtuallog.testing.sim.tcp_connection import SimulatedConnection
from virtuallog_simulation.faults.context import FaultContext
from virtuallog_simulation.faults.fault_class import FaultClass


def _connection(stage: FaultContext) -> SimulatedConnection | None:
    connections = stage.world.transport.connections
    return stage.random.choice(connections) if connections else None


async def _stall(stage: FaultContext) -> None:
    connection = _connection(stage)
    if connection is not None:
        seconds = stage.pace * stage.random.choice((0.05, 1.0, 5.0)) * stage.random.random()
        stage.struck(f"{connection.nodes} for {seconds:.2f} s")
        connection.stall(seconds)


async def _reset(stage: FaultContext) -> None:
    """Both ends know at once, or one learns of it when it next sends something."""
    connection = _connection(stage)
    if connection is not None:
        stage.struck(connection.nodes)
        ends = connection.ends
        connection.reset(*stage.random.choice((ends, ends[:1], ends[1:])))


async def _vanish(stage: FaultContext) -> None:
    connection = _connection(stage)
    if connection is not None:
        stage.struck(connection.nodes)
        connection.vanish()


CLASSES: Final = (
    FaultClass(
        name="connection stall",
        about="nothing arrives over a connection for a while, then everything does",
        proof=("stalled",),
        act=_stall,
    ),
    FaultClass(
        name="connection reset",
        about="both ends of a connection, or one of them, get the error that it is gone",
        act=_reset,
    ),
    FaultClass(
        name="connection vanish",
        about="nothing arrives over a connection any more, and neither end gets an error",
        act=_vanish,
    ),
)
