"""Clocks that run too fast or too slow, show the wrong time, and jump. Time itself never goes back."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog_simulation.faults.context import FaultContext
from virtuallog_simulation.faults.fault_class import FaultClass


def _drift(stage: FaultContext) -> None:
    errors = stage.world.clock_errors
    stage.world.clock_errors = attrs.evolve(errors, drift=stage.random.choice((0.001, 0.05, 0.3)))


def _wrong_time(stage: FaultContext) -> None:
    errors = stage.world.clock_errors
    stage.world.clock_errors = attrs.evolve(errors, wall_offset_seconds=stage.random.choice((0.1, 3600.0)))


async def _jump(stage: FaultContext) -> None:
    machine = stage.machine()
    if machine.running:
        stage.struck(machine)
        machine.clock.wall_offset_seconds += stage.random.uniform(-3600.0, 3600.0)


CLASSES: Final = (
    FaultClass(
        name="clock drift",
        about="clocks of processes that start run up to 0.1, 5 or 30 % too fast or too slow",
        proof=("drifting clock",),
        prepare=_drift,
    ),
    FaultClass(
        name="wrong time",
        about="their wall clocks are wrong by up to 0.1 s or an hour",
        proof=("wrong wall clock",),
        prepare=_wrong_time,
    ),
    FaultClass(name="wall clock jump", about="the wall clock of a node is set", act=_jump),
)
