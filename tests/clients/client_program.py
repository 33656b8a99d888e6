"""Client programs as processes: their lines, JSON each, are read into a history as they come.

A program works until its stdin is closed. Lines that all of them have:

    {"event": "ready"}                                               it has begun
    {"op": NAME, "outcome": "ok" | "unknown", "ended": MS, ...}       a write, and when it was answered, in milliseconds since 1970
    {"event": "expired"}                                             a session has ended that should not
    {"event": "end"}                                                 all that was to be done after the end of stdin is done
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

PATIENCE_SECONDS: Final = 120.0
"""Timeout of the next lines: some clients need seconds to come back, and machines stall."""
SESSION_MS: Final = 10_000

Command = Sequence[str | Path]
Line = Mapping[str, Any]


@attrs.define(eq=False)
class History:
    """The lines of one program, in its order."""

    lines: list[Line] = attrs.field(factory=list)

    def steps(self, operation: str, outcome: str) -> list[Line]:
        """Writes of this sort with this outcome."""
        return [line for line in self.lines if line.get("op") == operation and line.get("outcome") == outcome]

    def events(self, name: str) -> list[Line]:
        return [line for line in self.lines if line.get("event") == name]

    @property
    def acknowledged(self) -> list[Line]:
        """All writes that were acknowledged, in order."""
        return [line for line in self.lines if line.get("outcome") == "ok"]

    @property
    def unknown(self) -> int:
        """Number of writes without an answer."""
        return sum(line.get("outcome") == "unknown" for line in self.lines)

    @property
    def times(self) -> list[int]:
        """Time of each acknowledgement."""
        return [line["ended"] for line in self.acknowledged]


@attrs.define(eq=False)
class ClientProgram:
    """One program."""

    process: trio.Process
    errors: Path
    """File with its stderr."""
    history: History = attrs.field(factory=History)
    _news: trio.Condition = attrs.field(factory=trio.Condition, init=False)
    _writes: int = attrs.field(default=0, init=False)
    _is_silent: bool = attrs.field(default=False, init=False)
    """True once there are no more lines: it has ended."""

    async def read(self) -> None:
        """Read lines until it ends, and note its end."""
        assert self.process.stdout is not None
        rest = b""
        async for chunk in self.process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            async with self._news:
                for text in lines:
                    line = json.loads(text)
                    self.history.lines.append(line)
                    self._writes += line.get("outcome") == "ok"
                self._news.notify_all()
        async with self._news:
            self._is_silent = True
            self._news.notify_all()

    async def ready(self) -> None:
        """Return once it has begun."""
        await self.wait_for(lambda: bool(self.history.events("ready")))

    async def advance(self, writes: int) -> None:
        """Return once so many more writes are acknowledged."""
        before = self._writes
        await self.wait_for(lambda: self._writes >= before + writes)

    async def end(self) -> None:
        """Close its stdin, and wait until it has done the rest."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        await self.wait_for(lambda: bool(self.history.events("end")))
        assert await self.process.wait() == 0, self._last_words

    async def kill(self) -> None:
        """Kill -9. Its sessions are left to expire."""
        self.process.kill()
        await self.process.wait()

    async def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Return once its lines show it. Fails if it ends instead, or waits long."""
        with trio.move_on_after(PATIENCE_SECONDS) as patience:
            async with self._news:
                while not is_so():
                    assert not self._is_silent, self._last_words
                    await self._news.wait()
        assert not patience.cancelled_caught, self._last_words

    @property
    def _last_words(self) -> str:
        events = [line for line in self.history.lines if "event" in line]
        return f"{events[-5:]}\n{self.history.lines[-5:]}\n{self.errors.read_text(errors='replace')[-2000:]}"


@asynccontextmanager
async def running(command: Command, *arguments: str, errors: Path) -> AsyncIterator[ClientProgram]:
    """Start a program, return once it has begun, and kill it with the block if it still runs."""
    with errors.open("wb") as output:
        process = await trio.lowlevel.open_process(
            [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output
        )
    program = ClientProgram(process, errors)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(program.read)
            await program.ready()
            yield program
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await program.kill()
