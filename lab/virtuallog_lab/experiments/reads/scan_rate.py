#!/usr/bin/env python3
"""Bytes per second of a scan, beside a plain copy of as many bytes through a socket.

    python -m virtuallog_lab.experiments.reads.scan_rate
    python -m virtuallog_lab.experiments.reads.scan_rate --size 65536 --megabytes 256 --rounds 5

Three nodes on loopback, and a log that is in the page cache. One process scans it: `batches` looks at no entry, `entries` makes a
`Record` of each. In the same rounds another process sends as many bytes through one TCP connection on loopback, and this one
receives them: blocking sockets, nothing else. CPU time is that of both sides.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import attrs
import click
import trio

from virtuallog.client.appender import Appender, AppenderSettings
from virtuallog.client.reader import records
from virtuallog.client.scan import scan
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Data, LogPosition, PlacedBatch
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.harness.cpu_time import CpuMeter
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import Report, Table, middle_and_ends, tell
from virtuallog_lab.harness.trial import temporary_cluster
from virtuallog_server.local_cluster.layout import HOST

CLOCK: Final = SystemClock()
PROGRAM: Final = (sys.executable, "-P", "-m", "virtuallog_lab.experiments.reads.scan_rate")
"""Command of the sender."""
SOCKET: Final = "socket"
BATCH_BYTES: Final = 25_000
"""Bytes of a batch, as in a log that some hundred clients append to. A larger entry is a batch of its own."""
OUTSTANDING: Final = 16
"""Batches under way while the log is filled."""
COPY_BYTES: Final = 1 << 20
"""Bytes of one call of the plain copy."""


@attrs.frozen(kw_only=True)
class Pass:
    """One pass over all bytes."""

    way: str
    seconds: float
    cpu_seconds: float
    """CPU time of both sides together."""
    bytes: int

    @property
    def megabytes_per_s(self) -> float:
        return self.bytes / 1e6 / self.seconds

    @property
    def cpu_ns(self) -> float:
        """CPU time of a byte in nanoseconds."""
        return 1e9 * self.cpu_seconds / self.bytes


def by_batches(piece: Sequence[Placed]) -> int:
    """Payload bytes of a piece. Looks at no entry."""
    return sum(len(placed.batch.packed_payloads) for placed in piece if isinstance(placed, PlacedBatch))


def by_entries(piece: Sequence[Placed]) -> int:
    """Payload bytes of a piece, entry by entry."""
    return sum(len(record.payload) for placed in piece for record in records(placed) if isinstance(record, Data))


WAYS: Final[dict[str, Callable[[Sequence[Placed]], int]]] = {"batches": by_batches, "entries": by_entries}


async def run(megabytes: int, size: int, rounds: int) -> list[Pass]:
    """Fill a log and read it in each way, in turn."""
    found: list[Pass] = []
    async with temporary_cluster() as cluster, connect(cluster.file) as log:
        expected = await _fill(log, megabytes * 1_000_000, size)
        tail = (await log.check_tail()).tail
        pids = [node.pid for node in cluster.running if node.pid is not None]
        for number in range(rounds + 1):  # the first one does not count
            passes = [
                *[await _scan(log, tail, way, pids) for way in WAYS],
                await trio.to_thread.run_sync(_copy, expected),
            ]
            if any(each.bytes != expected for each in passes):
                raise UnavailableError(f"{[each.bytes for each in passes]} bytes were read, not {expected}")
            if number:
                found += passes
                tell(", ".join(f"{each.way} {each.megabytes_per_s:,.0f} MB/s" for each in passes))
    return found


async def _fill(log: VirtualLog, total: int, size: int) -> int:
    count = max(1, BATCH_BYTES // size)
    payloads = [bytes(size)] * count
    numbers = iter(range(-(-total // (count * size))))

    async def append(appender: Appender) -> None:
        for _ in numbers:
            await appender.append(payloads)

    async with trio.open_nursery() as nursery:
        appender = log.appender(AppenderSettings(batch_entries=count, window=OUTSTANDING))
        for _ in range(OUTSTANDING):
            nursery.start_soon(append, appender)
    return -(-total // (count * size)) * count * size


async def _scan(log: VirtualLog, tail: int, way: str, pids: Sequence[int]) -> Pass:
    meter = CpuMeter([("all", pid) for pid in [*pids, _own_pid()]])
    began, size, look = CLOCK.monotonic(), 0, WAYS[way]
    async for piece in scan(log, LogPosition(0), LogPosition(tail)):
        size += look(piece)
    return Pass(way=way, seconds=CLOCK.monotonic() - began, cpu_seconds=meter.seconds()["all"], bytes=size)


def _copy(total: int) -> Pass:
    """Receive as many bytes from another process."""
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        with subprocess.Popen([*PROGRAM, "--send-to", f"{port}"]) as child:
            stream, _ = server.accept()
            with stream:
                meter = CpuMeter([("all", pid) for pid in (child.pid, _own_pid())])
                began, buffer, received = CLOCK.monotonic(), bytearray(COPY_BYTES), 0
                stream.sendall(total.to_bytes(8, "big"))
                while received < total and (count := stream.recv_into(buffer)):
                    received += count
                seconds, used = CLOCK.monotonic() - began, meter.seconds()["all"]
                stream.sendall(b"x")
    return Pass(way=SOCKET, seconds=seconds, cpu_seconds=used, bytes=received)


def _send(port: int) -> None:
    with socket.create_connection((HOST, port)) as stream:
        total, chunk = int.from_bytes(stream.recv(8), "big"), bytes(COPY_BYTES)
        for start in range(0, total, COPY_BYTES):
            stream.sendall(memoryview(chunk)[: total - start])
        stream.recv(1)  # the other side has read the CPU time of this process


def _own_pid() -> int:
    return int(Path("/proc/self").readlink().name)


def report(machine: Machine, found: Sequence[Pass], size: int) -> Report:
    """Medians, and the ratio to the plain copy of the same round."""
    copies = [each for each in found if each.way == SOCKET]
    rows, plain = [], {}
    for way in [*WAYS, SOCKET]:
        passes = [each for each in found if each.way == way]
        ratios = [each.megabytes_per_s / copy.megabytes_per_s for each, copy in zip(passes, copies, strict=True)]
        rows.append([
            way, f"{median(each.megabytes_per_s for each in passes):,.0f}", middle_and_ends(ratios, 2),
            f"{median(each.cpu_ns for each in passes):.2f}",
        ])  # fmt: skip
        plain[way] = [attrs.asdict(each) for each in passes]
    return Report(
        title=f"A scan beside a plain copy: entries of {size:,} bytes, {copies[0].bytes / 1e6:,.0f} MB",
        machine=machine,
        tables=[Table("Rates", ["", "MB/s", "of the socket's", "CPU ns a byte, both sides"], rows)],
        plain={"size": size, "passes": plain},
        verdict="every pass has read all bytes",
    )


@click.command()
@click.option("--megabytes", default=128, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--size", default=100, show_default=True, type=click.IntRange(1, 1 << 20), help="Bytes of an entry.")
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1, 100))
@click.option("--send-to", hidden=True, type=int)
@form_options
def main(*, megabytes: int, size: int, rounds: int, send_to: int | None, form: Form) -> None:
    """Measure the rate of a scan."""
    if send_to is not None:
        _send(send_to)
        return
    machine = Machine.look()
    report(machine, run_to_end(run, megabytes, size, rounds), size).publish(form)


if __name__ == "__main__":
    main()
