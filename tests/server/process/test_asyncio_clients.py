"""asyncio programs against real processes: a server that dies, a replica, and the examples as they are printed."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import subprocess
import sys
import threading
from contextlib import redirect_stdout
from functools import partial
from inspect import CO_COROUTINE
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from tests.source_tree import ROOT
from virtuallog import aio
from virtuallog.aio.replica import open_replica
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.contract.types import Data, LogPosition, NodeId
from virtuallog_server.local_cluster.supervisor import open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60
WRITERS = 8
ENTRIES = 30


async def test_appends_outlive_a_killed_server(tmp_path: Path) -> None:
    """kill -9 of the sequencer's node while tasks append: each acknowledged entry is in the log once, where its task was told."""
    async with open_local_cluster(tmp_path, base_port=0) as cluster:
        await cluster.wait_ready()
        story = Appends(cluster.file)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, partial(asyncio.run, story.run()))
            await trio.to_thread.run_sync(story.begun.wait)
            await cluster.kill(NodeId(1))
            await cluster.start(NodeId(1))
            await cluster.wait_ready()
            story.is_over = True

    assert len(story.acknowledged) >= WRITERS * ENTRIES
    assert {position: story.found[position] for position in story.acknowledged} == story.acknowledged
    assert len(story.found) == len(story.acknowledged), "each is there once"


@attrs.define
class Appends:
    """Tasks that append until the story is over."""

    cluster: ClusterFile
    begun: threading.Event = attrs.field(factory=threading.Event)
    is_over: bool = False
    acknowledged: dict[LogPosition, bytes] = attrs.field(factory=dict)
    found: dict[LogPosition, bytes] = attrs.field(factory=dict)
    """All that is in the log in the end."""

    async def run(self) -> None:
        async with aio.connect(self.cluster) as log:
            await asyncio.gather(*(self._append(log, writer) for writer in range(WRITERS)))
            tail = LogPosition((await log.check_tail()).tail)
            self.found = {each.position: each.payload async for each in log.reader(stop=tail) if isinstance(each, Data)}

    async def _append(self, log: aio.AsyncioLog, writer: int) -> None:
        number = 0
        while number < ENTRIES or not self.is_over:
            payload = b"%d/%d" % (writer, number)
            self.acknowledged[await log.append(payload)] = payload
            number += 1
            if number == ENTRIES // 2:
                self.begun.set()


async def test_a_notebook_and_a_replica(tmp_path: Path) -> None:
    """Each cell of examples/asyncio_notebook.ipynb prints what is stored below it; a replica beside it has its watches and sessions."""
    async with open_local_cluster(tmp_path / "cluster", base_port=0) as cluster:
        await cluster.wait_ready()
        cluster.write_file()
        await trio.to_thread.run_sync(asyncio.run, _run_notebook(cluster.file_path))
        await trio.to_thread.run_sync(asyncio.run, _use_replica(cluster.file, tmp_path / "replica"))


async def _run_notebook(cluster: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    notebook = json.loads((ROOT / "examples" / "asyncio_notebook.ipynb").read_text())
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = "".join(cell["source"]).replace("cluster/cluster.toml", str(cluster))
        code = compile(source, "cell", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        with redirect_stdout(io.StringIO()) as printed:
            result = eval(code, names)
            if code.co_flags & CO_COROUTINE:
                await result
        assert printed.getvalue() == "".join(line for output in cell["outputs"] for line in output["text"])


async def _use_replica(cluster: ClusterFile, path: Path) -> None:
    async with open_replica(cluster, path) as client:
        async with client.watch("/", recursive=True) as changes, client.session() as session:
            await session.create_ephemeral("/here")
            assert (await anext(changes)).path == "/here"  # type: ignore[union-attr]  # nothing was missed
            assert await client.children("/") == ["here", "zookeeper"]
        assert await client.exists("/here", linearizable=True) is None


def test_the_embedded_example_counts_its_starts(tmp_path: Path) -> None:
    """As docs/howto/asyncio.md has it, word for word."""
    program = ROOT / "examples" / "asyncio_kv.py"
    for number in (1, 2):
        done = subprocess.run(
            [sys.executable, program, tmp_path], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True
        )
        assert done.stdout.splitlines()[-1] == f"start {number} DATA_CHANGED ['here', 'starts', 'zookeeper']"
    assert program.read_text().partition("import asyncio")[2] in (ROOT / "docs/howto/asyncio.md").read_text()
