"""Traced systems: a cluster of the product, or the floor, each as four processes of which one is the client."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs

from virtuallog.connect import connect
from virtuallog.node_services import open_services_to
from virtuallog_lab.floor.processes import open_floor
from virtuallog_lab.harness.orderer import ASKED, find_orderer
from virtuallog_lab.harness.trial import temporary_cluster
from virtuallog_lab.workload.appends import Append

CLIENT: Final = "client"
SEQUENCER: Final = "sequencer"
LOG_SERVERS: Final = ("log server 1", "log server 2")
PROCESSES: Final = (CLIENT, SEQUENCER, *LOG_SERVERS)
"""Names of the processes. That of the sequencer has a log server too."""


@attrs.frozen(eq=False)
class Subject:
    """One running system."""

    name: str
    append: Append
    pids: Mapping[str, int]
    """By name, as in `PROCESSES`. The client is this process."""
    folder: Path
    """Folder for the traces of the other processes."""


def _program(folder: Path, module: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", "virtuallog_lab.trace.traced_program", str(folder), module)


@asynccontextmanager
async def open_product(folder: Path, loglet: str) -> AsyncIterator[Subject]:
    """Three nodes with a log on that kind of loglet, and a client."""
    async with (
        temporary_cluster(_program(folder, "virtuallog_server"), loglet=loglet) as cluster,
        open_services_to(cluster.file, ASKED) as services,
        connect(cluster.file) as log,
    ):
        await log.append(b"a sequencer is elected")
        orderer = await find_orderer(services, (await log.view.current()).chain.last)
        pids = {node.id: node.pid for node in cluster.nodes.values() if node.pid is not None}
        others = [pid for node, pid in pids.items() if node != orderer]
        names = dict(zip(PROCESSES, (os.getpid(), pids[orderer], *others), strict=True))
        yield Subject(f"VirtualLog, {loglet}", log.append, names, folder)


@asynccontextmanager
async def open_traced_floor(folder: Path) -> AsyncIterator[Subject]:
    """The floor."""
    async with open_floor(_program(folder, "virtuallog_lab.floor.server")) as floor:
        names = dict(zip(PROCESSES, (os.getpid(), floor.sequencer, *floor.log_servers), strict=True))
        yield Subject("floor", floor.client.append, names, folder)
