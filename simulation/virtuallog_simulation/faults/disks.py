"""Disks that fail, fill up, stand still and rot.

A failed write or sync loses nothing that was acknowledged, but a node may have stopped serving for good by then. An
operator sees that and starts it again: mostly soon after the disk works again, else when the faults stop.
"""

from __future__ import annotations

from typing import Final

from virtuallog.testing.sim.disk_faults import STALL_SECONDS
from virtuallog_simulation.faults.context import FaultContext
from virtuallog_simulation.faults.fault_class import FaultClass
from virtuallog_simulation.world.machine import Machine

_CALM_SECONDS: Final = (0.0, 0.0005)
"""Duration of a write on a good disk."""
_OPERATOR_COMES: Final = 0.7


def calm(machine: Machine) -> None:
    """Give this machine good disks with enough room."""
    faults = machine.faults
    faults.write_error = faults.create_error = faults.sync_error = faults.read_error = 0.0
    faults.free_bytes = None
    faults.write_seconds = faults.change_seconds = _CALM_SECONDS


def _slow_disks(stage: FaultContext) -> None:
    seconds = 0.0, stage.random.choice((0.005, STALL_SECONDS))
    for machine in stage.machines.values():
        machine.faults.write_seconds = machine.faults.change_seconds = seconds


async def _stalls(stage: FaultContext) -> None:
    machine = stage.machine()
    stage.struck(machine)
    before, machine.faults.write_seconds = machine.faults.write_seconds, (STALL_SECONDS, 1.0)
    await stage.rest()
    machine.faults.write_seconds = before


async def _failing_writes(stage: FaultContext) -> None:
    machine = _wounded(stage)
    machine.faults.write_error = machine.faults.create_error = 0.2
    await stage.rest()
    machine.faults.write_error = machine.faults.create_error = 0.0
    await _operate(stage, machine)


async def _failing_syncs(stage: FaultContext) -> None:
    machine = _wounded(stage)
    machine.faults.sync_error = 0.2
    await stage.rest()
    machine.faults.sync_error = 0.0
    await _operate(stage, machine)


async def _failing_reads(stage: FaultContext) -> None:
    """Most often also those of a node that starts, and has everything to read."""
    machine = _wounded(stage)
    machine.faults.read_error = 0.2
    await _operate(stage, machine)
    await stage.rest()
    machine.faults.read_error = 0.0
    await _operate(stage, machine)


async def _full_disk(stage: FaultContext) -> None:
    machine = _wounded(stage)
    machine.faults.free_bytes = stage.random.choice((0, 1 << 10, 300 << 10))
    await stage.rest()
    machine.faults.free_bytes = None
    await _operate(stage, machine)


async def _bit_rot(stage: FaultContext) -> None:
    """While it is down, or while it runs and reads; it is started again, and must refuse what it finds."""
    machine = stage.victim()
    if machine.running and stage.random.random() < 0.5:
        machine.crash()
    for _ in range(stage.random.choice((1, 1, 3))):
        place = machine.rot(stage.random)
        if place:
            stage.struck(f"{machine.node}: {place}")
    await stage.rest()
    await _operate(stage, machine)


def _wounded(stage: FaultContext) -> Machine:
    machine = stage.machine()
    stage.struck(machine)
    stage.wounds.refused.add(machine.node)
    return machine


async def _operate(stage: FaultContext, machine: Machine) -> None:
    """Start it again, if it has stopped; most often also if it runs, as it may have stopped serving."""
    if machine.running and stage.random.random() < _OPERATOR_COMES:
        machine.crash(power=False)
    stage.start(machine)


CLASSES: Final = (
    FaultClass(
        name="slow disks", about="every synced write takes up to 5 or 50 ms", proof=("slow",), prepare=_slow_disks
    ),
    FaultClass(
        name="stalls",
        about="for a while every synced write of a node takes 0.05 to 1 s",
        proof=("write stalled",),
        act=_stalls,
    ),
    FaultClass(
        name="failing writes",
        about="writes and creations of files fail; the node must stop using what they were for",
        proof=("write error", "create error", "store write error"),
        act=_failing_writes,
    ),
    FaultClass(
        name="failing syncs",
        about="syncs fail, and a later one does not make good for it",
        proof=("sync error", "store sync error"),
        act=_failing_syncs,
    ),
    FaultClass(
        name="failing reads",
        about="reads fail, those of a node that starts too",
        proof=("read error", "store read error"),
        act=_failing_reads,
    ),
    FaultClass(
        name="full disk",
        about="a node has little or no room left for a while",
        proof=("disk full", "store full"),
        act=_full_disk,
    ),
    FaultClass(
        name="bit rot",
        about="durable bits change, in one copy of the data; the next read or start must refuse it",
        proof=("bit flipped", "store bit flipped", "rot refused"),
        act=_bit_rot,
        rarity=3.0,
        loses=True,
    ),
)
