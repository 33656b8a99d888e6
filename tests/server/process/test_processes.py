"""A few stories with real processes: kill -9, wrong directories, damaged disks, and the command line from end to end."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from tests.free_ports import free_ports
from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.blocking import connect_blocking
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.address import split_address
from virtuallog.contract.errors import UnknownKindError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Data, LogPosition, NodeId, PlacedBatch
from virtuallog.node_services import open_services_to
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster

pytestmark = pytest.mark.processes

COMMAND = (sys.executable, "-P", "-m", "virtuallog_server")
LINES = 50_000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A place for some hundred MiB of write-ahead logs, which pytest would keep for three sessions.

    Prints what the nodes have logged; pytest shows it when the test has failed.
    """
    yield tmp_path
    for log in sorted(tmp_path.rglob("node-*/log")):
        sys.stderr.write(f"--- {log.parent.name}\n{log.read_text()[-4000:]}")
    shutil.rmtree(tmp_path)


def command(
    *arguments: str | Path, cluster: Path | None = None, stdin: bytes = b"", timeout: float = 60
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    environment = {**os.environ, **({"VIRTUALLOG_CLUSTER": str(cluster)} if cluster else {})}
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, env=environment, capture_output=True, timeout=timeout, check=False
    )


@asynccontextmanager
async def local_cluster(path: Path) -> AsyncIterator[LocalCluster]:
    """Three nodes that answer."""
    async with open_local_cluster(path, base_port=0) as cluster:
        await cluster.wait_ready()
        yield cluster


async def wait_status(cluster: LocalCluster, node: int, words: str) -> NodeStatus:
    """The status of a node once one of its failures contains `words`."""
    with trio.fail_after(15):  # noqa: TID251 -- real time, against real processes
        async with open_services_to(cluster.file) as services:
            while True:
                answer = (await fetch_statuses(services, [NodeId(node)]))[NodeId(node)]
                if not isinstance(answer, VirtualLogError) and any(words in failure for failure in answer.failures):
                    return answer
                await trio.sleep(0.1)  # noqa: TID251 -- real time


async def payloads_of(log: VirtualLog) -> list[bytes]:
    tail = (await log.check_tail()).tail
    found: list[bytes] = []
    placed: Placed
    async for placed in log.reader(LogPosition(0), LogPosition(tail)).batches():
        if isinstance(placed, PlacedBatch):
            found += [record.payload for record in placed.records()]
    return found


