"""A replica whose disk is full for a while: found by `virtuallog simulate --scenario paxos --seed 55`."""

from __future__ import annotations

import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.loglet import Loglet
from virtuallog.testing.sim.key_values import HEADROOM_BYTES
from virtuallog_simulation.scenarios.paxos.ensemble import PaxosEnsemble
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.world import open_world


def test_who_could_not_catch_up_for_want_of_room_may_lead_later() -> None:
    """A coordinator that has no room for what it missed is not elected, which is all: it stands again when asked again."""
    outcomes: list[object] = []

    async def offer(loglet: Loglet) -> None:
        session = SessionId(bytes([len(outcomes)]) * 16)
        try:
            outcomes.append(await loglet.append(Batch.build(session, 0, [b"entry"]), opens=True))
        except UnavailableError as error:
            outcomes.append(error)

    async def story() -> None:
        async with open_world(1) as world:
            told = PaxosEnsemble.begin(world, 3)
            await trio.sleep(0.1)
            one, two, three = told.nodes
            told.cut(one, [two, three])
            await told.act("client", two, offer, 10.0)
            world.network.heal()
            full = told.served.machines[one].faults
            full.free_bytes = HEADROOM_BYTES - 1
            await told.act("client", one, offer, 10.0)
            full.free_bytes = None
            await told.act("client", one, offer, 10.0)

    scheduler.run(1, story)
    assert isinstance(outcomes[0], range)
    assert isinstance(outcomes[1], UnavailableError)
    assert isinstance(outcomes[2], range)
