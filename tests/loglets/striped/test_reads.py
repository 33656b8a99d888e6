"""Reads of striped loglets: how much they bring."""

from __future__ import annotations

import trio

from tests.loglets.striped.cluster import Board, board, session_on
from virtuallog.contract.batch import Batch
from virtuallog.contract.types import LogletOffset, PlacedBatch

STRIPES = 16


async def test_a_read_of_large_batches_brings_about_as_much_as_was_asked_for(autojump_clock: trio.abc.Clock) -> None:
    """Each stripe that is asked gives a whole batch. All of them, that would be sixteen where one, or 64 KiB, was asked for."""
    async with board(STRIPES) as table:
        tail = await _append_to_each(table, 50_000)
        assert await _batches_of_reads(table, tail, max_bytes=1000) == [1] * STRIPES
        assert max(await _batches_of_reads(table, tail, max_bytes=1 << 18)) == 5


async def test_a_read_of_small_batches_brings_them_all_at_once(autojump_clock: trio.abc.Clock) -> None:
    """All stripes are read at the same time."""
    async with board(STRIPES) as table:
        tail = await _append_to_each(table, 100)
        assert await _batches_of_reads(table, tail, max_bytes=1 << 20) == [STRIPES]


async def _append_to_each(table: Board, size: int) -> int:
    loglet, _ = table.client()
    async with trio.open_nursery() as nursery:
        for stripe in range(STRIPES):
            batch = Batch.build(session_on(stripe, STRIPES), 0, [bytes(size)])
            nursery.start_soon(lambda batch=batch: loglet.append(batch, opens=True))  # type: ignore[misc]
    return (await loglet.check_tail()).tail


async def _batches_of_reads(table: Board, tail: int, max_bytes: int) -> list[int]:
    """Number of batches that each read of a new client brought, until all was read."""
    loglet, position, counts = table.client()[0], 0, list[int]()
    while position < tail:
        items = await loglet.read(LogletOffset(position), LogletOffset(tail), max_bytes)
        counts.append(sum(isinstance(item, PlacedBatch) for item in items))
        position = items[-1].stop
    return [count for count in counts if count]
