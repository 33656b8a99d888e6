"""`virtuallog archive` with real processes: killed at random points and given again, released, undone, trimmed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.types import LogPosition
from virtuallog_server.local_cluster.supervisor import open_local_cluster

pytestmark = [pytest.mark.processes, pytest.mark.slow]

COMMAND = (sys.executable, "-P", "-m", "virtuallog_server")
CLOSED = ("native", "paxos", "raft")
"""Kinds of the closed segments, in order; a native one is open behind them."""
PART = 1_000
"""Entries of each segment."""
LIMIT_SECONDS = 180


REFUSED = (
    (1, "has no manifest", ("all", "--to", "memory://archives")),
    (2, "--to URL", ("all",)),
    (1, "user or a password", ("all", "--to", "s3://user:secret@bucket/logs")),
)
"""Exit code, what is said, arguments."""


@asynccontextmanager
async def cluster_with_segments(folder: Path) -> AsyncIterator[tuple[Path, VirtualLog, list[bytes]]]:
    """Three nodes, and a log with the closed segments and an open one."""
    payloads = [b"entry %d" % number for number in range((len(CLOSED) + 1) * PART)]
    async with open_local_cluster(folder / "cluster", base_port=0) as cluster:
        await cluster.wait_ready()
        cluster.write_file()
        async with connect(cluster.file) as log:
            await log.append_many(payloads[:PART])
            for number, kind in enumerate((*CLOSED[1:], "native"), start=1):
                await log.reconfig_extend(kind)
                await log.append_many(payloads[number * PART : (number + 1) * PART])
            yield cluster.file_path, log, payloads


async def command(cluster: Path, *arguments: str, kill_after: float | None = None) -> tuple[int, str, str]:
    """Run a command, to its end or for so long; exit code, stdout, stderr."""
    environment = {**os.environ, "VIRTUALLOG_CLUSTER": str(cluster)}
    process = subprocess.Popen(  # noqa: ASYNC220 -- killed from here
        [*COMMAND, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if kill_after is not None:
        await trio.sleep(kill_after)  # noqa: TID251 -- real time, for a real process
        process.send_signal(signal.SIGKILL)
    out, err = await trio.to_thread.run_sync(lambda: process.communicate(timeout=LIMIT_SECONDS))
    return process.returncode, out, err


async def archive(cluster: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run `virtuallog archive --json` to its end."""
    code, out, err = await command(cluster, "archive", *arguments, "--json")
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


async def contents(log: VirtualLog, start: int = 0) -> list[bytes]:
    await log.view.refresh()
    tail = LogPosition((await log.check_tail()).tail)
    return [record.payload async for record in log.reader(LogPosition(start), tail) if hasattr(record, "payload")]


async def kinds_become(log: VirtualLog, wanted: list[str], config: str) -> list[dict[str, Any]]:
    """Wait until the chain has these kinds, and all closed segments have this in their configs or, with '-', none has."""
    with trio.fail_after(LIMIT_SECONDS):  # noqa: TID251 -- real time, against real processes
        while True:
            segments = (await log.view.refresh()).chain.segments
            plain = [dict(log.view.provider(segment.kind).describe(segment.config)) for segment in segments]
            has = {config.removeprefix("-") in closed for closed in plain[:-1]}
            if [segment.kind for segment in segments] == wanted and has == {not config.startswith("-")}:
                return plain
            await trio.sleep(0.2)  # noqa: TID251 -- real time


async def wrong_usage_changes_nothing(cluster: Path, log: VirtualLog) -> None:
    """Nodes refuse an archive that is whole, but in the memory of the command."""
    version = (await log.view.refresh()).version

    async def refused(code: int, words: str, arguments: tuple[str, ...]) -> None:
        found, _, err = await command(cluster, "archive", *arguments)
        assert (found, len(err.splitlines())) == (code, 1), err
        assert words in err

    async with trio.open_nursery() as nursery:
        for case in REFUSED:
            nursery.start_soon(refused, *case)
    assert (await log.view.refresh()).version == version


async def killed_commands_are_given_again(cluster: Path, log: VirtualLog, payloads: list[bytes], url: str) -> None:
    """At random points: in the end there is one archive of each segment, whole, and the log as before."""
    source = random.Random(5)
    for _ in range(3):
        await command(cluster, "archive", "all", "--to", url, kill_after=source.uniform(0.3, 1.6))
        assert await contents(log) == payloads
    assert all(one["compared"] for one in await archive(cluster, "all", "--to", url))
    await kinds_become(log, [*["archive"] * len(CLOSED), "native"], "url")
    assert await archive(cluster, "all", "--to", url) == []
    assert await contents(log) == payloads
    assert [one["compared"] for one in await archive(cluster, "all", "--verify-only")] == [True] * len(CLOSED)


@pytest.mark.long
async def test_a_log_goes_to_files_and_nodes_let_go_of_it(tmp_path: Path) -> None:
    """Readers notice nothing at any step: refused, killed, done, undone while that is possible, done again, verified, trimmed
    like any other segment. One cluster and few commands, as nearly all of the time goes into processes that start."""
    url = f"file://{tmp_path}/archives"
    async with cluster_with_segments(tmp_path) as (cluster, log, payloads):
        await wrong_usage_changes_nothing(cluster, log)
        await killed_commands_are_given_again(cluster, log, payloads, url)
        for folder in (tmp_path / "archives").iterdir():
            assert len(list(folder.glob("[0-9]*.parquet"))) == 1

        undone = await archive(cluster, "all", "--undo")
        assert [one["was"] for one in undone] == ["undone"] * len(CLOSED)
        await kinds_become(log, [*CLOSED, "native"], "loglet")
        assert await contents(log) == payloads

        again = await archive(cluster, "all", "--to", url, "--grace", "0")
        assert [one["entries"] for one in again] == [PART] * len(CLOSED)
        await kinds_become(log, [*["archive"] * len(CLOSED), "native"], "-hot")
        verified = await archive(cluster, "all", "--verify-only")
        assert [(one["entries"], one["compared"]) for one in verified] == [(PART, False)] * len(CLOSED)
        assert await contents(log) == payloads
        code, _, err = await command(cluster, "archive", verified[0]["segment"], "--undo")
        assert code == 1, err

        assert await log.prefix_trim(LogPosition(PART + 10)) == PART + 10
        await kinds_become(log, [*["archive"] * (len(CLOSED) - 1), "native"], "url")
        folders = sorted((tmp_path / "archives").iterdir())
        assert [len(list(folder.glob("*.parquet"))) for folder in folders] == [0, *[1] * (len(CLOSED) - 1)]
        assert (await contents(log, PART + 10))[-1] == payloads[-1]
