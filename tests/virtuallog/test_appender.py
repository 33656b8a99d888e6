"""Exactly once, in order, whatever fails: the appender against a loglet that loses replies and gets sealed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.virtuallog.worlds import World, active_loglet, contents, post_everything, world
from virtuallog.api import Loglet, Placed
from virtuallog.appender import AppenderSettings
from virtuallog.batch import BATCH_BYTES_MAX, BATCH_COUNT_MAX, Batch
from virtuallog.chain import SegmentId
from virtuallog.errors import (
    InvalidSettingError,
    MalformedError,
    OverloadedError,
    SealedError,
    TailMismatchError,
    TooLargeError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.offers import BATCH_HEADERS_BYTES
from virtuallog.ports import Environment
from virtuallog.types import LogletOffset, LogPosition, PlacedBatch, Tail
from virtuallog.virtual_log import VirtualLog
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider


@pytest.fixture(autouse=True, params=["waits", "posts"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything here holds for both: loglets that are waited for, and those that take posts."""
    if request.param == "posts":
        post_everything(monkeypatch)


@attrs.define
class Flaky:
    """A loglet whose appends are lost on the way there or back, at random, and come late."""

    inner: MemoryLoglet
    random: random.Random
    loss: float

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        await trio.sleep(self.random.random() / 100)
        if self.random.random() < self.loss:
            raise UnavailableError("lost on the way there")
        places = await self.inner.append(batch, opens=opens, expected_tail=expected_tail)
        await trio.sleep(self.random.random() / 100)
        if self.random.random() < self.loss:
            raise UnavailableError("lost on the way back")
        return places

    async def check_tail(self) -> Tail:
        return await self.inner.check_tail()

    async def wait_tail(self, past: LogletOffset) -> Tail:
        return await self.inner.wait_tail(past)

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        return await self.inner.read(start, stop, max_bytes)

    async def seal(self) -> None:
        await self.inner.seal()

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        return await self.inner.prefix_trim(offset)


@attrs.define
class FlakyProvider(MemoryProvider):
    loss: float = 0.3

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:  # type: ignore[override]
        inner = MemoryProvider.open(self, segment, config, environment)
        return Flaky(inner, environment.random, self.loss)


def flaky(nursery: trio.Nursery, loss: float) -> World:
    return World(nursery, providers={"memory": FlakyProvider(loss=loss), "sparse": FlakyProvider("sparse", 4, loss)})


@pytest.mark.parametrize("seed", range(20))
async def test_every_entry_is_in_the_log_once_and_in_order_across_losses_and_swaps(
    seed: int, autojump_clock: MockClock
) -> None:
    """Section 3.5 and design 3.3: appends are retried after unknown outcomes and seals, yet nothing doubles."""
    chance = random.Random(seed)
    async with trio.open_nursery() as nursery:
        w = flaky(nursery, loss=0.2)
        log, operator = w.client(), w.client()
        acknowledged: dict[LogPosition, bytes] = {}

        async def produce(name: int) -> None:
            for number in range(15):
                payload = b"%d/%d" % (name, number)
                acknowledged[await log.append(payload)] = payload
                await trio.sleep(chance.random() / 50)

        async def swap() -> None:
            for _ in range(4):
                await trio.sleep(chance.random() / 5)
                await operator.reconfig_extend(chance.choice(["memory", "sparse"]))

        async with trio.open_nursery() as work:
            work.start_soon(swap)
            for name in range(4):
                work.start_soon(produce, name)

        found = await contents(w.client())
        nursery.cancel_scope.cancel()

    assert dict(found) == acknowledged
    assert max(Counter(payload for _, payload in found).values()) == 1
    for name in range(4):
        mine = [payload for _, payload in found if payload.startswith(b"%d/" % name)]
        assert mine == [b"%d/%d" % (name, number) for number in range(15)]


async def test_concurrent_appends_share_batches(autojump_clock: MockClock) -> None:
    """What waits when the loglet is ready travels as one batch."""
    async with world() as w:
        log = w.client()
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(log.append, b"%d" % number)

        items = await log.read(LogPosition(0), LogPosition(200), 1 << 20)

        assert len(items) < 20


