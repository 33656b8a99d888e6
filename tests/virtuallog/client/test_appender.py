"""Exactly once and in order: the appender against a loglet that loses replies and gets sealed."""

from __future__ import annotations

import random
from collections import Counter

import attrs
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.virtuallog.client.flaky_loglets import Flaky, FlakyProvider, flaky
from tests.virtuallog.client.world import World, active_loglet, contents, world
from virtuallog.client.appender import AppenderSettings
from virtuallog.client.batch_sender import LATE_SHARE
from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    SealedError,
    UnavailableError,
)
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogPosition
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider

pytestmark = pytest.mark.usefixtures("way")


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
    """Entries that wait when the loglet is ready travel as one batch."""
    async with world() as w:
        log = w.client()
        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(log.append, b"%d" % number)

        items = await log.read(LogPosition(0), LogPosition(200), 1 << 20)

        assert len(items) < 20


async def test_a_cancelled_append_leaves_no_hole_and_blocks_nobody(autojump_clock: MockClock) -> None:
    """Item 43: a caller is cancelled at any moment; the outcome of its entry is unknown, and all others go on."""
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
    """By default no append waits for ever, and an unknown outcome is reported as unknown."""
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


@pytest.mark.parametrize("outage", [0.3, 1.0, 1.7])
async def test_a_successor_is_noticed_within_a_share_of_the_time_waited(
    autojump_clock: MockClock, outage: float
) -> None:
    """The longer no sequencer answers, the rarer an append looks at the chain."""
    async with trio.open_nursery() as nursery:
        w = flaky(nursery, loss=1.0)
        log, operator = w.client(), w.client()
        provider = w.providers["memory"]
        assert isinstance(provider, FlakyProvider)

        async def extend() -> float:
            await trio.sleep(outage)
            provider.loss = 0.0
            await operator.reconfig_extend("memory")
            return trio.current_time()

        extended_at = list[float]()
        async with trio.open_nursery() as work:
            work.start_soon(log.append, b"x")
            extended_at.append(await extend())

        # The attempts at both loglets take up to 20 ms each.
        assert trio.current_time() - extended_at[0] < 0.04 + outage * LATE_SHARE + 0.04
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
    """Appends that wait for a closed appender fail at once with an unknown outcome."""
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
    """No caller waits for a closed appender. None of their entries is in the log."""
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
    """Others have appended and trimmed since its last entry. The search for its next one begins at the tail known when
    it was offered, and not in the trimmed range."""
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
    """A provider that records which clients have opened which loglets."""

    opened: list[tuple[int, SegmentId]] = attrs.field(factory=list)

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        self.opened.append((id(environment), segment))
        return MemoryProvider.open(self, segment, config, environment)


async def test_an_idle_session_keeps_its_client_of_a_loglet_that_has_left_the_chain(autojump_clock: MockClock) -> None:
    """A new client of a loglet does not know the session. For a striped loglet it refused the next batch as too early."""
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
    """The queue is bounded in bytes for any number of callers."""
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
    """SealedError from the log is a promise: the entry is not in the log, also after the log is opened again."""
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
