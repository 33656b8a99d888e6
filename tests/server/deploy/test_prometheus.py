"""Debian's Prometheus, with the rules of share/prometheus, in front of three real nodes: some die, a disk is slow, the log is held."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from urllib.request import urlopen

import attrs
import pytest
import trio
import yaml  # type: ignore[import-untyped]

from tests.debian import require
from tests.free_ports import free_ports
from tests.server.deploy.test_alerts import RULES
from tests.server.process.console.http_client import get
from tests.server.process.test_processes import command
from tests.source_tree import ROOT
from virtuallog.connect import connect
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.types import NodeId
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.experiments.failover.loop_disks import LoopDisks, open_loop_disks
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.long]

INTERVAL: Final = "1s"
"""Time between scrapes, and between evaluations of the rules; also the patience of a scrape, which a busy machine needs."""
SECONDS_MAX: Final = 120
"""Patience for an event that takes some seconds on a machine that is not busy."""
NAME: Final = re.compile(r"virtuallog_[a-z_]+")
WINDOWS: Final = {"5m": "15s", "1h": "45s"}
"""Windows of rates and of changes in the rules, and what stands for them here."""
STALL_SECONDS: Final = 1.0
"""Time for which a slow disk takes no write, again and again: longer than a sync may take."""


@attrs.frozen
class Prometheus:
    """A server that scrapes the nodes."""

    port: int

    async def api(self, path: str) -> Any:
        """The answer of its API."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}"
        return (await trio.to_thread.run_sync(lambda: json.load(urlopen(url, timeout=10))))["data"]

    async def value(self, expression: str) -> float:
        """Value of a query for one number. -1 if there is no sample."""
        found = (await self.api(f"query?query={quote(expression)}"))["result"]
        return float(found[0]["value"][1]) if found else -1

    async def wait_value(self, expression: str, wanted: float) -> None:
        """Wait for the value of a query: a scrape of a node that is busy may fail now and then."""
        clock, found = SystemClock(), -1.0
        with clock.timeout(SECONDS_MAX):
            while (found := await self.value(expression)) != wanted:
                await clock.sleep(0.2)
            return
        raise AssertionError(f"{expression} is {found}, not {wanted}")

    async def firing(self) -> set[tuple[str, str]]:
        """Names of the alerts that fire, with the address of the node. Empty for an alert about the cluster."""
        alerts = (await self.api("alerts"))["alerts"]
        return {
            (each["labels"]["alertname"], each["labels"].get("instance", ""))
            for each in alerts
            if each["state"] == "firing"
        }

    async def wait(self, holds: Callable[[set[tuple[str, str]]], bool]) -> None:
        """Wait for alerts of which this holds. Fails when that takes too long."""
        clock = SystemClock()
        fired = set[tuple[str, str]]()
        with clock.timeout(SECONDS_MAX):
            while not holds(fired := await self.firing()):
                await clock.sleep(0.2)
            return
        raise AssertionError(f"these alerts fire: {fired}")


