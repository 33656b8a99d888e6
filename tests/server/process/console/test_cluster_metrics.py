"""Three real nodes and what they tell: the figures agree with what was done, and docs/howto/monitor.md with the figures."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.free_ports import free_ports
from tests.server.process.console.http_client import get
from tests.source_tree import ROOT
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.types import LogPosition
from virtuallog.plugins import loglet_providers
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

pytestmark = pytest.mark.processes

BATCHES, ENTRIES = 20, 50
"""Entries of each half of the work."""
DOCUMENT = ROOT / "docs/reference/metrics.md"
ROW = re.compile(r"^\| `(?P<name>[a-z_]+)` \| (?P<kind>counter|gauge|histogram) \| (?P<labels>[\w, ]*)\|", re.MULTILINE)

OF_A_CONSOLE = "virtuallog_console_"
"""Prefix of what `virtuallog console` tells, and no node (tests/console/test_metrics.py)."""
MAY_BE_NONE = {"virtuallog_database_hold_position"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Some hundred MiB of write-ahead logs, which pytest would keep. Shows what nodes have logged if a test fails."""
    yield tmp_path
    for log in sorted(tmp_path.rglob("node-*/log")):
        sys.stderr.write(f"--- {log.parent.name}\n{log.read_text()[-4000:]}")
    shutil.rmtree(tmp_path)


@attrs.frozen
class Told:
    """One scrape."""

    kinds: Mapping[str, str]
    """By name."""
    samples: tuple[Sample, ...]

    def sum(self, name: str, **labels: str) -> float:
        """Sum of all samples of this name with these labels."""
        return sum(
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        )

    def labels(self, family: str) -> set[str]:
        """Samples of the family; the bounds of buckets do not matter."""
        names = {family, *(f"{family}_{suffix}" for suffix in ("bucket", "count", "sum"))}
        return {label for sample in self.samples if sample.name in names for label in sample.labels} - {"le"}


async def scrape(port: int) -> Told:
    answer = await get(port, "/metrics")
    assert answer.status == 200
    families = list(text_string_to_metric_families(answer.text))
    kinds = {f"{each.name}_total" if each.type == "counter" else each.name: each.type for each in families}
    return Told(kinds, tuple(sample for each in families for sample in each.samples))


@asynccontextmanager
async def observed_cluster(folder: Path) -> AsyncIterator[tuple[LocalCluster, list[int]]]:
    """Three nodes that answer, and the ports of their consoles."""
    first = free_ports()
    async with open_local_cluster(folder, base_port=0, console_port=first) as cluster:
        await cluster.wait_ready()
        yield cluster, [first, first + 1, first + 2]


async def append(log: VirtualLog) -> None:
    for number in range(BATCHES):
        await log.append_many([b"entry %d" % number] * ENTRIES)


