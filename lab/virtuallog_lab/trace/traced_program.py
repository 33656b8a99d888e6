"""A program that can be traced. Otherwise it is the module that it is given, unchanged.

    python -m virtuallog_lab.trace.traced_program DIR MODULE ARGUMENT...

SIGUSR1 begins a trace; SIGUSR2 ends it and writes DIR/PID.json.
"""

from __future__ import annotations

import os
import queue
import runpy
import signal
import sys
from pathlib import Path
from types import FrameType

import trio

from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.trace.probes import TracedQueue
from virtuallog_lab.trace.tracer import Tracer


def run() -> None:
    """Run the module, ready to be traced."""
    folder, module, *arguments = sys.argv[1:]
    tracer = Tracer(SystemClock())
    queue.SimpleQueue = TracedQueue  # type: ignore[misc]  # before the module imports it

    def end() -> None:
        tracer.end().write(Path(folder, f"{os.getpid()}.json"))

    def begin_soon(_signal: int, _frame: FrameType | None) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(tracer.begin)

    def end_soon(_signal: int, _frame: FrameType | None) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(end)

    signal.signal(signal.SIGUSR1, begin_soon)
    signal.signal(signal.SIGUSR2, end_soon)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    run()
