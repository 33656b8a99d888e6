"""Drivers that are killed, come back, or do not know that they have been replaced: each batch is seen once."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from pyspark_virtuallog.markers.ledger import Verdict
from pyspark_virtuallog.markers.marker import MAGIC, Checkpoint, Marker, QueryId
from pyspark_virtuallog.markers.search import FIRST_STEP, find_ledger
from pyspark_virtuallog.write.batch_commit import Committed, SupersededError, commit
from tests.spark.sink.sink_log import QUERY, attempt, committed, seen, tail_of
from tests.virtuallog.client.world import world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.types import Gap, GapKind, LogPosition

OTHER = QueryId(b"other" + bytes(11))


async def test_rows_are_seen_once_their_marker_is_there(autojump_clock: MockClock) -> None:
    """Rows without one, of an attempt that failed or is under way, are not; nor are those of others."""
    async with world() as w:
        log = w.client()
        await log.append(b"of another writer")
        winner = await attempt(log, b"a", b"b")
        await attempt(log, b"a", b"b", b"too much")
        assert await seen(log) == []

        assert await commit(log, QUERY, 0, [winner]) is Committed.NOW

        assert await seen(log) == [b"a", b"b"]


async def test_a_driver_that_was_killed_before_its_marker_commits_the_attempts_after_the_restart(
    autojump_clock: MockClock,
) -> None:
    """All tasks run anew, under other sessions: what the first ones wrote stays unseen."""
    async with world() as w:
        await attempt(w.client(), b"a")
        log = w.client()

        assert await committed(log, 0, b"a") is Committed.NOW

        assert await seen(log) == [b"a"]


async def test_a_driver_that_was_killed_behind_its_marker_commits_nothing_more(autojump_clock: MockClock) -> None:
    """Spark's checkpoint does not know of the batch, so it is run once more; the log does."""
    async with world() as w:
        await committed(w.client(), 3, b"a")
        log = w.client()

        assert await committed(log, 3, b"a") is Committed.BEFORE
        assert await committed(log, 4, b"b") is Committed.NOW

        assert await seen(log) == [b"a", b"b"]


async def test_of_two_drivers_of_one_query_the_first_marker_wins(autojump_clock: MockClock) -> None:
    """The second one has looked before the first one's marker was there, and appends its own much later: it changes nothing,
    and the driver hears of it with its next batch at the latest."""
    async with world() as w:
        alive, zombie = w.client(), w.client()
        await committed(alive, 0, b"a")
        late = await attempt(zombie, b"b from the zombie")
        looked = (await find_ledger(zombie, await tail_of(zombie))).checkpoint()
        await committed(alive, 1, b"b")
        await committed(alive, 2, b"c")
        await zombie.append(Marker(QUERY, 1, looked, (late,)).encode())
        end_of_zombie = await tail_of(alive)

        await committed(alive, 3, b"d")
        with pytest.raises(SupersededError, match="Another driver runs this query"):
            await committed(zombie, 2, b"c from the zombie")

        assert await seen(alive) == [b"a", b"b", b"c", b"d"]
        assert await seen(alive, end_of_zombie - 1) == [b"d"]  # also if the zombie's marker is the first that is met


async def test_a_batch_without_rows_needs_no_marker(autojump_clock: MockClock) -> None:
    """Nothing is appended for it, however often it is committed."""
    async with world() as w:
        log = w.client()

        assert await commit(log, QUERY, 0, []) is Committed.NOTHING

        assert await tail_of(log) == 0


async def test_queries_share_a_log(autojump_clock: MockClock) -> None:
    """Each has its own numbers, and jobs of their own have none: the same rows twice are two jobs."""
    async with world() as w:
        log = w.client()
        for query in (QUERY, OTHER):
            for batch in (0, 1):
                assert await committed(log, batch, b"%d" % batch, query=query) is Committed.NOW
        for _ in range(2):
            assert await committed(log, None, b"job") is Committed.NOW
        assert await committed(log, 1, b"again") is Committed.BEFORE

        assert await seen(log) == [b"0", b"1", b"0", b"1", b"job", b"job"]


async def test_a_batch_is_remembered_however_much_was_written_since(autojump_clock: MockClock) -> None:
    """A query that was stopped behind its marker comes back when the log has gone on for long."""
    async with world() as w:
        log = w.client()
        await committed(log, 7, b"a")
        for _ in range(3):
            await log.append_many([b"of another writer"] * FIRST_STEP)
        await committed(log, None, b"job")  # carries no checkpoint, and is looked past

        assert await committed(log, 7, b"a") is Committed.BEFORE


async def test_a_query_that_others_have_outrun_is_still_known(autojump_clock: MockClock) -> None:
    """The marker that is met first is another query's: what it carries tells of this one."""
    async with world() as w:
        log = w.client()
        await committed(log, 7, b"a")
        await log.append_many([b"of another writer"] * 2 * FIRST_STEP)
        await committed(log, 0, b"b", query=OTHER)
        ledger = await find_ledger(log, await tail_of(log))

        assert ledger.verdict(QUERY, 7) is Verdict.COMMITTED
        assert ledger.verdict(OTHER, 0) is Verdict.COMMITTED


async def test_what_was_trimmed_was_never_there(autojump_clock: MockClock) -> None:
    """The rows of the batch are gone as well."""
    async with world() as w:
        log = w.client()
        await committed(log, 0, b"a")
        await log.prefix_trim(await tail_of(log))

        assert await committed(log, 0, b"a") is Committed.NOW
        assert await seen(log, 2) == [b"a"]


async def test_strangers_commit_nothing(autojump_clock: MockClock) -> None:
    """Bytes that begin like a marker, a marker among rows, and one that names what is not written yet."""
    async with world() as w:
        log = w.client()
        winner = await attempt(log, b"a")
        marker = Marker(QUERY, 0, Checkpoint(LogPosition(0), ()), (winner,)).encode()
        await log.append(MAGIC + b"something")
        await log.append_many([marker, marker])

        assert await seen(log) == []
        assert await commit(log, QUERY, 0, [winner]) is Committed.NOW


async def test_nobody_passes_over_what_is_lost(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """A marker may have been there: neither are rows shown as all there are, nor is a batch committed again."""
    async with world() as w:
        log = w.client()
        winner = await attempt(log, b"a")

        async def lost(_: VirtualLog, start: int, stop: int, __: int = 0) -> list[Gap]:
            return [Gap(start, stop, GapKind.LOST)]

        monkeypatch.setattr(VirtualLog, "read", lost)
        with pytest.raises(CorruptionError, match="positions 0 to 0 are lost"):
            await seen(log)
        with pytest.raises(CorruptionError):
            await commit(log, QUERY, 0, [winner])


async def test_a_reconfiguration_in_between_changes_nothing(autojump_clock: MockClock) -> None:
    """Markers are looked for over segments of any kind."""
    async with world() as w:
        log = w.client()
        winner = await attempt(log, b"a")
        await log.reconfig_extend("sparse")
        other = await attempt(log, b"b", b"c")
        assert await commit(log, QUERY, 0, [winner, other]) is Committed.NOW
        await log.reconfig_extend("memory")

        assert await committed(log, 0, b"a") is Committed.BEFORE
        assert await seen(log) == [b"a", b"b", b"c"]
