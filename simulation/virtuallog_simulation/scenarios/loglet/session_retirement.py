"""Sessions of one loglet that pause for as long as they are kept, or longer, while others come: tables of sessions are small.

Each client offers a batch, may not hear the answer, and offers it again within the time for which a
session is kept, as appenders do. Then it pauses, offers its last batch once more, or the next one.
The sequencer may have retired the session by then, or forgotten it: it says so, or gives the batch
the place that it has. It never places it twice, and never says that a batch is missing which is in
the log. Newcomers fill the table meanwhile.
"""

from __future__ import annotations

import random
from typing import Final

import trio

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import ReconfigurationNeededError, RetryableError, VirtualLogError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.testing.checker.recorders import RecordedLoglet
from virtuallog.testing.sim.network import LinkQuality
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.paxos.provider import PaxosProvider
from virtuallog_loglets.wal import WalSettings
from virtuallog_simulation.checks.history.loglet import LOGLET_CHECKS
from virtuallog_simulation.scenarios.loglet.race import SEGMENT
from virtuallog_simulation.scenarios.loglet.served_loglets import ServedLoglets
from virtuallog_simulation.world.planted_bug import planted
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

KEEP_SECONDS: Final = 20.0
"""Seconds for which sessions are kept in a run; more than three attempts and their timeouts."""
ATTEMPTS: Final = 3
CLIENTS: Final = 3
TURNS: Final = 4
_FIRST_CLIENT: Final = 1001
_WAL: Final = WalSettings(
    segment_bytes=128 << 10, record_bytes_max=32 << 10, group_bytes_max=48 << 10, queue_bytes_max=1 << 20,
    headroom_bytes=32 << 10,
)  # fmt: skip
FORGOTTEN: Final = "retired: a session is told that it is forgotten"
LOST: Final = "retired: an answer is lost, and the same batch offered again"
NOT_ADMITTED: Final = "retired: a session is not admitted"
LOOKED: Final = (FORGOTTEN, LOST)
_SESSIONS: Final = "virtuallog.exactly_once.session_table"


async def _retired(world: World) -> None:
    source = world.random("plan")
    served = ServedLoglets(world, source.choice((lambda: NativeProvider(_WAL), PaxosProvider)))
    served.start(3)
    await trio.sleep(0.5)
    served.create(SEGMENT)
    world.network.set_quality(LinkQuality(duplicate=source.choice((0.0, 0.1)), reorder=source.choice((0.0, 0.2))))
    small = {
        f"{_SESSIONS}:SESSION_KEEP_MS": int(KEEP_SECONDS * 1000),
        f"{_SESSIONS}:SESSIONS_MAX": source.choice((6, 8, 16384)),
        f"{_SESSIONS}:IDLE_MAX": source.choice((0, 1, 2, 65536)),
        f"{_SESSIONS}:BATCHES_MAX": source.choice((1, 2, 64)),
    }
    with planted(small):
        async with trio.open_nursery() as nursery:
            for number in range(CLIENTS):
                nursery.start_soon(_live, world, served, NodeId(_FIRST_CLIENT + number))
            nursery.start_soon(_come_and_go, world, served)
    world.network.set_quality(LinkQuality())
    await _read_all(world, served)
    world.check(*LOGLET_CHECKS)


async def _live(world: World, served: ServedLoglets, node: NodeId) -> None:
    """One session with long pauses."""
    source = world.random(f"client {node}")
    async with world.client(node) as environment:
        loglet = _recorded(world, served.open(SEGMENT, environment), f"client {node}")
        session, sequence = SessionId(source.randbytes(16)), 0
        for _ in range(TURNS):
            batch = Batch.build(session, sequence, [b"%d" % sequence] * source.randint(1, 3))
            if not await _offer(world, loglet, node, batch, source, opens=sequence == 0):
                return
            sequence = batch.stop_sequence
            await trio.sleep(source.choice((0.1, KEEP_SECONDS * 0.6, KEEP_SECONDS * 1.1, KEEP_SECONDS * 3)))
            if source.random() < 0.5:  # a copy of a call, or a client that cannot know: it opens nothing any more
                try:
                    await loglet.append(batch, opens=False)
                except ReconfigurationNeededError:
                    world.counts[FORGOTTEN] += 1
                except VirtualLogError:
                    return


async def _offer(
    world: World, loglet: Loglet, node: NodeId, batch: Batch, source: random.Random, *, opens: bool
) -> bool:
    """Offer a batch until there is an answer; the first attempts may get lost. Returns True if the
    session goes on."""
    for attempt in range(ATTEMPTS):
        is_deaf = attempt < ATTEMPTS - 1 and source.random() < 0.4
        if is_deaf:
            for server in (NodeId(1), NodeId(2), NodeId(3)):
                world.network.link(server, node).blocked = True
            world.counts[LOST] += 1
        try:
            await loglet.append(batch, opens=opens)
        except ReconfigurationNeededError:
            world.counts[FORGOTTEN] += 1
            return False
        except RetryableError:
            continue
        except VirtualLogError:
            return False
        finally:
            world.network.heal_node(node)
        return True
    return False


async def _come_and_go(world: World, served: ServedLoglets) -> None:
    """Let newcomers append, each with a session for one batch: the sequencer retires idle sessions
    when one is admitted."""
    source = world.random("newcomers")
    async with world.client(NodeId(_FIRST_CLIENT + CLIENTS)) as environment:
        loglet = _recorded(world, served.open(SEGMENT, environment), "newcomers")
        for _ in range(6 * TURNS):
            await trio.sleep(source.expovariate(1.0 / (KEEP_SECONDS / 4)))
            try:
                await loglet.append(Batch.build(SessionId(source.randbytes(16)), 0, [b"new"]), opens=True)
            except RetryableError:
                world.counts[NOT_ADMITTED] += 1


async def _read_all(world: World, served: ServedLoglets) -> None:
    """Read everything, so that a batch placed twice is seen."""
    async with world.client(NodeId(2000)) as environment:
        loglet = _recorded(world, served.open(SEGMENT, environment), "judge")
        place, tail = 0, (await loglet.check_tail()).tail
        while place < tail:
            place = (await loglet.read(LogletOffset(place), LogletOffset(tail), 1 << 20))[-1].stop


def _recorded(world: World, loglet: Loglet, who: str) -> Loglet:
    return RecordedLoglet(loglet, world.history, SEGMENT, who)


RETIRED: Final = Scenario(
    name="retired",
    about="sessions of one loglet pause, are retired and forgotten, and come back",
    story=_retired,
    limit_seconds=1200.0,
    draws_bounds=False,
)