@pytest.mark.long
async def test_lines_come_back_as_they_went_in_across_live_reconfigurations(folder: Path) -> None:
    """`up`, `append --lines -`, `reconfigure` twice in the middle, `read --raw`: the same bytes. SIGTERM ends all."""
    data = folder / "data"
    up = await trio.lowlevel.open_process(
        [*COMMAND, "up", "--nodes", "3", "--data", str(data), "--base-port", str(free_ports())],
        stdout=subprocess.DEVNULL,
    )
    try:
        cluster = data / "cluster.toml"
        with trio.fail_after(30):  # noqa: TID251 -- real time
            while not cluster.exists():
                assert up.poll() is None
                await trio.sleep(0.05)  # noqa: TID251 -- real time
        lines = b"".join(b"line %d\n\n" % number for number in range(LINES // 2))
        appended = await trio.lowlevel.open_process(
            [*COMMAND, "append", "--lines", "-", "--cluster", str(cluster)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert appended.stdin is not None
        third = len(lines) // 3
        for start, sequencer in ((0, 2), (third, 3)):
            await appended.stdin.send_all(lines[start : start + third])
            changed = await trio.to_thread.run_sync(
                partial(command, "reconfigure", "--to", "native", "--set", f"sequencer={sequencer}", cluster=cluster)
            )
            assert changed.returncode == 0, changed.stderr
        await appended.stdin.send_all(lines[2 * third :])
        await appended.stdin.aclose()
        assert await appended.wait() == 0

        raw = await trio.to_thread.run_sync(partial(command, "read", "--raw", cluster=cluster))
        assert raw.stdout == lines
        chain = await trio.to_thread.run_sync(partial(command, "chain", "--json", cluster=cluster))
        assert chain.stdout.count(b'"kind": "native"') >= 2
        pids = [int((data / f"node-{node}" / "pid").read_text()) for node in (1, 2, 3)]
    finally:
        up.send_signal(signal.SIGTERM)
        ended = await up.wait()
    assert ended == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


BAD_INPUT: list[tuple[list[str], int, str]] = [
    (["read", "--from", "2"], 1, "trimmed: the log starts at 3"),
    (["read", "--to", "2"], 1, "trimmed: the log starts at 3"),
    (["read", "--from", "6"], 1, "position 6 is past the tail 5"),
    (["read", "--to", "6"], 1, "position 6 is past the tail 5"),
    (["reconfigure", "--to", "banana"], 1, "no loglet kind 'banana' (known: "),
    (["reconfigure", "--to", "native", "--set", "colour=red"], 1, "colour: unknown; a native loglet has "),
    (["reconfigure", "--to", "native", "--set", "sequencer=9"], 1, "sequencer: there is no node 9"),
    (["reconfigure", "--to", "native", "--set", "servers=1,2"], 1, "servers: needs an odd number of different nodes"),
    (["reconfigure", "--to", "raft", "--set", "servers=1,2,9"], 1, "servers: there is no node 9"),
    (["reconfigure", "--to", "raft", "--set", "leaders=1"], 1, "leaders: unknown; a raft loglet has "),
    (["reconfigure", "--to", "raft", "--set", "leader=9"], 1, "leader: "),
]


def refusal(arguments: list[str], cluster: Path, stdin: bytes = b"") -> tuple[int, str]:
    """Exit code, and the one line on stderr without its beginning."""
    done = command(*arguments, cluster=cluster, stdin=stdin)
    line = done.stderr.decode()
    assert (done.stdout, line.count("\n"), line[:12]) == (b"", 1, "virtuallog: ")
    return done.returncode, line[12:]


async def test_bad_input_is_refused_in_one_line_and_the_cluster_lives(folder: Path) -> None:
    """Positions, settings, lines, frames: each with its exit code, nothing lost, every node well afterwards."""
    async with local_cluster(folder) as cluster:
        cluster.write_file()
        await trio.to_thread.run_sync(offer_bad_input, cluster.file_path)
        await trio.to_thread.run_sync(send_bad_frames, cluster.file)
        await trio.to_thread.run_sync(interrupt_commands, cluster.file_path)

        status = await trio.to_thread.run_sync(partial(command, "status", "--json", cluster=cluster.file_path))
        nodes = json.loads(status.stdout)["nodes"]
        assert [(node["state"], node["failures"]) for node in nodes] == [("running", [])] * 3
        assert len(cluster.running) == 3


def offer_bad_input(cluster: Path) -> None:
    assert command("append", "--lines", "-", cluster=cluster, stdin=b"a\nb\nc\nd\ne").returncode == 0
    assert [command("trim", point, cluster=cluster).stdout for point in ("3", "3", "1")] == [b"3\n"] * 3
    for arguments, code, words in BAD_INPUT:
        found, line = refusal(arguments, cluster)
        assert (found, line[: len(words)]) == (code, words)
    too_long = b"f\n\n" + b"x" * (5 << 20) + b"\nnever"
    code, line = refusal(["append", "--lines", "-"], cluster, too_long)
    assert code == 1
    assert "in line 3, where 4194304 is the limit; the first 2 entries are in the log" in line
    assert command("append", "--lines", "-", cluster=cluster).stdout == b"nothing to append\n"
    assert command("read", "--raw", cluster=cluster).stdout == b"d\ne\nf\n\n"
    assert command("read", "--from", "7", cluster=cluster).stdout == b""  # at the tail, not past it


def send_bad_frames(cluster: ClusterFile) -> None:
    """Bytes that are no frame, or a frame that is too large, close their own connection and no other."""
    for bad in (b"GET / HTTP/1.1\r\n\r\n", struct.pack("<II", 0, 1 << 30), bytes(64), random.Random(1).randbytes(99)):
        for node in cluster.nodes:
            with socket.create_connection(split_address(node.address), timeout=10) as connection:
                connection.sendall(bad)
                while connection.recv(1 << 16):
                    pass


def interrupt_commands(cluster: Path) -> None:
    """Ctrl-C is 130, a reader that leaves is 1, a full disk under stdout is 1; none of them shows a traceback."""
    running = [
        subprocess.Popen(
            [*COMMAND, *arguments, "--cluster", cluster], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, bufsize=0,
        )
        for arguments in (["read", "--follow"], ["append", "--lines", "-"])
    ]  # fmt: skip
    following, appending = running
    assert appending.stdin is not None
    appending.stdin.write(b"last\n")
    assert following.stdout is not None
    seen = b""
    while b"last" not in seen:  # then both are in the middle of it
        seen += following.stdout.read(4096)
    for process in running:
        process.send_signal(signal.SIGINT)
    ends = [(process.communicate(timeout=30)[1], process.returncode) for process in running]
    assert ends == [(b"", 130), (b"", 130)]

    for arguments in (["read", "--raw"], ["tail"], ["chain"]):
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [*COMMAND, *arguments, "--cluster", cluster], stdout=full, stderr=subprocess.PIPE, check=False
            )
        assert (done.returncode, done.stderr) == (1, b"virtuallog: cannot write the output: No space left on device\n")

    lines = b"".join(b"%d\n" % number for number in range(50_000))
    assert command("append", "--lines", "-", cluster=cluster, stdin=lines).returncode == 0
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as full:  # noqa: PTH123 -- a descriptor
        done = subprocess.run(
            [*COMMAND, "read", "--raw", "--cluster", cluster], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"")


async def test_children_do_not_outlive_a_killed_supervisor(folder: Path) -> None:
    """kill -9 of `up`: its node notices that stdin is closed, and ends in order."""
    up = await trio.lowlevel.open_process(
        [*COMMAND, "up", "--nodes", "1", "--data", str(folder), "--base-port", str(free_ports())],
        stdout=subprocess.DEVNULL,
    )
    with trio.fail_after(30):  # noqa: TID251 -- real time
        while not (folder / "cluster.toml").exists():
            assert up.poll() is None
            await trio.sleep(0.05)  # noqa: TID251 -- real time
        pid = int((folder / "node-1" / "pid").read_text())
        up.kill()
        await up.wait()
        while _is_alive(pid):
            await trio.sleep(0.05)  # noqa: TID251 -- real time

    assert "the parent is gone" in (folder / "node-1" / "log").read_text()


async def test_nothing_acknowledged_is_lost_when_all_are_killed(folder: Path) -> None:
    """kill -9 of every node in the middle of appends; after a restart every acknowledged entry is there, once."""
    acknowledged: list[bytes] = []

    async def append_for_ever(log: VirtualLog, writer: int) -> None:
        number = 0
        while True:
            payload = b"%d/%d" % (writer, number)
            await log.append(payload)
            acknowledged.append(payload)
            number += 1

    async with local_cluster(folder) as cluster:
        async with connect(cluster.file) as log, trio.open_nursery() as nursery:
            for writer in range(8):
                nursery.start_soon(append_for_ever, log, writer)
            while len(acknowledged) < 300:
                await trio.sleep(0.01)  # noqa: TID251 -- real time
            for node in cluster.nodes:
                await cluster.kill(node)
            nursery.cancel_scope.cancel()
        for node in cluster.nodes:
            await cluster.start(node)
        await cluster.wait_ready()
        async with connect(cluster.file) as log:
            await log.append(b"after")
            found = await payloads_of(log)

    assert len(found) == len(set(found))
    assert set(acknowledged) < set(found)
    for writer in range(8):
        mine = [int(entry.split(b"/")[1]) for entry in found if entry.startswith(b"%d/" % writer)]
        assert mine == list(range(len(mine)))


async def test_a_flipped_bit_closes_one_node_and_the_others_go_on(folder: Path) -> None:
    """A node with a damaged write-ahead log refuses to serve it, and says so; the log stays whole."""
    async with local_cluster(folder) as cluster:
        async with connect(cluster.file) as log:
            await log.reconfig_extend("native", {"sequencer": "1"})
            for number in range(200):
                await log.append(b"entry %d " % number + b"x" * 500)
        await cluster.kill(NodeId(3))
        _flip_a_bit(folder / "node-3" / "storage", b"entry 20 ")
        await cluster.start(NodeId(3))

        status = await wait_status(cluster, 3, "native:")
        assert status.roles == ("metastore",)
        async with connect(cluster.file) as log:
            await log.append(b"after")
            assert len(await payloads_of(log)) == 201


async def test_a_wiped_disk_stays_out(folder: Path) -> None:
    """A node that lost its data does not come back by itself; the others go on without it."""
    async with local_cluster(folder) as cluster:
        async with connect(cluster.file) as log:
            await log.reconfig_extend("native", {"sequencer": "1"})
        await cluster.kill(NodeId(2))
        for part in ("storage", "values"):
            await trio.to_thread.run_sync(shutil.rmtree, folder / "node-2" / part)
        (folder / "node-2" / "identity").unlink()
        await cluster.start(NodeId(2))

        status = await wait_status(cluster, 2, "a disk was lost or the path is wrong")
        assert status.phase == "unformatted"
        async with connect(cluster.file) as log:
            await log.append(b"after")


def test_the_demo_ends_with_its_verdict(folder: Path) -> None:
    """All steps on real processes, in short phases: swaps, archives, a trim, a kill -9, the comparison, page and picture."""
    done = command(
        "demo", "--phase", "0.2", "--picture", folder / "demo.png", "--page", folder / "demo.html", timeout=300
    )

    assert done.returncode == 0, done.stderr
    for step in (
        b"swap to paxos",
        b"swap to striped",
        b"archive a native segment",
        b"the log begins at",
        b"kill -9 node 3",
    ):
        assert step in done.stdout
    assert done.stdout.endswith(b"verdict: nothing lost, nothing doubled, every writer's entries in order\n")
    assert (folder / "demo.png").exists()
    page = (folder / "demo.html").read_text()
    assert page.count('data-mark="swap"') >= 6
    assert "Nothing lost, nothing doubled" in page


def test_a_benchmark_prints_one_object_per_measurement(folder: Path) -> None:
    """Scripts rely on these fields: outstanding, bytes, ops_per_s, p50_ms, p99_ms."""
    done = command("bench", "append", "--outstanding", "1,8", "--size", "50", "--seconds", "0.3", "--json")

    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["outstanding"], each["bytes"]) for each in found] == [(1, 50), (8, 50)]
    assert all(each["ops_per_s"] > 0 and 0 < each["p50_ms"] <= each["p99_ms"] for each in found)


def test_a_node_refuses_what_it_cannot_be_sure_of(folder: Path) -> None:
    """Each with one line and exit code 1: the data of another node, a port in use, a directory in use, python -O."""
    port = free_ports()
    mine = ("--id", "1", "--data", folder / "one", "--peers", f"1@127.0.0.1:{port}")
    node = subprocess.Popen([*COMMAND, "serve", *mine], stderr=subprocess.PIPE)
    try:
        assert node.stderr is not None
        while b"bootstrapped" not in (line := node.stderr.readline()):
            assert line, "the node has ended"

        in_use = command("serve", *mine)
        assert (in_use.returncode, in_use.stderr.count(b"\n")) == (1, 1)
        assert b"in use by another process" in in_use.stderr

        no_port = command("serve", "--id", "1", "--data", folder / "two", "--peers", f"1@127.0.0.1:{port}")
        assert (no_port.returncode, no_port.stderr.count(b"\n")) == (1, 1)
        assert b"virtuallog: listen 127.0.0.1:%d: Address already in use" % port in no_port.stderr
    finally:
        node.send_signal(signal.SIGTERM)
        _, words = node.communicate()
    assert node.returncode == 0, words

    other = command("serve", "--id", "2", "--data", folder / "one", "--peers", f"2@127.0.0.1:{port}")
    assert other.returncode == 1
    assert other.stderr == b"virtuallog: wrong data directory: expected one of node 2, found one of node 1\n"

    optimised = subprocess.run(
        [sys.executable, "-O", *COMMAND[1:], "serve", *mine], capture_output=True, timeout=60, check=False
    )
    assert optimised.returncode == 1
    assert b"does not run under python -O" in optimised.stderr


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _flip_a_bit(storage: Path, landmark: bytes) -> None:
    """Flip one bit of `landmark`, in the one file that holds it."""
    for path in storage.rglob("*"):
        if path.is_file() and (at := path.read_bytes().find(landmark)) >= 0:
            with path.open("r+b") as file:
                file.seek(at)
                file.write(bytes([landmark[0] ^ 1]))
            return
    raise AssertionError(f"no file holds {landmark!r}")


async def test_threads_use_the_log_without_async(folder: Path) -> None:
    """The blocking twin: two threads append while a third swaps the loglet; errors arrive as they were raised."""
    async with local_cluster(folder) as cluster:
        found = await trio.to_thread.run_sync(use_blocking, folder / "cluster.toml", cluster.file)
        assert sorted(found) == sorted(b"%d/%d" % (name, number) for name in range(2) for number in range(20))


def use_blocking(path: Path, cluster: ClusterFile) -> list[bytes]:
    path.write_text(cluster.spell())
    with connect_blocking(path) as log, ThreadPoolExecutor(3) as pool:

        def produce(name: int) -> None:
            for number in range(20):
                log.append(b"%d/%d" % (name, number))

        swap = pool.submit(log.reconfig_extend, "native")
        for future in [pool.submit(produce, 0), pool.submit(produce, 1)]:
            future.result()
        swap.result()
        with pytest.raises(UnknownKindError):
            log.reconfig_extend("banana")
        tail = LogPosition(log.check_tail().tail)
        return [record.payload for record in log.records(LogPosition(0), tail) if isinstance(record, Data)]
