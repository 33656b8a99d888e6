"""Processes that die, stand still, start again, or find their disks gone."""

from __future__ import annotations

from typing import Final

from virtuallog_simulation.faults.context import FaultContext
from virtuallog_simulation.faults.fault_class import FaultClass
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.stop_reasons import STORE_LOST

LOST_STORE: Final = "lost store"
LOST_DATABASE: Final = "lost database"
"""Only of runs that may have paxos loglets."""
LOST_ROLE: Final = "lost role"
ROLES: Final = ("native", "metastore")
"""The names of the stores that it deletes, one of them at a time: their roles are refused for good."""
REPLICAS: Final = "paxos"
DATABASE: Final = "database"
"""The name of the store that it deletes."""


async def _crash(stage: FaultContext) -> None:
    await _down(stage, power=True)


async def _kill(stage: FaultContext) -> None:
    await _down(stage, power=False)


async def _down(stage: FaultContext, *, power: bool) -> None:
    machine = stage.machine()
    if machine.running:
        stage.struck(machine)
        machine.crash(power=power)
        await stage.rest()
        stage.start(machine)


async def _relaunch(stage: FaultContext) -> None:
    """Restart a process so that messages to the old life reach the new one."""
    machine = stage.machine()
    if machine.running:
        stage.struck(machine)
        machine.crash(power=False)
        stage.start(machine)


async def _blackout(stage: FaultContext) -> None:
    down = [machine for machine in stage.machines.values() if machine.running]
    if down:
        stage.struck()
    for machine in down:
        machine.crash()
    for machine in down:
        await stage.sleep(stage.random.random())
        stage.start(machine)


async def _pause(stage: FaultContext) -> None:
    machine = stage.machine()
    if machine.running:
        stage.struck(machine)
        machine.pause()
        await stage.rest()
        machine.resume()


async def _pause_client(stage: FaultContext) -> None:
    """Pause a client, which afterwards still believes what was true before."""
    clients = stage.clients
    if clients:
        node = stage.random.choice(clients)
        process = stage.world.clients[node]
        stage.struck(node)
        process.pause()
        await stage.rest()
        process.resume()


async def _wipe(stage: FaultContext) -> None:
    machine = stage.victim()
    if machine.running:
        machine.crash()
    stage.struck(machine)
    machine.wipe()
    await stage.rest()
    stage.start(machine)


async def _lose_store(stage: FaultContext) -> None:
    """The machine and its marker stay, as do the other roles; nothing happens where there is no such store."""
    machine = stage.machines[stage.random.choice(stage.wounds.victims)]
    if machine.wiped or not machine.has(REPLICAS):
        return
    stage.wounds.lost.add(machine.node)
    await _lose(stage, machine, REPLICAS)


async def _lose_role(stage: FaultContext) -> None:
    """The machine and its marker stay, as do the other roles: it has lost something for good."""
    machine, store = stage.machines[stage.random.choice(stage.wounds.victims)], stage.random.choice(ROLES)
    if not machine.wiped and machine.has(store):
        stage.wounds.lost.add(machine.node)
        await _lose(stage, machine, store)


async def _lose_database(stage: FaultContext) -> None:
    """Lose the database of a node. The log keeps all that it had, so no data is lost for good: the
    replica is made anew."""
    machine = stage.machines[stage.random.choice(stage.wounds.victims)]
    if not machine.wiped and machine.has(DATABASE):
        await _lose(stage, machine, DATABASE)


async def _lose(stage: FaultContext, machine: Machine, store: str) -> None:
    if machine.running:
        machine.crash(power=stage.random.random() < 0.5)
    if machine.lose(store):
        stage.struck(machine)
    await stage.rest()
    stage.start(machine)


CLASSES: Final = (
    FaultClass(
        name="crash",
        about="a node loses its power: unsynced sectors are lost or torn, each by itself",
        proof=("unsynced lost", "unsynced torn", "unsynced kept"),
        act=_crash,
    ),
    FaultClass(name="kill", about="the process of a node dies; what it wrote stays, synced or not", act=_kill),
    FaultClass(name="relaunch", about="the same, and the next process starts in the same moment", act=_relaunch),
    FaultClass(name="blackout", about="all nodes lose their power at once", act=_blackout, rarity=2.0),
    FaultClass(name="pause", about="the process of a node stands still, then catches up", act=_pause),
    FaultClass(name="client pause", about="a client process stands still, then catches up", act=_pause_client),
    FaultClass(
        name="wipe",
        about="the disks of a node are replaced by empty ones; it must stay out",
        proof=("wiped",),
        act=_wipe,
        rarity=3.0,
        loses=True,
    ),
    FaultClass(
        name=LOST_STORE,
        about="the directory of a node's paxos replicas is deleted; they must recover before they vote",
        act=_lose_store,
        loses=True,
    ),
    FaultClass(
        name=LOST_ROLE,
        about="the directory of a node's log server or acceptor is deleted, alone; that role must stay out",
        proof=(STORE_LOST,),
        act=_lose_role,
        rarity=3.0,
        loses=True,
    ),
    FaultClass(
        name=LOST_DATABASE,
        about="the directory of a node's replica of a database is deleted, snapshots and all; it must restore another replica's",
        act=_lose_database,
    ),
)