def start(folder: Path, nodes: list[str], port: int) -> subprocess.Popen[bytes]:
    """Start a Prometheus. Its rules are ours, with short windows and without the time for which a condition has to hold."""
    folder.mkdir()
    rules = re.sub(r"^ *for: .*\n", "", RULES.read_text(), flags=re.MULTILINE)
    rules = re.sub(r"\[(\w+)\]", lambda window: f"[{WINDOWS.get(window[1], window[1])}]", rules)
    (folder / "alerts.yaml").write_text(rules)
    config = {
        "global": {"scrape_interval": INTERVAL, "scrape_timeout": INTERVAL, "evaluation_interval": INTERVAL},
        "rule_files": ["alerts.yaml"],
        "scrape_configs": [{"job_name": "virtuallog", "static_configs": [{"targets": nodes}]}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [
        "prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


@asynccontextmanager
async def prometheus(folder: Path, nodes: list[str]) -> AsyncIterator[Prometheus]:
    """Runs a Prometheus that scrapes the nodes, for the length of the block."""
    found, clock = Prometheus(free_ports(1)), SystemClock()
    process = start(folder, nodes, found.port)
    try:
        with clock.timeout(SECONDS_MAX):
            while not await _is_ready(found.port):
                assert process.poll() is None, f"Prometheus has ended; see {folder}/log"
                await clock.sleep(0.1)
        yield found
    finally:
        process.terminate()
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(process.wait)


async def _is_ready(port: int) -> bool:
    try:
        return (await get(port, "/-/ready")).status == 200
    except OSError:
        return False


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Write-ahead logs, which pytest would keep."""
    yield tmp_path
    shutil.rmtree(tmp_path)


async def test_alerts_fire_when_nodes_die_and_clear_when_they_are_back(folder: Path) -> None:
    """One node is killed, then a second: the alert about each, then that about the majority. The third dies and returns alone: still no
    majority. Then the others return, and all is quiet."""
    require("Prometheus", lambda: shutil.which("prometheus") is not None, "prometheus")
    first = free_ports(6)
    nodes = [f"127.0.0.1:{first + each}" for each in range(3)]
    async with (
        open_local_cluster(folder / "cluster", base_port=0, console_port=first, zookeeper_port=first + 3) as cluster,
        prometheus(folder / "prometheus", nodes) as monitor,
    ):
        await cluster.wait_ready()
        down = {node: ("VirtuallogNodeDown", node) for node in nodes}
        await monitor.wait(lambda fired: not fired & {*down.values(), ("VirtuallogNoMajority", "")})
        await monitor.wait_value("count(up == 1)", 3)

        await cluster.kill(NodeId(3))
        await monitor.wait(lambda fired: down[nodes[2]] in fired)
        assert ("VirtuallogNoMajority", "") not in await monitor.firing()
        await cluster.kill(NodeId(2))
        await monitor.wait(lambda fired: {down[nodes[1]], ("VirtuallogNoMajority", "")} <= fired)
        await cluster.kill(NodeId(1))
        await monitor.wait(lambda fired: down[nodes[0]] in fired)
        await cluster.start(NodeId(1))
        await monitor.wait(lambda fired: down[nodes[0]] not in fired)
        assert ("VirtuallogNoMajority", "") in await monitor.firing(), "it does not know how many members there are"
        for node in (2, 3):
            await cluster.start(NodeId(node))
        await cluster.wait_ready()
        await monitor.wait(lambda fired: not fired & {*down.values(), ("VirtuallogNoMajority", "")})

        groups = (await monitor.api("rules"))["groups"]
        assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}, "an expression has an error"
        await check_names(first)


async def append_always(cluster: LocalCluster) -> None:
    """A client that appends: so disks sync, and replicas of the database have something to apply."""
    clock = SystemClock()
    async with connect(cluster.file) as log:
        while True:
            with suppress(RetryableError):
                await log.append(b"entry")
            await clock.sleep(0.02)


async def stall_again_and_again(disks: LoopDisks, host: str) -> None:
    """Have each write and sync of a disk wait for a second; in between some pass."""
    clock = SystemClock()
    while True:
        await trio.to_thread.run_sync(disks.freeze, host)
        await clock.sleep(STALL_SECONDS)
        await trio.to_thread.run_sync(disks.thaw, host)
        await clock.sleep(STALL_SECONDS / 4)


@asynccontextmanager
async def running(task: Callable[..., Awaitable[None]], *arguments: Any) -> AsyncIterator[None]:
    """Runs a task for the length of the block."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(task, *arguments)
        yield
        nursery.cancel_scope.cancel()


async def database(cluster: LocalCluster, *arguments: str) -> None:
    """Run `virtuallog database ...`."""
    done = await trio.to_thread.run_sync(lambda: command("database", *arguments, cluster=cluster.file_path))
    assert done.returncode == 0, done.stderr.decode()


def prepare(path: Path, disk: Path, first: int) -> None:
    """Lay out a cluster whose third node has a disk of its own, and whose replicas take a snapshot every few seconds."""
    path.mkdir()
    (path / "node-3").symlink_to(disk)
    with layout.hold(path):
        configs = layout.prepare(path, 3, 0, 0, "native", console_port=first, zookeeper_port=first + 3)
    for config in configs:
        file = layout.config_file(config)
        file.write_text(file.read_text().replace("[zookeeper]", "[zookeeper]\nsnapshot_seconds = 5.0", 1))


def has_disks(folder: Path) -> bool:
    """True if this process may mount a file system, and freeze it."""
    try:
        with open_loop_disks(folder, ["probe"]) as disks:
            disks.freeze("probe")
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


async def test_alerts_fire_for_a_slow_disk_and_a_log_that_is_held(folder: Path) -> None:
    """The disk of one node stalls again and again, then for good: the alert names that node. A hold is forgotten while the log grows: the alert about
    trims. Each clears when the fault is over."""
    require("Prometheus", lambda: shutil.which("prometheus") is not None, "prometheus")
    if not has_disks(folder):
        pytest.skip("no file system can be mounted here: needs root and loop devices")
    first = free_ports(6)
    nodes = [f"127.0.0.1:{first + each}" for each in range(3)]
    stuck, held = ("VirtuallogStuckDisk", nodes[2]), ("VirtuallogTrimHeldBack", "")
    with open_loop_disks(folder, ["3"]) as disks:
        disks.folder("3").mkdir()
        prepare(folder / "cluster", disks.folder("3"), first)
        async with (
            open_local_cluster(folder / "cluster", console_port=first, zookeeper_port=first + 3) as cluster,
            prometheus(folder / "prometheus", nodes) as monitor,
        ):
            await cluster.wait_ready()
            cluster.write_file()
            async with running(append_always, cluster):
                await monitor.wait(lambda fired: not fired & {stuck, held})
                async with running(stall_again_and_again, disks, "3"):
                    await monitor.wait(lambda fired: {stuck, ("VirtuallogSlowDisk", nodes[2])} <= fired)
                disks.thaw_all()
                await monitor.wait(lambda fired: stuck not in fired)
                await trio.to_thread.run_sync(disks.freeze, "3")
                await monitor.wait(lambda fired: stuck in fired)
                disks.thaw_all()
                await monitor.wait(lambda fired: stuck not in fired)

                position = int(await monitor.value("max(virtuallog_database_cursor)"))
                await database(cluster, "hold", "forgotten", str(position))
                await monitor.wait(lambda fired: held in fired)
                await database(cluster, "release", "forgotten")
                await monitor.wait(lambda fired: not fired & {stuck, held})


async def check_names(port: int) -> None:
    """Check that a node shows each figure that alerts and the dashboard ask for."""
    exposed = set(re.findall(r"^# TYPE (\w+)", (await get(port, "/metrics")).text, re.MULTILINE))
    asked = set(NAME.findall((ROOT / "docs/howto/grafana.json").read_text()))
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        asked |= {name for rule in group["rules"] for name in NAME.findall(rule["expr"])}
    plain = {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked}
    assert len(plain) > 30
    assert plain - exposed == set()
