"""Reads of a paxos loglet."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from tests.loglets.paxos.loglet_stage import ONE, SILENT, THREE, TWO, Stage, batch, record, standing, taken
from virtuallog.contract.errors import CorruptionError, UnavailableError
from virtuallog.contract.types import Gap, GapKind, LogletOffset, NodeId, PlacedBatch
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.messages import PaxosRecords, PaxosSettle, ReadRecords


async def test_a_reader_passes_over_who_lags_lies_or_is_down(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """One does not answer, one has a damaged copy, one is whole. Next time the silent one is asked last."""
    stage.script = lambda node, request: {
        ONE: SILENT,
        TWO: PaxosRecords(records=(record(1, values.append(batch().blob, 5)[:-1]),), standing=standing(9)),
        THREE: PaxosRecords(records=(record(1),), standing=standing(9)),
    }[node]
    loglet = stage.loglet()

    items = await loglet.read(LogletOffset(0), LogletOffset(1), 99)
    assert items == [PlacedBatch(range(1), batch(b"1"), 5)]
    stage.asked.clear()
    await loglet.read(LogletOffset(0), LogletOffset(1), 99)
    assert [node for node, _ in stage.asked] == [TWO, THREE]


async def test_a_reader_below_the_truncation(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """One replica has dropped it, one has not heard of the truncation and would still give it: either may be asked."""
    stage.script = lambda node, request: PaxosRecords(records=(), standing=standing(9, begin=4, trim=3 * SLOT + 1))

    assert await stage.loglet().read(LogletOffset(5), LogletOffset(9 * SLOT), 99) == [
        Gap(5, 3 * SLOT + 1, GapKind.TRIMMED)
    ]


async def test_what_nobody_has_learned_is_settled_before_it_is_read(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """The position is decided, and its coordinator died before it announced that. It is settled no
    further than a replica has seen, although the reader asks for more: settling fills free
    positions."""
    settled: list[PaxosSettle] = []

    def script(node: NodeId, request: Any) -> Any:
        if isinstance(request, PaxosSettle):
            settled.append(request)
            return taken(0)
        return PaxosRecords(records=(record(5),) if settled else (), standing=standing(6, learned=5))

    stage.script = script
    items = await stage.loglet().read(LogletOffset(4 * SLOT), LogletOffset(99 * SLOT), 99)
    assert items[0] == PlacedBatch(range(4 * SLOT, 4 * SLOT + 1), batch(b"5"), 5)
    assert [request.past for request in settled] == [6]


async def test_a_reader_beyond_the_tail_fills_nothing(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """No replica knows of the position, so there is nothing to settle."""
    stage.script = lambda node, request: PaxosRecords(records=(), standing=standing(6))

    with pytest.raises(UnavailableError):
        await stage.loglet().read(LogletOffset(50 * SLOT), LogletOffset(51 * SLOT), 99)
    assert {type(request) for _, request in stage.asked} == {ReadRecords}


@pytest.mark.parametrize("third", [SILENT, PaxosRecords(records=(), standing=standing(0))], ids=["silent", "lags"])
async def test_corruption_is_told_only_if_every_copy_is_damaged(
    stage: Stage, third: Any, autojump_clock: trio.testing.MockClock
) -> None:
    """A replica that is silent or lags may have an intact copy later."""
    damaged = PaxosRecords(records=(record(1, values.nop()[:-1]),), standing=standing(9))
    rotten: dict[NodeId, Any] = {ONE: CorruptionError("rot"), TWO: damaged, THREE: third}
    stage.script = lambda node, request: rotten[node] if isinstance(request, ReadRecords) else SILENT

    with pytest.raises(UnavailableError):
        await stage.loglet().read(LogletOffset(0), LogletOffset(9), 99)
    stage.script = lambda node, request: damaged
    with pytest.raises(CorruptionError):
        await stage.loglet().read(LogletOffset(0), LogletOffset(9), 99)
