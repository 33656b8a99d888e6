"""The driver of Spark as a process that can be killed, and what its files say about where it was then.

Spark runs a micro-batch N like this, all below the folder of the query:

    checkpoint/offsets/N       written: the range of N is decided         planned
    table/part-*               its rows are being written                 writing
    table/_spark_metadata/N    written: its files are of the table        listed
    checkpoint/commits/N       written                                    committed

Killed before the third step, its files are waste, and it is run again; killed behind it, the rows must not come twice.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Clock
from virtuallog_lab.experiments.spark_stream.driver import CHECKPOINT, TABLE

ROOT: Final = Path(__file__).parents[4]
END_SECONDS: Final = 60.0
"""Seconds for a driver to end on request, and for the processes of a killed one to notice. Then
they are killed."""
POLL_SECONDS: Final = 0.02


@attrs.frozen
class Progress:
    """The newest batch that has got so far; -1: none."""

    planned: int
    listed: int
    committed: int
    has_files: bool = False
    """True if tasks of the newest batch have begun files, as of the last look."""

    @classmethod
    def look(cls, folder: Path) -> Progress:
        checkpoint = folder / CHECKPOINT
        return cls(
            planned=_newest(checkpoint / "offsets"),
            listed=_newest(folder / TABLE / "_spark_metadata"),
            committed=_newest(checkpoint / "commits"),
        )

    @property
    def is_in_a_batch(self) -> bool:
        return self.planned > self.committed

    @property
    def stage(self) -> str:
        """Stage of the newest batch."""
        if not self.is_in_a_batch:
            return "committed"
        if self.listed >= self.planned:
            return "listed"
        return "writing" if self.has_files else "planned"


def _newest(folder: Path) -> int:
    """Newest of files whose names are numbers; the sink compacts some of its own as N.compact."""
    try:
        names = [name.removesuffix(".compact") for name in os.listdir(folder)]  # noqa: PTH208 -- often, and fast
    except FileNotFoundError:
        return -1
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _has_files(folder: Path, batch: int) -> bool:
    """Newer than the plan of the batch."""
    plan = folder / CHECKPOINT / "offsets" / str(batch)
    began = plan.stat().st_mtime if batch >= 0 else 0.0
    return any(file.stat().st_mtime > began for file in (folder / TABLE).glob("*part-*"))


@attrs.define(eq=False)
class Query:
    """One query, which several drivers run, one after the other."""

    cluster: Path
    folder: Path
    clock: Clock
    starts: int = 0
    process: trio.Process | None = None

    @property
    def progress(self) -> Progress:
        return Progress.look(self.folder)

    @property
    def last_words(self) -> str:
        lines = (self.folder / "driver.log").read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    async def start(self, what: str = "follow") -> None:
        """Start it in a session of its own, so that all its processes are known, also after they
        have lost their parent."""
        with (self.folder / "driver.log").open("ab") as said:
            command = [
                sys.executable,
                "-m",
                "virtuallog_lab.experiments.spark_stream.driver",
                what,
                str(self.cluster),
                str(self.folder),
            ]
            self.process = await trio.lowlevel.open_process(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=said, stderr=said, start_new_session=True
            )
        self.starts += 1

    def has_ended(self) -> bool:
        """True if it has ended by itself."""
        return self.process is not None and self.process.poll() is not None

    async def kill(self) -> Progress:
        """Kill -9 driver and JVM at once, and wait until none of its processes is left; returns how
        far it was."""
        process = self._taken()
        with suppress(ProcessLookupError):  # it has just ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        await self._wait_gone(process)
        progress = self.progress
        return attrs.evolve(progress, has_files=_has_files(self.folder, progress.planned))

    async def end(self) -> int:
        """Let it end in order: between two batches, or in one, which is then run again."""
        process = self._taken()
        assert process.stdin is not None
        await process.stdin.aclose()
        with self.clock.timeout(END_SECONDS):
            await process.wait()
        await self._wait_gone(process)
        return process.returncode or 0

    async def run(self, what: str, seconds: float) -> None:
        """Start a driver that ends by itself, and wait for it.

        Raises:
            UnavailableError: it failed, or took too long.
        """
        await self.start(what)
        process = self._taken()
        with self.clock.timeout(seconds):
            await process.wait()
        code = process.poll()
        await self._wait_gone(process)
        if code != 0:
            raise UnavailableError(f"the driver that was to {what} ended with {code}: {self.last_words}")

    async def close(self) -> None:
        """Nothing of it is left."""
        if self.process is not None:
            with trio.CancelScope(shield=True):  # ends soon, by force
                await self.kill()

    def _taken(self) -> trio.Process:
        assert self.process is not None
        process, self.process = self.process, None
        return process

    async def _wait_gone(self, process: trio.Process) -> None:
        """Workers end by themselves once the JVM is gone; until then they may still write files of no consequence."""
        with self.clock.timeout(END_SECONDS):
            while members(process.pid):
                await self.clock.sleep(POLL_SECONDS)
        for pid in members(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await process.wait()
        if process.stdin is not None:
            await process.stdin.aclose()


def members(session: int) -> list[int]:
    """The processes of a session that live."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with suppress(FileNotFoundError, ProcessLookupError):
            state, _, _, owner, *_ = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            if int(owner) == session and state != "Z":
                found.append(int(name))
    return found
