"""`virtuallog explain` on a cluster of real processes: closed on purpose, half changed, one of three killed, two killed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.server.diagnosis.evidence_samples import about, the
from tests.server.process.test_processes import command, folder, local_cluster
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.plugins import loglet_providers, metastore_provider
from virtuallog_loglets.native import NativeProvider
from virtuallog_server.diagnosis.collector import gather, open_environment
from virtuallog_server.diagnosis.core.finding import Finding, Topic
from virtuallog_server.local_cluster.supervisor import LocalCluster

pytestmark = pytest.mark.processes


__all__ = ["folder"]


async def explain(cluster: LocalCluster, *subject: str) -> tuple[int, Any]:
    """Exit code and output of `virtuallog explain --json`."""
    ended = await trio.to_thread.run_sync(lambda: command("explain", *subject, "--json", cluster=cluster.file_path))
    assert not ended.stderr, ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def statements(told: Any) -> str:
    return "\n".join(finding["statement"] for finding in told["findings"])


async def half_change(cluster: LocalCluster, log: VirtualLog) -> Finding:
    """Seal the loglet and put no successor; what is found out before the nodes have healed it."""
    providers, metastore = loglet_providers(), metastore_provider()
    while True:  # on a machine that stalls the watchdogs may come first, some times
        register = await log.view.refresh()
        await log.view.loglet(register.chain.last).seal()
        async with open_environment(cluster.file, providers, metastore) as environment:
            found = await gather(list(cluster.nodes), providers, metastore, environment)
        if found.register.version == register.version:
            return the(about(found, Topic.SEAL), "a change is half done")


async def test_an_operator_at_night(folder: Path) -> None:
    """Each thing that can be wrong is said with who it is, and what comes next; once it is over, all is well."""
    async with local_cluster(folder) as cluster:
        cluster.write_file()
        async with connect(cluster.file) as log:
            await log.append(b"entry")
            assert (await explain(cluster))[0] == 0

            await log.seal()
            code, told = await explain(cluster, "append")
            assert (code, told["well"]) == (0, True)
            assert "the log is closed at 1, on purpose: appends are refused" in statements(told)
            await log.reconfig_extend("native", {"sequencer": "1"})

            assert "the watchdogs of nodes 1, 2 and 3" in (await half_change(cluster, log)).next
            await log.append(b"after the watchdogs")
            assert (await explain(cluster))[0] == 0

            register = await log.view.refresh()
            orders = min(NativeProvider().placement(register.chain.last.config).orders)
            first, second = [node for node in cluster.nodes if node != orders]
            await cluster.kill(first)
            code, told = await explain(cluster, "append")
            assert code == 1
            assert f"short of node {first}: one more failure stops appends" in statements(told)

            await cluster.kill(second)
            code, told = await explain(cluster)
            assert code == 1
            for words in (
                "the chain cannot change: 1 of 3 members answers",
                "the tail cannot be told",
                "neither take appends",
            ):
                assert words in statements(told)
            shown = command("explain", "tail", cluster=cluster.file_path).stdout.decode()
            assert re.search(
                r"^  trouble  the tail cannot be told.*\n( +because: .*\n)+ +next: start", shown, re.MULTILINE
            )
            assert f"  node {first}: node {first} is unreachable" in shown
            segment = told["segments"][-1]["id"]
            assert (await explain(cluster, segment))[1]["segments"][0]["id"] == segment