@pytest.mark.slow
async def test_figures_of_a_live_cluster_agree_with_what_was_done(folder: Path) -> None:
    """Twice twenty batches of fifty entries, a reconfiguration between them, and a trim: counted exactly, by the nodes
    and by the client. Every exposed name is documented, with its type and labels, and every documented one is exposed.
    """
    async with observed_cluster(folder) as (cluster, ports), connect(cluster.file) as log:
        await append(log)
        before = [await scrape(port) for port in ports]
        sequencer = next(n for n, told in enumerate(before, 1) if told.sum("virtuallog_sequencers_working"))
        await log.reconfig_extend("native", {"sequencer": str(sequencer % 3 + 1)})
        await append(log)
        await log.prefix_trim(LogPosition(10))
        after = [await scrape(port) for port in ports]
        statuses = [await get(port, "/readyz") for port in ports]
        statistics = log.statistics()

    entries, batches = 2 * BATCHES * ENTRIES, 2 * BATCHES
    check_appends(before, entries // 2, batches // 2)
    check_appends(after, entries, batches)
    assert [answer.status for answer in statuses] == [200] * 3
    assert (statistics.appends.entries, statistics.appends.batches) == (entries, batches)
    assert (statistics.chain.won, statistics.chain.version) == (1, 2)
    assert statistics.appends.interruption_seconds.count <= 1
    check_places(after, entries // 2)
    check_documented(after)


def is_of_database(name: str) -> bool:
    return name.startswith(("virtuallog_database_", "virtuallog_zookeeper_"))


def check_appends(nodes: list[Told], entries: int, batches: int) -> None:
    """For any sequencer: as many entries and batches as were appended; each wave is on a
    majority at least. Batches that a sealed loglet turned away count where they were taken.
    """

    def total(name: str, **labels: str) -> float:
        return sum(told.sum(name, **labels) for told in nodes)

    waves = total("virtuallog_sequencer_commit_seconds_count")
    assert total("virtuallog_sequencer_wave_entries_sum") == entries
    assert total("virtuallog_sequencer_wave_batches_sum") == batches
    assert total("virtuallog_sequencer_wave_entries_count") == waves <= batches
    assert total("virtuallog_log_server_write_seconds_count", request="store") >= 2 * waves
    assert total("virtuallog_wal_group_records_sum") >= 2 * waves
    assert total("virtuallog_wal_sync_seconds_count") == total("virtuallog_wal_group_bytes_count") > 0
    assert total("virtuallog_sequencer_resends_total") == 0
    appended_here = total("virtuallog_rpc_calls_total", request="Append")
    assert appended_here >= batches


def check_places(nodes: list[Told], entries: int) -> None:
    """The second loglet has one working sequencer, which has committed its half; a majority of the servers has it."""
    assert sum(told.sum("virtuallog_sequencers_working") for told in nodes) == 1
    assert sum(told.sum("virtuallog_sequencers_total") for told in nodes) == 2
    (working,) = (told for told in nodes if told.sum("virtuallog_sequencers_working"))
    assert working.sum("virtuallog_sequencer_tail") == working.sum("virtuallog_sequencer_known_tail") == entries
    assert sum(told.sum("virtuallog_log_server_local_tail") == entries for told in nodes) >= 2
    assert sum(told.sum("virtuallog_log_server_write_seconds_count", request="seal") for told in nodes) >= 2
    assert sum(told.sum("virtuallog_log_server_write_seconds_count", request="trim") for told in nodes) >= 2
    assert sum(told.sum("virtuallog_sequencer_first_commit_seconds_count") for told in nodes) == 2
    for told in nodes:
        assert told.sum("virtuallog_role_open") == 1 + len(loglet_providers()), "the register and each kind"
        assert told.sum("virtuallog_wal_poisoned") == told.sum("virtuallog_wal_full") == 0
        assert told.sum("virtuallog_queue_limit_bytes", queue="wal") > told.sum("virtuallog_queue_bytes", queue="wal")


def check_documented(nodes: list[Told], *, databases: bool = False) -> None:
    """docs/howto/monitor.md and /metrics name the same families, and agree about their types and labels. Counters with a label
    have no samples before they have counted something, and gauges of what there may be none of have none then.

    `databases`: look at what servers of a database tell in addition, and at nothing else.
    """
    documented_rows = [row for row in ROW.finditer(DOCUMENT.read_text()) if not row["name"].startswith(OF_A_CONSOLE)]
    rows = {row["name"]: row for row in documented_rows if is_of_database(row["name"]) == databases}
    for told in nodes:
        kinds = {name: kind for name, kind in told.kinds.items() if is_of_database(name) == databases}
        assert sorted(kinds) == sorted(rows)
        assert kinds == {name: row["kind"] for name, row in rows.items()}
    for name, row in rows.items():
        documented = {label for label in re.split(r"[, ]+", row["labels"]) if label}
        found = [labels for told in nodes if (labels := told.labels(name))]
        assert all(labels == documented for labels in found), f"{name}: {found}"
        assert found or not documented or name.endswith("_total") or name in MAY_BE_NONE, f"{name} has no samples"
