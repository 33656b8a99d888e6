"""A chain that does not say the truth about where its segments end is found out by asking their loglets."""

from __future__ import annotations

import attrs
from trio.testing import MockClock

from pyspark_virtuallog.audit.core.evidence import Ends
from pyspark_virtuallog.audit.segment_ends import check_ends
from tests.virtuallog.client.world import World, world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract import chain
from virtuallog.contract.types import LogPosition


async def log_of_three_segments(made: World) -> VirtualLog:
    """Three entries in each."""
    log = made.client()
    for kind in ("memory", "memory", ""):
        await log.append_many([b"x"] * 3)
        if kind:
            await log.reconfig_extend(kind)
    return log


def lie(made: World, *stops: int) -> None:
    """The chain says that its segments end there."""
    starts = [0, *stops]
    segments = [
        attrs.evolve(segment, start=LogPosition(start), stop=LogPosition(stop) if stop else None)
        for segment, start, stop in zip(made.register.chain.segments, starts, [*stops, 0], strict=True)
    ]
    lying = attrs.evolve(made.register, chain=chain.Chain(made.register.chain.version, tuple(segments)))
    made.metastore.values[-1] = lying.encode()


async def test_segments_that_end_where_the_chain_says_are_fine(autojump_clock: MockClock) -> None:
    """Only segments with positions in the range are asked. The open one has no end."""
    async with world() as made:
        log = await log_of_three_segments(made)

        assert await check_ends(log, 0, 9) == Ends(asked=2)
        assert await check_ends(log, 3, 4) == Ends(asked=1)
        assert await check_ends(log, 6, 9) == Ends()


async def test_a_segment_that_is_shorter_than_the_chain_says_is_wrong(autojump_clock: MockClock) -> None:
    """Positions of the chain behind the loglet's end cannot be read. A longer loglet is fine: that
    is not in the log."""
    async with world() as made:
        await log_of_three_segments(made)
        lie(made, 2, 6)
        found = await check_ends(made.client(), 0, 9)
        first, second, _ = made.register.chain.segments

        assert found == Ends(
            asked=2,
            wrong=(f"{second.id} (memory) over [2, 6) is sealed at 5: what the chain has behind that is not there",),
        )
        assert first.stop == 2


async def test_a_segment_that_nobody_has_sealed_is_wrong(autojump_clock: MockClock) -> None:
    """It takes appends, which are acknowledged, and lost."""
    async with world() as made:
        log = made.client()
        await log.append_many([b"x"] * 3)
        made.metastore.values[-1] = attrs.evolve(
            made.register, chain=chain.extend(made.register.chain, LogPosition(3), "memory", b"", 7)
        ).encode()
        (wrong,) = (await check_ends(made.client(), 0, 3)).wrong

        assert wrong.endswith("is not sealed: it takes appends at 3, which no reader will see")
