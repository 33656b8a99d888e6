"""A program of idle priority beside a measurement, which stands still between the parts in which it is wanted."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog_lab.experiments.churn.client import CLOCK
from virtuallog_lab.harness.cpu_time import CpuMeter

START_SECONDS: Final = 60.0
"""Longest start of the program, up to the moment when it takes its priority."""
_LOOK_SECONDS: Final = 0.05


@attrs.define(eq=False)
class PausableProgram:
    """The program. Made by `pausable`."""

    command: Sequence[str]
    """Empty for no program."""
    process: trio.Process | None = attrs.field(default=None, init=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Let it run for the length of the block. It is started again if it has ended, and has its priority by then."""
        if not self.command:
            yield
            return
        if self.process is None or self.process.poll() is not None:
            self.process = await self._start()
        self.process.send_signal(signal.SIGCONT)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGSTOP)

    def meter(self) -> CpuMeter:
        """Its processor time from now on. Nothing if it has ended: a question about few writes is soon answered."""
        process = self.process
        return CpuMeter([] if process is None or process.poll() is not None else [("program", process.pid)])

    async def _start(self) -> trio.Process:
        process = await trio.lowlevel.open_process(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with CLOCK.timeout(START_SECONDS):
            while process.poll() is None and os.sched_getscheduler(process.pid) != os.SCHED_IDLE:
                await CLOCK.sleep(_LOOK_SECONDS)
            return process
        process.kill()
        raise UnavailableError(f"{' '.join(self.command)} has not taken its priority within {START_SECONDS:.0f} s")


@asynccontextmanager
async def pausable(command: Sequence[str]) -> AsyncIterator[PausableProgram]:
    """A program that stands still at first, and ends with the block."""
    program = PausableProgram(command)
    try:
        yield program
    finally:
        if program.process is not None and program.process.poll() is None:
            program.process.terminate()
            program.process.send_signal(signal.SIGCONT)  # so that it can end, and delete its scratch store
            with trio.CancelScope(shield=True):
                await program.process.wait()