async def test_a_cancelled_append_leaves_no_hole_and_blocks_nobody(autojump_clock: MockClock) -> None:
    """Item 43: the caller goes away at any moment; its entry is a maybe, and all others go on."""
    async with world() as w:
        log = w.client()
        for checkpoints in range(12):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(log.append, b"cancelled %d" % checkpoints)
                for _ in range(checkpoints):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            with trio.fail_after(5):
                await log.append(b"kept %d" % checkpoints)

        found = [payload for _, payload in await contents(log)]
        assert [payload for payload in found if payload.startswith(b"kept")] == [b"kept %d" % n for n in range(12)]
        assert max(Counter(found).values()) == 1


async def test_an_append_to_a_loglet_that_never_answers_is_given_up_as_unknown(autojump_clock: MockClock) -> None:
    """Nothing waits for ever by default, and unknown is said, not guessed."""
    async with trio.open_nursery() as nursery:
        w = flaky(nursery, loss=1.0)
        log = w.client()
        began = trio.current_time()
        with pytest.raises(UnavailableError):
            await log.append(b"x")
        assert 20 <= trio.current_time() - began < 25
        nursery.cancel_scope.cancel()


async def test_a_reconfiguration_frees_an_append_that_is_stuck(autojump_clock: MockClock) -> None:
    """The sequencer is gone and does not come back; the chain moves on, and the entry with it."""
    async with trio.open_nursery() as nursery:
        w = flaky(nursery, loss=1.0)
        log, operator = w.client(), w.client()
        results: list[LogPosition] = []

        async def append() -> None:
            results.append(await log.append(b"x"))

        async with trio.open_nursery() as work:
            work.start_soon(append)
            await trio.sleep(1)
            for provider in w.providers.values():
                assert isinstance(provider, FlakyProvider)
                provider.loss = 0.0
            await operator.reconfig_extend("memory")

        assert [payload for _, payload in await contents(operator)] == [b"x"]
        assert len(results) == 1
        nursery.cancel_scope.cancel()


async def test_what_was_trimmed_before_it_was_settled_is_unknown_not_repeated(autojump_clock: MockClock) -> None:
    """If the evidence is gone, an append fails with UnavailableError; guessing could double the entry."""
    async with trio.open_nursery() as nursery:
        w = flaky(nursery, loss=0.0)
        log, operator = w.client(), w.client()
        await log.append(b"first")
        provider = w.providers["memory"]
        assert isinstance(provider, FlakyProvider)
        loglet = active_loglet(log, w)
        assert isinstance(loglet, Flaky)
        loglet.loss = 1.0
        loglet.random = random.Random(0)
        caught: list[UnavailableError] = []

        async def append() -> None:
            try:
                await log.append(b"lost")
            except UnavailableError as error:
                caught.append(error)

        async with trio.open_nursery() as work:
            work.start_soon(append)
            await wait_all_tasks_blocked()
            inner = loglet.inner
            await inner.append(Batch.build(log._default_appender().session, 1, [b"lost"]), opens=False)
            await operator.reconfig_extend("memory")
            await operator.append(b"later")
            await operator.prefix_trim(LogPosition(3))

        assert len(caught) == 1
        assert await log.append(b"next") == 3
        nursery.cancel_scope.cancel()


async def test_a_closed_appender_fails_its_waiters_and_nobody_elses(autojump_clock: MockClock) -> None:
    """Whoever waits for a closed appender hears that the outcome is unknown, at once."""
    async with trio.open_nursery() as nursery:
        w = flaky(nursery, loss=1.0)
        log = w.client()
        appender = log.appender()

        async def append() -> None:
            with pytest.raises(UnavailableError):
                await appender.append([b"x"])

        async with trio.open_nursery() as work:
            work.start_soon(append)
            await trio.sleep(1)
            appender.close()
        nursery.cancel_scope.cancel()


