"""Ranges of a log that lie side by side show every committed row once, wherever they are cut."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import attrs
import pyarrow as pa
import pytest
from trio.testing import MockClock

from pyspark_virtuallog.markers.marker import Checkpoint, Marker, QueryId, Winner
from pyspark_virtuallog.markers.search import find_ledger
from pyspark_virtuallog.read.committed import MERGE_POSITIONS, Visible, find_visible, parts_of, rows_of
from pyspark_virtuallog.write.batch_commit import Committed, SupersededError
from tests.spark.sink.sink_log import QUERY, attempt, committed, seen, tail_of
from tests.virtuallog.client.world import world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.batch import SessionId
from virtuallog.contract.errors import CorruptionError, TrimmedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, LogPosition
from virtuallog_loglets.archive.core.rows import table_of


async def test_a_row_comes_with_its_marker(autojump_clock: MockClock) -> None:
    """Rows 0 and 1, marker 2: a read of [2, 3) shows both, though they lie below; a read of [0, 2)
    shows none."""
    async with world() as w:
        log = w.client()
        await committed(log, 0, b"a", b"b")

        assert await seen(log, 0, 2) == []
        assert await seen(log, 2, 3) == [b"a", b"b"]
        assert await seen(log, 1, 3) == [b"a", b"b"]


@pytest.mark.parametrize("seed", range(12))
async def test_any_cuts_show_every_row_once(seed: int, autojump_clock: MockClock) -> None:
    """Two queries with zombies, failed attempts, strangers, jobs of their own, in segments of two kinds; ten cuts anywhere."""
    chance = random.Random(seed)
    async with world() as w:
        log = w.client()
        history = History(log, chance)
        for _ in range(25):
            await chance.choice([history.batch, history.batch, history.zombie, history.job, history.others])()
        tail = await tail_of(log)
        cuts = sorted({0, tail, *(chance.randrange(tail + 1) for _ in range(10))})

        shown = [row for start, stop in pairwise(cuts) for row in await seen(log, start, stop)]

        assert sorted(shown) == sorted(history.visible)
        assert await seen(log) == history.visible


@attrs.define
class History:
    """Random appends of drivers and others, and the rows that are visible."""

    log: VirtualLog
    chance: random.Random
    heads: dict[QueryId, int] = attrs.field(factory=dict)
    """The newest batch that counts."""
    looks: list[Checkpoint] = attrs.field(factory=lambda: [Checkpoint(LogPosition(0), ())])
    visible: list[bytes] = attrs.field(factory=list)

    def _rows(self) -> list[bytes]:
        return [self.chance.randbytes(8) for _ in range(self.chance.randint(1, 3))]

    def _some_batch(self) -> tuple[QueryId, int, bool]:
        query = QueryId(bytes([self.chance.randrange(2)]) * 16)
        head = self.heads.get(query, -1)
        batch = max(0, head + self.chance.randint(-2, 2))
        if batch > head:
            self.heads[query] = batch
        return query, batch, batch > head

    async def batch(self) -> None:
        """A driver that looks first."""
        rows, (query, batch, is_new) = self._rows(), self._some_batch()
        with suppress(SupersededError):
            assert (await committed(self.log, batch, *rows, query=query) is Committed.NOW) == is_new
        self.visible += rows if is_new else []

    async def zombie(self) -> None:
        """A driver that looked at any time before."""
        rows, (query, batch, is_new) = self._rows(), self._some_batch()
        winner = await attempt(self.log, *rows)
        await self.log.append(Marker(query, batch, self.chance.choice(self.looks), (winner,)).encode())
        self.looks.append((await find_ledger(self.log, await tail_of(self.log))).checkpoint())
        self.visible += rows if is_new else []

    async def job(self) -> None:
        rows = self._rows()
        await committed(self.log, None, *rows)
        self.visible += rows

    async def others(self) -> None:
        await attempt(self.log, *self._rows())
        await self.log.append_many(self._rows())
        await self.log.reconfig_extend(self.chance.choice(["memory", "sparse"]))


async def test_a_trimmed_range_is_told(autojump_clock: MockClock) -> None:
    """Markers may have been there. Who asks for the rest gets the rest."""
    async with world() as w:
        log = w.client()
        await committed(log, 0, b"a")
        await committed(log, 1, b"b")
        await log.prefix_trim(LogPosition(2))
        tail = await tail_of(log)

        with pytest.raises(TrimmedError):
            await find_visible(log, LogPosition(0), tail)
        parts = await find_visible(log, LogPosition(0), tail, may_miss=True)

        assert [part.start for part in parts] == [2]
        assert await seen(log, 2) == [b"b"]


async def test_whoever_may_miss_rows_passes_over_what_is_lost(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`failOnDataLoss=false` reads around lost positions as around trimmed positions, also if a marker was there."""
    async with world() as w:
        log = w.client()
        await committed(log, 0, b"a")
        await committed(log, 1, b"b")
        tail, read = await tail_of(log), VirtualLog.read

        async def half_lost(self: VirtualLog, start: LogPosition, stop: LogPosition, size: int = 0) -> Sequence[Placed]:
            return [Gap(start, 2, GapKind.LOST)] if start < 2 else await read(self, start, stop, size)

        monkeypatch.setattr(VirtualLog, "read", half_lost)
        with pytest.raises(CorruptionError, match="positions 0 to 1 are lost"):
            await find_visible(log, LogPosition(0), tail)
        (part,) = await find_visible(log, LogPosition(0), tail, may_miss=True)

        assert (part.start, part.stop) == (2, 3)


def winner(name: int, first: int, last: int) -> Winner:
    return Winner(SessionId(bytes([name]) * 16), LogPosition(first), LogPosition(last), last - first + 1, 1)


def test_parts_do_not_overlap_and_near_ones_are_one() -> None:
    """Else rows would be read twice, or by more reads than there have to be."""
    far = 30 + MERGE_POSITIONS
    a, b, c, d = winner(1, 0, 20), winner(2, 5, 10), winner(3, 25, 29), winner(4, far + 1, far + 2)

    assert parts_of([]) == []
    assert parts_of([d, c, b, a]) == [
        Visible(LogPosition(0), LogPosition(30), (a, b, c)),
        Visible(LogPosition(far + 1), LogPosition(far + 3), (d,)),
    ]


async def test_rows_of_a_table_are_those_of_the_sessions(autojump_clock: MockClock) -> None:
    """Rows of all others stay out."""
    async with world() as w:
        log = w.client()
        won = await attempt(log, b"a")
        await attempt(log, b"x")
        await committed(log, 0, b"b", query=QUERY)
        table: pa.Table = table_of(await log.read(LogPosition(0), await tail_of(log)))

        assert rows_of(table, {won.session}).column("payload").to_pylist() == [b"a"]
        assert rows_of(table, set()).num_rows == 0
