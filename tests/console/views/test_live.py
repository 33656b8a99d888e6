"""Live figures: one ring of samples for all viewers, at a bounded cost for the cluster."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.console.views.test_nodes import log_of
from tests.server.node.world import World, make_world, until
from tests.virtuallog.client.world import world as log_world
from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog_console.views import live
from virtuallog_console.views.live import PERIOD_SECONDS, REGISTER_SECONDS, LiveFigures, LiveSample
from virtuallog_console.views.plain import plain


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


def without_nodes(log: VirtualLog, register: Any) -> None:
    """Let the client know a register that names no nodes: memory loglets need none."""
    log.view.adopt(attrs.evolve(register, nodes={}))


async def test_throughput_and_latency_are_measured(autojump_clock: MockClock) -> None:
    """Entries of all clients per second; the time of the tail check; the appends of this client itself."""
    async with log_world() as w:
        log, other = w.client(), w.client()
        without_nodes(log, w.register)
        figures, clock = LiveFigures(log), log.view.environment.clock
        first = await figures.sample()
        assert (first.tail, first.entries_per_second, first.append_p50_ms) == (0, None, None)
        await other.append_many([b"x"] * 30)
        await clock.sleep(2)
        second = await figures.sample()
        assert (second.tail, second.entries_per_second, second.append_p50_ms) == (30, 15.0, None)
        await log.append(b"x")
        third = await figures.sample()
        assert third.append_p50_ms is not None
        assert third.append_p99_ms is not None
        assert (await figures.sample()).append_p50_ms is None
        assert [sample.number for sample in figures.view().samples] == [0, 1, 2, 3]
        assert figures.view().tail_p99_ms == figures.view().tail_worst_ms is not None
        json.dumps(plain(figures.view()), allow_nan=False)


async def test_a_swap_is_seen(autojump_clock: MockClock) -> None:
    """By its version, with the kind and the position where it begins."""
    async with log_world() as w:
        log = w.client()
        without_nodes(log, w.register)
        figures = LiveFigures(log)
        await figures.sample()
        await log.append(b"a")
        await log.reconfig_extend("sparse")
        await figures.sample()
        await figures.sample()
        assert [(swap.version, swap.kind, swap.position) for swap in figures.view().swaps] == [
            (1, "memory", 0),
            (2, "sparse", 1),
        ]
        await log.seal()
        assert (await figures.sample()).kind == ""


async def test_the_ring_is_bounded(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest samples go; numbers go on."""
    async with log_world() as w:
        log = w.client()
        without_nodes(log, w.register)
        figures = LiveFigures(log)
        for _ in range(live.SAMPLES_MAX + 5):
            await figures.sample()
        samples = figures.view().samples
        assert (len(samples), samples[0].number, samples[-1].number) == (300, 5, 304)


async def test_failures_are_in_the_samples(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error, silence, and a register that is not there; the rate begins anew behind them."""
    async with log_world() as w:
        log = w.client()
        without_nodes(log, w.register)
        figures, tail = LiveFigures(log), log.check_tail

        async def fail() -> Any:
            raise UnavailableError("away")

        async def wait() -> Any:
            await trio.sleep_forever()

        await figures.sample()
        for broken, problem in ((fail, "tail: away"), (wait, "no tail within 1 s")):
            log.check_tail = broken  # type: ignore[method-assign]
            sample = await figures.sample()
            assert (sample.tail, sample.tail_ms, sample.problem) == (None, None, problem)
        log.check_tail = tail  # type: ignore[method-assign]
        assert (await figures.sample()).entries_per_second is None

        async def get(_: object) -> tuple[int, bytes]:
            await trio.sleep_forever()
            raise AssertionError

        monkeypatch.setattr(MemoryMetaStore, "get", get)
        newcomer = LiveFigures(w.client())
        sample = await newcomer.sample()
        assert (sample.version, sample.problem) == (0, f"the register was not read within {REGISTER_SECONDS:g} s")
        assert newcomer.view().swaps == ()


async def test_viewers_share_the_samples(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred viewers wait for the next sample: each node is asked once per period, whichever their number."""
    nodes = [await world.start(number) for number in (1, 2, 3)]
    await until(lambda: all(not node.not_ready() for node in nodes))
    log = log_of(nodes[0])
    asked: Counter[int] = Counter()

    async def counted(services: Any, nodes: Any, *rest: Any) -> Any:
        asked.update(nodes)
        return await fetch_statuses(services, nodes, *rest)

    monkeypatch.setattr(live, "fetch_statuses", counted)
    figures, seen = LiveFigures(log), list[LiveSample]()

    async def view() -> None:
        number = -1
        for _ in range(3):
            sample = await figures.wait_behind(number)
            number = sample.number
            seen.append(sample)

    clock = log.view.environment.clock
    began = clock.monotonic()
    async with trio.open_nursery() as nursery:
        await nursery.start(figures.run)
        async with trio.open_nursery() as viewers:
            for _ in range(100):
                viewers.start_soon(view)
        nursery.cancel_scope.cancel()
    assert Counter(sample.number for sample in seen) == {0: 100, 1: 100, 2: 100}
    assert asked == {1: 3, 2: 3, 3: 3}
    assert clock.monotonic() - began < 3 * PERIOD_SECONDS
    assert seen[-1].answering == (1, 2, 3)


async def test_silent_nodes_are_named(world: World, autojump_clock: MockClock) -> None:
    """With the reason; the others are counted."""
    nodes = [await world.start(number) for number in (1, 2, 3)]
    await until(lambda: all(not node.not_ready() for node in nodes))
    world.stop(3)
    sample = await LiveFigures(log_of(nodes[0])).sample()
    assert (sample.answering, sample.failing, list(sample.silent)) == ((1, 2), (), [3])
    assert sample.version == 1
