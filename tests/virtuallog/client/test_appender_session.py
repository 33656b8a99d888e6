"""Appenders with one session, and posted appends."""

from __future__ import annotations

import random
from collections import Counter

import attrs
import pytest
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.virtuallog.client.flaky_loglets import Flaky, FlakyProvider, flaky, slow_log
from tests.virtuallog.client.world import active_loglet, contents, world
from virtuallog.client.appender import AppenderSettings
from virtuallog.contract.errors import MalformedError, TooLargeError, UnavailableError, VirtualLogError
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog_loglets.memory import MemoryLoglet

pytestmark = pytest.mark.usefixtures("way")

ONE_SESSION = AppenderSettings(one_session=True, give_up=20.0)


async def test_an_appender_of_one_session_ends_with_the_first_failure(autojump_clock: MockClock) -> None:
    """All queued and later appends fail: no entry is in the log under another session."""
    async with world() as w:
        log = slow_log(w, refuses=b"BAD")
        appender = log.appender(ONE_SESSION)
        session = appender.session
        await appender.append([b"0"])
        failed: list[VirtualLogError] = []

        async def append(payload: bytes) -> None:
            with pytest.raises(VirtualLogError) as caught:
                await appender.append([payload])
            failed.append(caught.value)

        async with trio.open_nursery() as work:
            for payload in (b"BAD" * 100, *[b"behind it %d" % number for number in range(20)]):
                work.start_soon(append, payload)
                await wait_all_tasks_blocked()
        assert len(failed) == 21
        assert {type(error) for error in failed} == {MalformedError, UnavailableError}
        with pytest.raises(UnavailableError, match="the session has ended, nothing was done"):
            await appender.append([b"late"])
        with pytest.raises(UnavailableError, match="the session has ended, nothing was done"):
            appender.post(b"late", lambda _: None)
        assert appender.session == session
        appender.close()
        assert appender.session == session

        assert await log.appender().append([b"1"]) == range(1, 2)
        found = await log.read(LogPosition(0), LogPosition(2))
        assert [item.batch.session == session for item in found if isinstance(item, PlacedBatch)] == [True, False]


async def test_an_appender_of_one_session_that_gives_up_ends(autojump_clock: MockClock) -> None:
    """Callers that wait for room in its queue fail as well."""
    async with world() as w:
        log, segment = w.client(), w.register.chain.last
        inner = w.providers[segment.kind].open(segment.id, b"", log.view.environment)
        assert isinstance(inner, MemoryLoglet)
        log.view._loglets[segment.id] = Flaky(inner, random.Random(0), loss=1.0)
        appender = log.appender(attrs.evolve(ONE_SESSION, queue_bytes_max=100))
        told = Counter[str]()

        async def append() -> None:
            with pytest.raises(UnavailableError) as caught:
                await appender.append([b"x" * 80])
            told["nothing was done" if "nothing was done" in str(caught.value) else "unknown"] += 1

        async with trio.open_nursery() as work:
            for _ in range(6):
                work.start_soon(append)
        assert sum(told.values()) == 6
        assert set(told) == {"unknown", "nothing was done"}


async def test_an_appender_of_one_session_lives_through_losses_and_swaps(autojump_clock: MockClock) -> None:
    """Losses and swaps are settled as usual: all entries are in the log once, in order, under one session."""
    async with trio.open_nursery() as nursery:
        w = flaky(nursery, 0.2)
        log = w.client()
        with log.appender(ONE_SESSION) as appender:
            for number in range(40):
                await appender.append([b"%d" % number])
                if number % 10 == 9:
                    await w.client().reconfig_extend("memory")
        tail = LogPosition((await log.check_tail()).tail)
        reader = w.client().reader(LogPosition(0), tail)
        placed = [item async for item in reader.batches() if isinstance(item, PlacedBatch)]
        assert {item.batch.session for item in placed} == {appender.session}
        assert [payload for item in placed for payload in item.batch.payloads] == [b"%d" % n for n in range(40)]
        nursery.cancel_scope.cancel()


async def test_posts_and_appends_of_one_session_are_in_the_log_in_the_order_of_the_calls(
    autojump_clock: MockClock,
) -> None:
    """The callback of a post is called once, with the place; the poster does not wait."""
    async with world() as w:
        log, told = w.client(), {}
        with log.appender() as appender:
            for number in range(10):
                appender.post(b"%d" % number, lambda outcome, number=number: told.update({number: outcome}))  # type: ignore[misc]
            assert await appender.append([b"last"]) == range(10, 11)

        assert told == {number: range(number, number + 1) for number in range(10)}
        assert [payload for _, payload in await contents(log)] == [b"%d" % number for number in range(10)] + [b"last"]


async def test_who_is_told_may_post_again_within_the_call(autojump_clock: MockClock) -> None:
    """Entries posted within a callback are sent, also across swaps: those of a settlement go to the successor, in order."""
    async with world() as w:
        log, operator = w.client(), w.client()
        finished = trio.Event()
        places: list[range] = []
        with log.appender() as appender:

            def told(outcome: range | VirtualLogError) -> None:
                assert isinstance(outcome, range)
                places.append(outcome)
                if len(places) < 200:
                    appender.post(b"%d" % len(places), told)
                else:
                    finished.set()

            appender.post(b"0", told)
            for kind in ("sparse", "memory", "sparse"):
                await trio.lowlevel.checkpoint()
                await operator.reconfig_extend(kind)
            await finished.wait()

        assert [payload for _, payload in await contents(log)] == [b"%d" % number for number in range(200)]
        assert [place.start for place in places] == sorted({place.start for place in places})


async def test_posts_of_an_appender_that_gives_up_fail_in_order_and_the_next_ones_are_a_new_session(
    autojump_clock: MockClock,
) -> None:
    """A callback may post again at once: that post does not fail with the others."""
    async with trio.open_nursery() as nursery:
        w = flaky(nursery, loss=1.0)
        provider = w.providers["memory"]
        assert isinstance(provider, FlakyProvider)
        log = w.client()
        told: list[tuple[int, str]] = []
        with log.appender(AppenderSettings(give_up=1.0)) as appender:
            former, again = appender.session, trio.Event()

            def note(number: int, outcome: range | VirtualLogError) -> None:
                told.append((number, type(outcome).__name__))
                if number == 0:
                    active_loglet(log, w).loss = 0.0  # type: ignore[attr-defined]
                    appender.post(b"again", note_again)

            def note_again(outcome: range | VirtualLogError) -> None:
                note(99, outcome)
                again.set()

            for number in range(3):
                appender.post(b"%d" % number, lambda outcome, number=number: note(number, outcome))  # type: ignore[misc]
            await again.wait()

        assert told == [(number, "UnavailableError") for number in range(3)] + [(99, "range")]
        assert appender.session != former
        nursery.cancel_scope.cancel()


async def test_what_cannot_be_posted_is_refused_at_once(autojump_clock: MockClock) -> None:
    """A refused post makes no callback."""
    async with world() as w:
        appender = w.client().appender()
        with pytest.raises(TooLargeError):
            appender.post(bytes(5 << 20), print)
        appender.close()
        with pytest.raises(UnavailableError, match="nothing was done"):
            appender.post(b"", print)
