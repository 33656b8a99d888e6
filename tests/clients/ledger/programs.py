"""Client programs as processes: their lines are read into a history as they come."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from tests.clients.ledger.history import Found, LedgerHistory
from tests.clients.observer import Observer

PATIENCE_SECONDS: Final = 90.0
"""Timeout of the next lines: some clients need seconds to come back, and machines stall."""
SESSION_MS: Final = 10_000


@attrs.define(eq=False)
class LedgerProgram:
    """One program that keeps a ledger below `root`."""

    root: str
    process: trio.Process
    errors: Path
    """File with its stderr."""
    history: LedgerHistory = attrs.field(factory=LedgerHistory)
    _lines: trio.Condition = attrs.field(factory=trio.Condition)

    async def read(self) -> None:
        """Read lines until it ends."""
        assert self.process.stdout is not None
        rest = b""
        async for chunk in self.process.stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            async with self._lines:
                for line in lines:
                    self.history.add(line.decode())
                self._lines.notify_all()

    async def ready(self) -> None:
        """Return once it has begun."""
        await self._until(lambda: bool(self.history.events("ready")))

    async def advance(self, writes: int) -> None:
        """Return once so many more writes are acknowledged."""
        before = len(self.history.acknowledged)
        await self._until(lambda: len(self.history.acknowledged) >= before + writes)

    async def end(self) -> None:
        """Close its stdin, and wait until it has ended its sessions."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        await self._until(lambda: bool(self.history.events("end")))
        assert await self.process.wait() == 0, self._last_words

    async def kill(self) -> None:
        """Kill -9. Its sessions are left to expire."""
        self.process.kill()
        await self.process.wait()

    @property
    def session(self) -> int:
        return int(self.history.events("ready")[0]["session"], 16)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        with trio.move_on_after(PATIENCE_SECONDS) as patience:
            async with self._lines:
                while not is_so():
                    assert self.process.returncode in {None, 0}, self._last_words
                    await self._lines.wait()
        assert not patience.cancelled_caught, self._last_words

    @property
    def _last_words(self) -> str:
        return f"{self.history.lines[-5:]}\n{self.errors.read_text(errors='replace')[-2000:]}"


@asynccontextmanager
async def running(
    command: Sequence[str | Path], hosts: str, root: str, observer: Observer, folder: Path
) -> AsyncIterator[LedgerProgram]:
    """Make the znodes below `root`, start the program, and kill it with the block if it still runs."""
    for path, data in (("entries", b""), ("presence", b""), ("register", b"0"), ("mirror", b"0")):
        await observer.call(observer.client.create, f"{root}/{path}", data, None, False, False, True)
    errors = folder / f"{root.strip('/')}.errors"
    with errors.open("wb") as output:
        process = await trio.lowlevel.open_process(
            [*command, hosts, root, str(SESSION_MS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output
        )
    program = LedgerProgram(root, process, errors)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(program.read)
            await program.ready()
            yield program
            nursery.cancel_scope.cancel()
    finally:
        with trio.CancelScope(shield=True):
            await program.kill()


async def find(observer: Observer, root: str) -> Found:
    """The state below `root`, after all that was answered to others. Waits until the ephemeral is gone."""
    await observer.sync()
    get = observer.client.get
    with trio.fail_after(PATIENCE_SECONDS):
        while await observer.call(observer.client.exists, f"{root}/presence/alive"):
            await trio.sleep(0.05)
    present, presence = await observer.call(observer.client.get_children, f"{root}/presence", None, True)
    register, state = await observer.call(get, f"{root}/register")
    mirror, mirror_state = await observer.call(get, f"{root}/mirror")
    return Found(
        entries=await trio.to_thread.run_sync(_entries, observer, f"{root}/entries"),
        register=int(register),
        mirror=int(mirror),
        version=state.version,
        mirror_version=mirror_state.version,
        present=present,
        changes=presence.cversion,
    )


def _entries(observer: Observer, parent: str) -> dict[str, int]:
    paths = [f"{parent}/{name}" for name in observer.client.get_children(parent)]
    asked = [observer.client.get_async(path) for path in paths]
    return {path: int(each.get()[0]) for path, each in zip(paths, asked, strict=True)}
