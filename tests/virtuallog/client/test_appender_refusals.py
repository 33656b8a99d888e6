"""Appends that are refused, or given up."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.virtuallog.client.flaky_loglets import Flaky, flaky, slow_log
from tests.virtuallog.client.world import contents, world
from virtuallog.client.append_queue import BATCH_HEADERS_BYTES
from virtuallog.client.appender import AppenderSettings
from virtuallog.contract.batch import BATCH_BYTES_MAX, BATCH_COUNT_MAX, Batch
from virtuallog.contract.errors import (
    InvalidSettingError,
    MalformedError,
    OverloadedError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.types import LogletOffset, LogPosition, PlacedBatch
from virtuallog_loglets.memory import MemoryLoglet

pytestmark = pytest.mark.usefixtures("way")


@attrs.define
class LostThenRefused(Flaky):
    """A loglet that places the first batch and loses the answer; the second offer of it arrives damaged."""

    offers: int = 0

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        self.offers += 1
        if self.offers == 2:
            raise MalformedError("damaged on its way")
        places = await self.inner.append(batch, opens=opens, expected_tail=expected_tail)
        if self.offers == 1:
            raise UnavailableError("lost on the way back")
        return places


async def test_a_refusal_after_a_lost_answer_is_unknown_not_refused(autojump_clock: MockClock) -> None:
    """The entry is in the log: an error that says "nothing was done" would make its caller append it once more."""
    async with world() as w:
        log = w.client()
        segment = w.register.chain.last
        inner = w.providers["memory"].open(segment.id, b"", log.view.environment)
        assert isinstance(inner, MemoryLoglet)
        log.view._loglets[segment.id] = LostThenRefused(inner, random.Random(0), loss=0.0)

        with pytest.raises(UnavailableError, match="damaged"):
            await log.append(b"once")
        await log.append(b"next")

        assert [payload for _, payload in await contents(w.client())] == [b"once", b"next"]


@attrs.define
class EarlyThenLate(Flaky):
    """A loglet with a full queue for the first call; a copy of it, delivered later, is taken."""

    offers: int = 0

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        self.offers += 1
        if self.offers == 1:
            await self.inner.append(batch, opens=opens, expected_tail=expected_tail)
            await self.inner.seal()
            raise OverloadedError("too much is queued")
        return await self.inner.append(batch, opens=opens, expected_tail=expected_tail)


async def test_a_batch_that_was_refused_for_the_moment_is_looked_for(autojump_clock: MockClock) -> None:
    """A call may be executed twice: the refusal of one copy says nothing about the other."""
    async with world() as w:
        log = w.client()
        segment = w.register.chain.last
        inner = w.providers["memory"].open(segment.id, b"", log.view.environment)
        assert isinstance(inner, MemoryLoglet)
        log.view._loglets[segment.id] = EarlyThenLate(inner, random.Random(0), loss=0.0)

        assert await log.append(b"once") == 0
        await log.append(b"next")

        assert [payload for _, payload in await contents(w.client())] == [b"once", b"next"]


async def test_a_crowd_that_was_split_appends_together_again(autojump_clock: MockClock) -> None:
    """A caller that is ahead of the others waits for them: batches are few and full."""
    async with trio.open_nursery() as nursery:
        log = flaky(nursery, loss=0.0).client()

        async def keep_appending() -> None:
            for _ in range(5):
                await log.append(b"e" * 100)

        await log.append(b"alone, so the next one that comes does not wait for others")
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as crowd:
            for _ in range(64):
                crowd.start_soon(keep_appending)

        tail = LogPosition((await log.check_tail()).tail)
        found = log.reader(LogPosition(0), tail).batches()
        sizes = [placed.batch.count async for placed in found if isinstance(placed, PlacedBatch)]
        assert sum(sizes) == 1 + 64 * 5
        assert sizes[:2] == [1, 1]
        assert 64 in sizes
        assert len(sizes) <= 10
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "settings",
    [
        {"batch_bytes": 32 << 20},
        {"batch_bytes": BATCH_BYTES_MAX - 4 * 4096},
        {"batch_entries": BATCH_COUNT_MAX + 1},
        {"batch_entries": 0},
        {"batch_bytes": 0},
        {"window": 0},
    ],
    ids=str,
)
def test_settings_that_make_batches_nobody_takes_are_refused(settings: dict[str, Any]) -> None:
    """If a batch cannot be built, its entries would be lost, and their callers would wait for ever."""
    with pytest.raises(InvalidSettingError):
        AppenderSettings(**settings)


async def test_the_largest_batch_that_settings_allow_can_be_built(autojump_clock: MockClock) -> None:
    """A batch may be filled to the last byte and the last entry."""
    entries = BATCH_COUNT_MAX
    room = BATCH_BYTES_MAX - BATCH_HEADERS_BYTES - 4 * entries
    async with world() as w:
        appender = w.client().appender(AppenderSettings(batch_bytes=room, batch_entries=entries))
        half = [b"", *[b"x" * (room // entries)] * (entries // 2 - 1)]
        with trio.fail_after(10):
            async with trio.open_nursery() as work:
                work.start_soon(appender.append, [b"opens the session"])
                work.start_soon(appender.append, [b"and ends its first batch", b"x" * (4 << 20)])
                await trio.sleep(1)
                work.start_soon(appender.append, half)
                work.start_soon(appender.append, half)
        assert (await w.client().check_tail()).tail == 3 + entries


async def test_a_condition_that_cannot_hold_does_not_touch_what_was_offered_before(autojump_clock: MockClock) -> None:
    """The session knows at once that the log is past the expected tail; the entry before is on its way and is placed.
    Before the fix it failed as unknown, since the batch behind it had failed."""
    async with world() as w:
        await w.client().append(b"0")
        await w.client().reconfig_extend("memory")
        appender = slow_log(w).appender()
        await appender.append([b"1"])
        places: list[range] = []

        async def append() -> None:
            places.append(await appender.append([b"2"]))

        async with trio.open_nursery() as work:
            work.start_soon(append)
            await trio.sleep(0.05)
            with pytest.raises(TailMismatchError):
                await appender.append([b"too late" * 20], LogPosition(0))

        assert places == [range(2, 3)]
        assert await appender.append([b"3"]) == range(3, 4)


async def test_an_entry_refused_for_good_does_not_touch_what_was_offered_before(autojump_clock: MockClock) -> None:
    """The refusal may be faster than the acknowledgement of the entry before it."""
    async with world() as w:
        appender = slow_log(w, refuses=b"BAD").appender()
        await appender.append([b"0"])
        places: list[range] = []

        async def append() -> None:
            places.append(await appender.append([b"1"]))

        async with trio.open_nursery() as work:
            work.start_soon(append)
            await trio.sleep(0.05)
            with pytest.raises(MalformedError):
                await appender.append([b"BAD" * 100])

        assert places == [range(1, 2)]
        assert [payload for _, payload in await contents(w.client())] == [b"0", b"1"]


async def test_a_late_refusal_of_a_session_that_was_given_up_touches_nobody(autojump_clock: MockClock) -> None:
    """Two entries are refused for good; by the time the second refusal comes, the appender goes on as a new session."""
    async with world() as w:
        appender = slow_log(w, refuses=b"BAD").appender()
        await appender.append([b"0"])
        failed: list[VirtualLogError] = []

        async def refused() -> None:
            with pytest.raises(VirtualLogError) as caught:
                await appender.append([b"BAD" * 100])
            failed.append(caught.value)

        async with trio.open_nursery() as work:
            work.start_soon(refused)
            await trio.sleep(0.05)
            work.start_soon(refused)
            await trio.sleep(0.06)
            assert await appender.append([b"1"]) == range(1, 2)

        assert {type(error) for error in failed} == {MalformedError, UnavailableError}
