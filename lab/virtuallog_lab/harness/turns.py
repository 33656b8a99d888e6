"""Turns on a machine that several programs measure on: a lock on a file, held for one step at a time."""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import click

from virtuallog.runtime.clock import SystemClock

ALONE_SECONDS: Final = 300.0
"""Longest wait for a turn alone; then others may be on the machine meanwhile."""
_LOOK_SECONDS: Final = 0.2

lock_option = click.option(
    "--lock",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Hold this lock (flock) during each step, as `flock FILE` does, and never for longer.",
)


@attrs.frozen
class Turns:
    """Turns of one program. Without a file it is always its turn."""

    file: Path | None = None

    @asynccontextmanager
    async def taken(self, *, alone: bool = True) -> AsyncIterator[None]:
        """Hold the lock for the block: alone, if that can be had in time, or together with others that share it."""
        if self.file is None:
            yield
            return
        with self.file.open("ab") as lock:
            clock = SystemClock()
            deadline = clock.monotonic() + ALONE_SECONDS
            while not _try_lock(lock.fileno(), alone=alone and clock.monotonic() < deadline):
                await clock.sleep(_LOOK_SECONDS)
            yield


def _try_lock(descriptor: int, *, alone: bool) -> bool:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
