"""Files that are asked again while their place does not answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

import attrs

from virtuallog.contract.errors import RetryableError
from virtuallog.contract.ports import Clock
from virtuallog.runtime import log
from virtuallog_loglets.archive.drivers.files import Directory, OpenDirectory

ResultT = TypeVar("ResultT")

ATTEMPTS_MAX: Final = 8
"""Attempts for one request: with the pauses some 20 seconds, as long as an object store is usually slow."""
PAUSE_SECONDS: Final = (0.2, 5.0)
"""First and longest pause between two attempts, in seconds; it doubles in between."""


async def retried(clock: Clock, call: Callable[[], Awaitable[ResultT]], attempts: int = ATTEMPTS_MAX) -> ResultT:
    """Result of `call`, which is called again after a RetryableError, `attempts` times at most.

    Raises:
        VirtualLogError: the last attempt's error, or one that is not retryable.
    """
    pause, longest = PAUSE_SECONDS
    for _ in range(attempts - 1):
        try:
            return await call()
        except RetryableError as error:
            log.warning("a request is made again", pause=pause, reason=str(error))
        await clock.sleep(pause)
        pause = min(2 * pause, longest)
    return await call()


@attrs.frozen(eq=False)
class RetriedFiles:
    """Implements `virtuallog_loglets.archive.drivers.files.Directory` over another one. Errors are those of the last
    attempt."""

    files: Directory
    clock: Clock

    async def read(self, name: str) -> bytes | None:
        return await retried(self.clock, lambda: self.files.read(name))

    async def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        return await retried(self.clock, lambda: self.files.read_range(name, start, stop))

    async def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        """See `Files.write`. If an attempt whose outcome is unknown did write, that is found out."""
        attempts = 0

        async def attempt() -> bool:
            nonlocal attempts
            attempts += 1
            return await self.files.write(name, content, replace=replace)

        if await retried(self.clock, attempt):
            return True
        return attempts > 1 and await self.read(name) == content

    async def list(self) -> Mapping[str, int]:
        return await retried(self.clock, self.files.list)

    async def delete(self, name: str) -> None:
        await retried(self.clock, lambda: self.files.delete(name))

    async def directories(self) -> Sequence[str]:
        return await retried(self.clock, self.files.directories)


def opened_again(open_files: OpenDirectory, clock: Clock) -> OpenDirectory:
    """As `open_files`, with files that are asked again."""
    return lambda url: RetriedFiles(open_files(url), clock)
