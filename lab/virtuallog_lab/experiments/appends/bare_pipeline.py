"""Runs the bare pipeline, a script outside of this project: the ceiling that the machine and our libraries allow.

It is one client, one sequencer and three log servers in four processes, with every safety rule left out. We rely on its
command line and on what it prints: one JSON line per measurement, with `ops_per_s`, `p50_ms` and `p99_ms`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress

import trio

from virtuallog.contract.ports import Clock
from virtuallog_lab.experiments.appends.samples import BARE, AppendSample
from virtuallog_lab.harness.cpu_time import CpuMeter, arguments, children

_PORT = 7601
_EDGE = 0.1
"""Share of a measurement's time at each end without CPU times, as processes end with it."""


async def measure_bare(script: str, clock: Clock, outstanding: int, size: int, seconds: float) -> AppendSample:
    """Run the script once. It measures twice; the first time is the warm-up."""
    with tempfile.TemporaryDirectory(prefix="virtuallog-bare-") as folder:
        command = [
            sys.executable, script, "run", folder, "--outstanding", f"{outstanding},{outstanding}",
            "--size", str(size), "--seconds", str(seconds), "--port", str(_PORT),
        ]  # fmt: skip
        process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, start_new_session=True)
        try:
            lines = _lines(process)
            await anext(lines)
            await clock.sleep(_EDGE * seconds)
            meter = CpuMeter(_processes(process.pid))
            await clock.sleep((1 - 2 * _EDGE) * seconds)
            used = meter.seconds()
            measured = json.loads(await anext(lines))
            await process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    ops = measured["ops_per_s"] * (1 - 2 * _EDGE) * seconds
    return AppendSample(
        system=BARE,
        outstanding=outstanding,
        bytes=size,
        ops_per_s=measured["ops_per_s"],
        p50_ms=measured["p50_ms"],
        p99_ms=measured["p99_ms"],
        cpu_us={name: 1e6 * value / ops for name, value in used.items()},
    )


def _processes(script: int) -> list[tuple[str, int]]:
    """The script itself is the client, its children are the others."""
    others = [("sequencer" if "sequencer" in arguments(pid) else "servers", pid) for pid in children(script)]
    return [("client", script), *others]


async def _lines(process: trio.Process) -> AsyncIterator[bytes]:
    assert process.stdout is not None
    buffer = b""
    while chunk := await process.stdout.receive_some():
        *whole, buffer = (buffer + chunk).split(b"\n")
        for line in whole:
            yield line
