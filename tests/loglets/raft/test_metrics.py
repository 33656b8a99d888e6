"""Metrics of a node's raft replicas and of their write-ahead log."""

from __future__ import annotations

import re

from trio.testing import MockClock

from tests.loglets.raft.cluster import running_cluster, writer
from tests.source_tree import ROOT
from virtuallog.contract import metrics
from virtuallog.contract.metrics import Distribution
from virtuallog.contract.types import NodeId


async def test_the_write_ahead_log_of_the_replicas_counts_its_records(autojump_clock: MockClock) -> None:
    """Under names of its own: those of a LogServer on the same node stay what they are, and both are documented."""
    documented = set(re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/reference/metrics.md").read_text(), re.MULTILINE))
    async with running_cluster() as cluster:
        cluster.create()
        one = writer(cluster.client())
        for _ in range(5):
            await one.append(b"a", b"b")
        provider = cluster.nodes[NodeId(2)].provider
        assert provider is not None
        found = {family.name: family for family in metrics.of([provider])}

    values = {
        name: family.samples[0].value for name, family in found.items() if family.name.startswith("virtuallog_raft_wal")
    }
    records = values["virtuallog_raft_wal_group_records"]
    assert isinstance(records, Distribution) and records.total >= 5
    assert (values["virtuallog_raft_wal_full"], values["virtuallog_raft_wal_poisoned"]) == (0, 0)
    assert [sample.labels for sample in found["virtuallog_queue_bytes"].samples] == [{"queue": "raft_wal"}]
    assert set(values) <= documented
    assert not [name for name in found if name.startswith("virtuallog_wal")]
