"""Members of a raft log used by itself come and go, and hand over the leadership, while clients append, read and trim.

Operators act by themselves and at the same time, with what they know: they add stores, as voters or observers, remove members, and
name the next leader. Some act with clients that know the removed stores alone.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from typing import Final

import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.standalone.client import LogClient
from virtuallog_simulation.faults.nemesis import LOSING, FaultPlan, Nemesis
from virtuallog_simulation.scenarios.raft.log_stores import LogStores, address_of
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

_SECONDS: Final = 20.0
_PACE: Final = 0.2
"""Pace of the faults: several elections fit into a run."""
_APPEND_SECONDS: Final = 30.0
_CONVERGE_SECONDS: Final = 10.0
ADDED: Final = "looked: stores added to a raft log"
REMOVED: Final = "looked: members removed from a raft log"
TRANSFERRED: Final = "looked: leaderships of a raft log handed over"


async def _members(world: World) -> None:
    source = world.random("plan")
    stores = LogStores(world)
    plan = FaultPlan.draw(source, without=LOSING, pace=_PACE)
    await stores.found(source.choice((5, 6, 7)), voters=source.choice((1, 2, 3, 3)))
    nemesis = Nemesis(world, stores.machines, plan)  # a store that dies while it is formatted is formatted by hand
    nemesis.prepare()
    stores.watch.start()
    pause = source.choice((0.005, 0.02, 0.1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(nemesis.run)
        for number in range(source.randint(1, 3)):
            nursery.start_soon(_append, stores, f"appender {number}", pause)
        nursery.start_soon(_read, stores, world.random("reader"))
        for number in range(source.randint(1, 2)):
            nursery.start_soon(_operate, stores, world.random(f"operator {number}"))
        await trio.sleep(_SECONDS)
        nursery.cancel_scope.cancel()
    nemesis.stop(dead_max=0)
    await stores.finish(_APPEND_SECONDS, _CONVERGE_SECONDS)


async def _append(stores: LogStores, name: str, pause: float) -> None:
    async def act(client: LogClient) -> None:
        number = 0
        while True:
            with suppress(VirtualLogError):
                await stores.append(client, f"{name} {number}".encode())
            number += 1
            await trio.sleep(pause)

    await stores.act(act)


async def _read(stores: LogStores, source: random.Random) -> None:
    while True:
        await trio.sleep(source.uniform(0.1, 2.0))
        await stores.act(stores.read)
        if source.random() < 0.2:
            share = source.random() / 2
            await stores.act(partial(stores.trim, share=share))


async def _operate(stores: LogStores, source: random.Random) -> None:
    """Change the members and the leader, again and again. A store is added once: its number is not used again."""
    used = set(stores.members)
    while True:
        await trio.sleep(source.uniform(0.3, 3.0))
        node = source.choice(list(stores.machines))
        change = source.choice(("add", "add", "remove", "transfer"))
        if change == "add" and (spare := [each for each in stores.machines if each not in used]):
            node = source.choice(spare)
            used.add(node)

        async def act(client: LogClient, node: NodeId = node, change: str = change) -> None:
            if change == "add":
                await client.add(node, address_of(node), observer=source.random() < 0.2)
                stores.world.counts[ADDED] += 1
            elif change == "remove":
                await client.remove(node)
                stores.world.counts[REMOVED] += 1
            else:
                await client.transfer(node)
                stores.world.counts[TRANSFERRED] += 1

        await stores.act(act)


RAFT_MEMBERS: Final = Scenario(
    name="raft-members",
    about="members of a raft log used by itself come and go, and hand over the leadership, under load and faults",
    story=_members,
    limit_seconds=400.0,
)
