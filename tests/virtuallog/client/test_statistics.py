"""Figures of a client: `VirtualLog.statistics()`."""

from __future__ import annotations

from typing import get_args

import pytest
import trio
from trio.testing import MockClock

from tests.virtuallog.client.world import active_loglet, world
from virtuallog.contract import metrics
from virtuallog.contract.errors import SealedError
from virtuallog.contract.metrics import MetricsSource
from virtuallog.reconfiguration.core.chain_change import Change, ChangeDone, Effect
from virtuallog.reconfiguration.metrics import CHANGES, PHASES


async def test_appends_are_counted_by_batch_and_by_entry(autojump_clock: MockClock) -> None:
    """Three calls side by side share batches; the entries add up exactly, and nothing is left in flight."""
    async with world() as w:
        log = w.client()
        await log.append(b"first")
        async with trio.open_nursery() as nursery:
            for payload in (b"a", b"bb", b"ccc"):
                nursery.start_soon(log.append, payload)
        await log.append_many([b"x"] * 10)

        appends = log.statistics().appends
        assert appends.entries == 14
        assert appends.batches == appends.seconds.count == appends.batch_bytes.count <= 5
        assert (appends.failed_entries, appends.offers_again, appends.queued_bytes) == (0, 0, 0)
        assert appends.batches_in_flight == 0
        assert log.statistics().known_tail == 14


async def test_a_client_that_has_done_nothing_has_nothing_to_tell(autojump_clock: MockClock) -> None:
    """All figures are zero, and no call is made."""
    async with world() as w:
        statistics = w.client().statistics()

        assert (statistics.appends.entries, statistics.chain.version, statistics.chain.segments) == (0, 0, 0)
        assert (statistics.chain.won, statistics.chain.lost, statistics.chain.failed) == (0, 0, 0)


async def test_changes_are_counted_with_their_phases(autojump_clock: MockClock) -> None:
    """Two extensions are two changes that won, each with one seal, one tail and one put."""
    async with world() as w:
        log = w.client()
        for _ in range(2):
            await log.append(b"entry")
            await log.reconfig_extend("memory")

        chain = log.statistics().chain
        assert (chain.won, chain.lost, chain.failed, chain.roll_forwards) == (2, 0, 0, 0)
        assert (chain.version, chain.segments) == (3, 3)
        assert [each.count for each in (chain.seal_seconds, chain.tail_seconds, chain.put_seconds)] == [2, 2, 2]


async def test_a_change_that_comes_second_is_lost_and_made_again(autojump_clock: MockClock) -> None:
    """Two clients that extend at once both succeed in the end; the lost change is counted."""
    async with world() as w:
        one, other = w.client(), w.client()
        await one.append(b"entry")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.reconfig_extend, "memory")
            nursery.start_soon(other.reconfig_extend, "memory")

        both = [log.statistics().chain for log in (one, other)]
        assert [chain.won for chain in both] == [1, 1]
        assert sum(chain.failed for chain in both) == 0


async def test_an_interruption_lasts_from_the_seal_until_the_successor_acknowledges(autojump_clock: MockClock) -> None:
    """A client seals and leaves; the appender rolls forward after the grace period, and its wait is one interruption."""
    async with world() as w:
        log = w.client()
        await log.append(b"before")
        await active_loglet(log, w).seal()
        await log.append(b"after")

        statistics = log.statistics()
        assert statistics.appends.interruption_seconds.count == 1
        assert 1.0 <= statistics.appends.interruption_seconds.total <= 3.0
        assert statistics.chain.roll_forwards == 1


def test_every_change_and_every_phase_has_a_name() -> None:
    """A change or phase without a name would fail at the end of a decided change."""
    assert set(CHANGES) == set(get_args(Change))
    assert set(PHASES) == set(get_args(Effect)) - {ChangeDone}


async def test_entries_whose_callers_were_told_an_error_are_counted(autojump_clock: MockClock) -> None:
    """A closed log takes nothing; three entries in one call are three."""
    async with world() as w:
        log = w.client()
        await log.append(b"entry")
        await log.seal()
        with pytest.raises(SealedError):
            await log.append_many([b"x"] * 3)

        assert log.statistics().appends.failed_entries == 3


async def test_the_figures_of_a_closed_appender_stay_with_its_client(autojump_clock: MockClock) -> None:
    """Sessions come and go; the totals of a client never decrease."""
    async with world() as w:
        log = w.client()
        for _ in range(3):
            with log.appender() as appender:
                await appender.append([b"x", b"y"])

        assert log.statistics().appends.entries == 6
        assert log._appenders == set()


async def test_a_client_is_measured(autojump_clock: MockClock) -> None:
    """The figures come as metric families, as the console of a node serves them; each name once."""
    async with world() as w:
        log = w.client()
        await log.append(b"entry")

        assert isinstance(log, MetricsSource)
        names = [family.name for family in metrics.of([log])]
        assert len(set(names)) == len(names)
        assert {"virtuallog_append_seconds", "virtuallog_chain_version"} <= set(names)
