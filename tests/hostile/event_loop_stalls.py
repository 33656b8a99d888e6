"""Stalls of a process's event loop, measured inside: a turn is the work between two polls for input.

A turn of more than `TOLD_MS` becomes a line of the file that `recorded` was given: its end, its duration, the part of it in which the
main thread was ready to run and the machine ran other threads, and the step that took most of it. The rest of a turn is the server's own
doing: its work, and its waits for a disk or for a thread that holds the interpreter.

`ready_seconds` is of Linux, /proc/PID/schedstat: the kernel counts it for every thread, here for the main one.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

TOLD_MS: Final = 20.0
_NS: Final = 1e9


class Readiness:
    """Time for which the main thread of a process was ready to run, and did not."""

    def __init__(self, pid: int) -> None:
        self._file = os.open(f"/proc/{pid}/schedstat", os.O_RDONLY)

    def seconds(self) -> float:
        """Seconds since its start."""
        return int(os.pread(self._file, 64, 0).split()[1]) / _NS

    def close(self) -> None:
        os.close(self._file)


@attrs.frozen(kw_only=True)
class Turn:
    """A long turn."""

    ended: float
    """Its end, on the monotonic clock, which all processes of a machine share."""
    took_ms: float
    machine_ms: float
    worked_ms: float
    """Processor time of the main thread. Other time it has waited: for a disk, or for a thread that holds the interpreter."""
    step: str
    """The task with the longest step."""
    step_ms: float

    @property
    def own_ms(self) -> float:
        return max(0.0, self.took_ms - self.machine_ms)


class Recorder(trio.abc.Instrument):
    """Writes long turns of its loop to a file, one line of JSON each."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._readiness = Readiness(os.getpid())
        self._began = self._step_began = time.monotonic()  # noqa: TID251 -- real processes
        self._ready, self._worked = self._readiness.seconds(), time.thread_time()
        self._step, self._step_seconds = "", 0.0

    def after_io_wait(self, timeout: float) -> None:
        self._began = time.monotonic()  # noqa: TID251 -- real processes
        self._ready, self._worked = self._readiness.seconds(), time.thread_time()
        self._step, self._step_seconds = "", 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._step_began = time.monotonic()  # noqa: TID251 -- real processes

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took = time.monotonic() - self._step_began  # noqa: TID251 -- real processes
        if took > self._step_seconds:
            self._step, self._step_seconds = task.name, took

    def before_io_wait(self, timeout: float) -> None:
        ended = time.monotonic()  # noqa: TID251 -- real processes
        took_ms = 1000 * (ended - self._began)
        if took_ms > TOLD_MS:
            machine_ms = 1000 * (self._readiness.seconds() - self._ready)
            turn = Turn(
                ended=ended,
                took_ms=took_ms,
                machine_ms=machine_ms,
                worked_ms=1000 * (time.thread_time() - self._worked),
                step=self._step,
                step_ms=1000 * self._step_seconds,
            )
            self._file.write(json.dumps(attrs.asdict(turn)) + "\n")


@contextmanager
def recorded(path: Path) -> Iterator[None]:
    """Give every `trio.run` within the block a recorder."""
    run = trio.run
    trio.run = functools.partial(run, instruments=[Recorder(path)])  # type: ignore[assignment]  # the same, with one argument given
    try:
        yield
    finally:
        trio.run = run


def read_turns(path: Path, since: float) -> list[Turn]:
    """The turns that ended later than `since`."""
    turns = [Turn(**json.loads(line)) for line in path.read_text().splitlines()]
    return [turn for turn in turns if turn.ended > since]
