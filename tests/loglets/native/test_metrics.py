"""Metrics of native loglets, over a simulated network, simulated disks and simulated time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.loglets.native.cluster import Cluster, read_all, running_cluster, writer
from virtuallog.contract import metrics
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import SealedError
from virtuallog.contract.metrics import Distribution, MetricFamily, Sample
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog.testing.sim.links import LinkQuality
from virtuallog_simulation.world import scheduler


def told(cluster: Cluster, node: int) -> dict[str, MetricFamily]:
    provider = cluster.nodes[NodeId(node)].provider
    assert provider is not None
    return {family.name: family for family in metrics.of([provider])}


def samples(family: MetricFamily) -> dict[str, float | Distribution]:
    """By the values of the labels."""
    return {",".join(sample.labels.values()): sample.value for sample in family.samples}


def distribution(family: MetricFamily, label: str = "") -> Distribution:
    value = samples(family)[label]
    assert isinstance(value, Distribution)
    return value


async def test_each_wave_is_counted_once_by_the_sequencer_and_once_by_each_server(autojump_clock: MockClock) -> None:
    """Five batches of three entries, one after the other: five waves, stored three times; no lag is left."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        for _ in range(5):
            await one.append(b"a", b"b", b"c")
        await trio.testing.wait_all_tasks_blocked()
        found = [told(cluster, node) for node in (1, 2, 3)]

        sequencer = found[0]
        assert distribution(sequencer["virtuallog_sequencer_commit_seconds"]).count == 5
        assert distribution(sequencer["virtuallog_sequencer_wave_entries"]).total == 15
        assert distribution(sequencer["virtuallog_sequencer_first_commit_seconds"]).count == 1
        assert sequencer["virtuallog_sequencer_tail"].samples == (Sample({}, 15),)
        assert samples(sequencer["virtuallog_sequencer_server_lag_entries"])["1"] == 0
        for server in found:
            stores = distribution(server["virtuallog_log_server_write_seconds"], "store")
            groups = distribution(server["virtuallog_wal_group_records"])
            assert stores.count == distribution(server["virtuallog_wal_sync_seconds"]).count == 5
            assert groups.total == 5


async def test_a_server_that_is_cut_off_shows_as_lag_and_as_sends_in_vain(autojump_clock: MockClock) -> None:
    """The others go on; what it lacks grows with every entry, and the sequencer tries again and again."""
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        await one.append(b"a")
        cluster.isolate(3)
        for _ in range(4):
            await one.append(b"x", b"y")
        await trio.sleep(10)  # noqa: TID251 -- simulated time

        found = told(cluster, 1)
        assert samples(found["virtuallog_sequencer_server_lag_entries"])["3"] == 8
        assert samples(found["virtuallog_sequencer_server_lag_entries"])["1"] == 0
        resends = samples(found["virtuallog_sequencer_resends_total"])
        assert set(resends) == {"3"}


async def test_a_wave_that_no_majority_takes_is_not_counted(autojump_clock: MockClock) -> None:
    """The loglet is sealed under the sequencer: the batch is offered elsewhere, and counts there."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        one = writer(loglet)
        await one.append(b"a")
        await cluster.client().seal()
        with pytest.raises(SealedError):
            await one.append(b"late")
        found = told(cluster, 1)

        assert distribution(found["virtuallog_sequencer_wave_entries"]).total == 1
        assert found["virtuallog_sequencers_working"].samples == (Sample({}, 0),)
        assert found["virtuallog_sequencer_tail"].samples == ()
        assert distribution(found["virtuallog_log_server_write_seconds"], "seal").count == 1
        assert found["virtuallog_log_server_sealed"].samples == (Sample({}, True),)


async def test_reads_trims_and_a_second_loglet_are_told(autojump_clock: MockClock) -> None:
    """Reads count per answer, trims per server, places are those of the newest loglet."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        await writer(loglet).append(b"a", b"b")
        assert await read_all(loglet, 0, 2) == [b"a", b"b"]
        await loglet.prefix_trim(LogletOffset(1))
        second = SegmentId(2, 8)
        cluster.create(segment=second)
        await writer(cluster.client(second)).append(b"c")
        found = [told(cluster, node) for node in (1, 2, 3)]

        assert sum(distribution(each["virtuallog_log_server_read_seconds"]).count for each in found) == 1
        assert sum(distribution(each["virtuallog_log_server_write_seconds"], "trim").count for each in found) >= 2
        assert found[0]["virtuallog_log_server_loglets"].samples == (Sample({}, 2),)
        assert found[0]["virtuallog_log_server_local_tail"].samples == (Sample({}, 1),)


async def _figures_of(seed: int) -> list[dict[str, MetricFamily]]:
    slow = LinkQuality(delay_seconds=0.002, tail_probability=0.2, tail_seconds=0.01)
    async with running_cluster(seed=seed, quality=slow) as cluster:
        cluster.create()
        one = writer(cluster.client())
        for number in range(20):
            await one.append(b"%d" % number)
        return [told(cluster, node) for node in (1, 2, 3)]


def test_the_same_life_gives_the_same_figures() -> None:
    """Times come from the simulated clock only: two runs of one seed count alike, latencies of network and disk included."""
    one, other = (scheduler.run(7, lambda: _figures_of(7)) for _ in range(2))

    assert one == other
    assert distribution(one[0]["virtuallog_sequencer_commit_seconds"]).total > 0.02
