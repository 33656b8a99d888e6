"""Synced writes: when the event loop does them, and when the thread. Their order is the same."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import outcome
import pytest
import trio

from virtuallog.runtime.end_of_turn import end_of_turn
from virtuallog.runtime.sync_worker import DEBT_MAX, FAST_SECONDS, LOOP_BYTES_MAX, PENALTY, SyncPace, SyncWorker


@pytest.fixture
def worker() -> Iterator[SyncWorker]:
    """A worker of a disk that has been fast so far."""
    made = SyncWorker("writer of a test")
    for _ in range(PENALTY):
        made.pace.took(FAST_SECONDS / 10)
    yield made
    made.stop()


def thread_of_job() -> bool:
    """Return True if the calling thread is that of the event loop."""
    return threading.current_thread() is threading.main_thread()


async def written(
    worker: SyncWorker, job: Callable[[], bool] = thread_of_job, size: int = 1, *, early: bool = True
) -> bool:
    """Write, and return what the job returned. `early`: as at the end of a callback, not between two turns."""
    results: list[outcome.Outcome[bool]] = []
    is_done = trio.Event()

    def done(result: outcome.Outcome[bool]) -> None:
        results.append(result)
        is_done.set()

    worker.write_soon(lambda: (job, size), done)
    assert not results
    if early:
        end_of_turn().flush()
    await is_done.wait()
    return results[0].unwrap()


async def test_a_fast_disk_is_written_on_the_event_loop(worker: SyncWorker) -> None:
    """From the turn that has asked for it, if the loop has not decided yet how long it waits; small writes only."""
    assert await written(worker)
    assert not await written(worker, early=False)
    assert not await written(worker, size=LOOP_BYTES_MAX + 1)
    assert await written(worker)


async def test_a_new_worker_knows_nothing_about_its_disk() -> None:
    """The first writes are done in the thread."""
    worker = SyncWorker("writer of a test")
    assert [await written(worker) for _ in range(PENALTY)] == [False] * PENALTY
    assert await written(worker)
    worker.stop()


async def test_writes_stay_in_order(worker: SyncWorker) -> None:
    """While the thread has work, later writes queue up behind it."""
    seen: list[str] = []
    go_on, is_done = threading.Event(), trio.Event()

    def slow() -> None:
        go_on.wait()
        seen.append("first")

    worker.post(slow, lambda _: None)
    worker.write_soon(lambda: (lambda: seen.append("second"), 1), lambda _: is_done.set())
    end_of_turn().flush()
    assert seen == []
    go_on.set()
    await is_done.wait()

    assert seen == ["first", "second"]


async def test_a_failure_is_an_outcome(worker: SyncWorker) -> None:
    """An error of the job comes with the callback, wherever it ran."""

    def fail() -> bool:
        raise OSError("the disk is gone")

    for early in (True, False):
        with pytest.raises(OSError, match="the disk is gone"):
            await written(worker, fail, early=early)


def test_a_slow_write_is_a_debt() -> None:
    """The longer it took, the more fast ones are needed; a stall for minutes does not count for ever."""
    for seconds, fast_ones in ((2 * FAST_SECONDS, 2 * PENALTY), (1000 * FAST_SECONDS, 1000 * PENALTY), (1e9, DEBT_MAX)):
        pace = SyncPace()
        for _ in range(PENALTY):
            pace.took(FAST_SECONDS)
        judgements = [pace.is_fast]
        pace.took(seconds)
        for _ in range(fast_ones):
            judgements.append(pace.is_fast)
            pace.took(FAST_SECONDS)
        judgements.append(pace.is_fast)

        assert judgements == [True] + [False] * fast_ones + [True]
