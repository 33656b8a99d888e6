"""Kinds of loglets that are kept outside of the machines that serve them: the kit gives each world a place for them, without faults
of its own. What such a place does wrong is the business of scenarios (`virtuallog_simulation.scenarios.loglet.zookeeper`)."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

from virtuallog.contract.provider import LogletProvider
from virtuallog.testing.sim.zookeeper import SimulatedZooKeeper
from virtuallog_loglets.zookeeper.provider import ZooKeeperProvider
from virtuallog_simulation.world.external_services import HOSTS
from virtuallog_simulation.world.world import World, current_world

_ENSEMBLES: Final[WeakKeyDictionary[World, SimulatedZooKeeper]] = WeakKeyDictionary()


def zookeeper() -> LogletProvider:
    """Of loglets in the ZooKeeper of the world in which they are opened."""
    return ZooKeeperProvider(lambda _, environment: _ensemble(current_world()).connect(environment.clock), HOSTS)


def _ensemble(world: World) -> SimulatedZooKeeper:
    if world not in _ENSEMBLES:
        _ENSEMBLES[world] = SimulatedZooKeeper(world.timeline, world.random("zookeeper"))
    return _ENSEMBLES[world]