async def test_a_closed_appender_fails_those_who_wait_for_room_and_those_who_come_late(
    autojump_clock: MockClock,
) -> None:
    """Nobody waits for an appender that does no work any more. Of their entries nothing is in the log."""
    async with trio.open_nursery() as nursery:
        w = flaky(nursery, loss=1.0)
        appender = w.client().appender(AppenderSettings(queue_bytes_max=100, batch_bytes=100, window=1))
        failed: list[bytes] = []

        async def append(payload: bytes) -> None:
            with pytest.raises(UnavailableError):
                await appender.append([payload])
            failed.append(payload)

        with trio.move_on_after(10):
            async with trio.open_nursery() as work:
                for number in range(5):
                    work.start_soon(append, b"%d" % number * 100)
                await trio.sleep(1)
                appender.close()
                await append(b"late")
        assert len(failed) == 6
        nursery.cancel_scope.cancel()


async def test_an_idle_session_settles_by_what_came_after_it(autojump_clock: MockClock) -> None:
    """Others have appended and trimmed since its last entry. Its next one is searched for from the tail that was known
    when it was offered, and not in what has been trimmed."""
    async with trio.open_nursery() as nursery:
        w = flaky(nursery, loss=0.0)
        log, operator = w.client(), w.client()
        await log.append(b"first")
        await operator.append_many([b"a", b"b"])
        await operator.prefix_trim(LogPosition(3))
        await log.check_tail()
        loglet = active_loglet(log, w)
        assert isinstance(loglet, Flaky)
        loglet.loss = 1.0

        async with trio.open_nursery() as work:
            work.start_soon(log.append, b"second")
            await trio.sleep(1)
            await operator.reconfig_extend("memory")

        assert [payload for _, payload in await contents(operator)] == [b"second"]
        nursery.cancel_scope.cancel()


@attrs.define
class CountingProvider(MemoryProvider):
    """Remembers whose clients of which loglets were opened."""

    opened: list[tuple[int, SegmentId]] = attrs.field(factory=list)

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        self.opened.append((id(environment), segment))
        return MemoryProvider.open(self, segment, config, environment)


async def test_an_idle_session_keeps_its_client_of_a_loglet_that_has_left_the_chain(autojump_clock: MockClock) -> None:
    """A client that is opened anew does not know the session. That of a striped loglet refused its next batch as too early."""
    async with trio.open_nursery() as nursery:
        provider = CountingProvider()
        w = World(nursery, providers={"memory": provider})
        log, operator = w.client(), w.client()
        await log.append(b"first")
        await operator.reconfig_extend("memory")
        await operator.append(b"a")
        await operator.prefix_trim(LogPosition(1))
        await log.view.refresh()
        assert len(w.register.chain.segments) == 1

        await log.append(b"second")

        assert len(provider.opened) == len(set(provider.opened))
        assert [payload for _, payload in await contents(operator)] == [b"a", b"second"]
        nursery.cancel_scope.cancel()


async def test_a_full_queue_makes_callers_wait(autojump_clock: MockClock) -> None:
    """Bytes queued are bounded however many callers there are."""
    async with world() as w:
        log = w.client()
        appender = log.appender(AppenderSettings(queue_bytes_max=1000, batch_bytes=500, window=1))
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(appender.append, [bytes(100)])
            await wait_all_tasks_blocked()
            assert appender.queued_bytes <= 1100
        assert (await log.check_tail()).tail == 50


async def test_appends_to_a_closed_log_fail_and_are_not_in_it(autojump_clock: MockClock) -> None:
    """SealedError from the log itself is a promise: the entry is not there, also after the log is opened again."""
    async with world() as w:
        log, operator = w.client(), w.client()
        await log.append(b"a")
        await operator.seal()
        async with trio.open_nursery() as nursery:
            for _ in range(3):

                async def refused() -> None:
                    with pytest.raises(SealedError):
                        await log.append(b"no")

                nursery.start_soon(refused)
        await operator.reconfig_extend("memory")
        await log.append(b"b")
        assert [payload for _, payload in await contents(log)] == [b"a", b"b"]


