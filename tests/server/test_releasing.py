"""Nodes let go of hot copies whose time is over, and of loglets that are kept elsewhere."""

from __future__ import annotations

import attrs
import trio
from trio.testing import MockClock

from loglets.memory import MemoryProvider
from server.releasing import FREE_SECONDS, LOOK_SECONDS, TURN_SECONDS, Releasing
from tests.virtuallog.worlds import World, world
from virtuallog.chain import Segment, SegmentId
from virtuallog.errors import UnavailableError
from virtuallog.kept import Kept
from virtuallog.ports import Environment
from virtuallog.types import LogPosition, NodeId

HOT = SegmentId(1, 77)


@attrs.define
class ColdProvider(MemoryProvider):
    """Keeps a hot copy until the time in its config; an empty config keeps none."""

    kind: str = "cold"

    def loglets(self, segment: SegmentId, config: bytes) -> Kept:
        return {HOT: ("far", b"hot")} if config else {}

    def released(self, config: bytes, now_ms: int) -> bytes | None:
        return b"" if config and now_ms >= int(config) else None


@attrs.define
class FarProvider(MemoryProvider):
    """Is kept somewhere else; the place may be gone, or stand still."""

    kind: str = "far"
    freed: list[tuple[SegmentId, bytes]] = attrs.field(factory=list)
    gone: bool = False
    stands_still: bool = False

    async def release(self, segment: SegmentId, config: bytes, environment: Environment) -> None:
        self.freed.append((segment, config))
        if self.stands_still:
            await trio.sleep_forever()
        if self.gone:
            raise UnavailableError("it is gone")


async def passes(seconds: float) -> None:
    await trio.sleep(seconds)  # noqa: TID251 -- on the clock of the test, which jumps


async def with_kinds(w: World) -> FarProvider:
    far = FarProvider()
    w.providers = {**w.providers, "cold": ColdProvider(), "far": far}
    return far


def release_on(w: World, *nodes: int) -> None:
    """Each with its own client, as on a node that follows the register."""
    for node in nodes:
        log = w.client()
        w.nursery.start_soon(log.chain_writer.run_watchdog)
        w.nursery.start_soon(Releasing(NodeId(node), log).run)


async def cold_for(w: World, seconds: float) -> Segment:
    """A closed segment whose hot copy has so long to live."""
    log = w.client()
    await log.append(b"a")
    await log.reconfig_extend("memory")
    closed = w.register.chain.segments[0]
    release_at = int((log.view.environment.clock.wall() + seconds) * 1000)
    await log.reconfig_modify(closed.id, "cold", str(release_at).encode())
    return w.register.chain.segments[0]


async def test_a_hot_copy_goes_when_its_time_is_over(autojump_clock: MockClock) -> None:
    """Not before; by one change, though every node looks. The copy, which no node kept, is freed where it was."""
    async with world() as w:
        far = await with_kinds(w)
        cold = await cold_for(w, seconds=60)
        release_on(w, 1, 2, 3)

        await passes(60 - LOOK_SECONDS)
        assert w.register.chain.segments[0] == cold
        await passes(3 * LOOK_SECONDS)
        released = w.register
        assert [segment.config for segment in released.chain.segments] == [b"", b""]
        await passes(10 * TURN_SECONDS)
        assert w.register == released
        assert set(far.freed) == {(HOT, b"hot")}


async def test_the_next_node_does_it_when_the_first_one_is_down(autojump_clock: MockClock) -> None:
    """It waits for its turn, which comes soon."""
    async with world() as w:
        await with_kinds(w)
        await cold_for(w, seconds=0)
        release_on(w, 3)

        await passes(2 * TURN_SECONDS)
        assert w.register.chain.segments[0].config != b""
        await passes(2 * LOOK_SECONDS)
        assert w.register.chain.segments[0].config == b""


async def test_what_leaves_the_chain_is_freed_elsewhere(autojump_clock: MockClock) -> None:
    """Trimmed as a whole, or empty when it was closed; what the chain still has is left alone."""
    async with world() as w:
        far = await with_kinds(w)
        log = w.client()
        await log.reconfig_extend("far")
        release_on(w, 1)
        await log.append(b"a")
        trimmed = w.register.chain.last.id
        await log.reconfig_extend("far")
        empty = w.register.chain.last.id
        await passes(2 * LOOK_SECONDS)
        await log.reconfig_extend("far")
        await log.append(b"b")
        await passes(2 * LOOK_SECONDS)
        assert far.freed == [(empty, b"")]

        await log.prefix_trim(LogPosition(1))
        await passes(2 * LOOK_SECONDS)
        assert far.freed == [(empty, b""), (trimmed, b"")]


async def test_a_place_that_is_gone_keeps_nobody_waiting(autojump_clock: MockClock) -> None:
    """One try, whatever becomes of it: the node goes on, and so do the changes that wait behind it."""
    async with world() as w:
        far = await with_kinds(w)
        log = w.client()
        await log.reconfig_extend("far")
        release_on(w, 1)
        await passes(2 * LOOK_SECONDS)
        far.gone = True
        await log.reconfig_extend("far")
        await passes(2 * LOOK_SECONDS)
        far.gone, far.stands_still = False, True
        await log.reconfig_extend("memory")
        await cold_for(w, seconds=0)
        await passes(FREE_SECONDS + 3 * LOOK_SECONDS)

        assert len(far.freed) >= 2
        assert w.register.chain.segments[0].config == b""