@attrs.define
class LostThenRefused(Flaky):
    """Places the first batch and loses the answer; the second offer of it arrives damaged."""

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
    """The first call finds a full queue; a copy of it, delivered later, is taken."""

    offers: int = 0

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        self.offers += 1
        if self.offers == 1:
            await self.inner.append(batch, opens=opens, expected_tail=expected_tail)
            await self.inner.seal()
            raise OverloadedError("too much is queued")
        return await self.inner.append(batch, opens=opens, expected_tail=expected_tail)


async def test_a_batch_that_was_refused_for_the_moment_is_looked_for(autojump_clock: MockClock) -> None:
    """A call may be executed twice: that one copy of it was turned away says nothing of the other."""
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
    """One entry that has left ahead of the others waits for them when it is back: batches are few and full."""
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
    """Entries that were gathered for a batch that cannot be built would be lost, and their callers would wait for ever."""
    with pytest.raises(InvalidSettingError):
        AppenderSettings(**settings)


async def test_the_largest_batch_that_settings_allow_can_be_built(autojump_clock: MockClock) -> None:
    """Filled to the last byte and the last entry."""
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


@attrs.define
class Slow(Flaky):
    """Takes a while to place anything, or to refuse it for good."""

    refuses: bytes = b"(nothing)"

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        refused = self.refuses in batch.blob
        await trio.sleep(0.1 if refused else 0.3)
        if refused:
            raise MalformedError("refused for good")
        return await self.inner.append(batch, opens=opens, expected_tail=expected_tail)


def slow_log(w: World, refuses: bytes = b"(nothing)") -> VirtualLog:
    """A client whose active loglet is `Slow`."""
    log, segment = w.client(), w.register.chain.last
    inner = w.providers[segment.kind].open(segment.id, b"", log.view.environment)
    assert isinstance(inner, MemoryLoglet)
    log.view._loglets[segment.id] = Slow(inner, random.Random(0), loss=0.0, refuses=refuses)
    return log


async def test_a_condition_that_cannot_hold_does_not_touch_what_was_offered_before(autojump_clock: MockClock) -> None:
    """The session knows at once that the log is past the tail that was expected; the entry before is on its way and is
    placed. It was told "unknown", since the batch behind it had failed."""
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


# -- one session for good -------------------------------------------------------------------------------------------


ONE_SESSION = AppenderSettings(one_session=True, give_up=20.0)


async def test_an_appender_of_one_session_ends_with_the_first_failure(autojump_clock: MockClock) -> None:
    """All that was offered behind it fails, and all that comes: nothing is in the log under another session."""
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
    """Those who wait for room in its queue are told, too."""
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
    """What can be settled is settled, as ever: all entries are in the log once, in order, under one session."""
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


# -- posts ----------------------------------------------------------------------------------------------------------


async def test_posts_and_appends_of_one_session_are_in_the_log_in_the_order_of_the_calls(
    autojump_clock: MockClock,
) -> None:
    """Who posts is called with the place, once, and waits for nothing."""
    async with world() as w:
        log, told = w.client(), {}
        with log.appender() as appender:
            for number in range(10):
                appender.post(b"%d" % number, lambda outcome, number=number: told.update({number: outcome}))  # type: ignore[misc]
            assert await appender.append([b"last"]) == range(10, 11)

        assert told == {number: range(number, number + 1) for number in range(10)}
        assert [payload for _, payload in await contents(log)] == [b"%d" % number for number in range(10)] + [b"last"]


async def test_who_is_told_may_post_again_within_the_call(autojump_clock: MockClock) -> None:
    """Across swaps, too: what is posted while maybes are settled goes to the successor, in order."""
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
    """Whoever is told so may post at once: that is not failed with the others."""
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
    """Then nobody is called."""
    async with world() as w:
        appender = w.client().appender()
        with pytest.raises(TooLargeError):
            appender.post(bytes(5 << 20), print)
        appender.close()
        with pytest.raises(UnavailableError, match="nothing was done"):
            appender.post(b"", print)
