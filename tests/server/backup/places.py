"""Places of backups for tests: in memory, and places at which the process dies or that fail now and then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import attrs
import trio

from tests.loglets.archive.archive_bench import DictFiles
from virtuallog.contract.errors import UnavailableError
from virtuallog_loglets.archive.drivers.files import Directory, OpenDirectory

ResultT = TypeVar("ResultT")
URL = "memory://backups"


class KilledError(BaseException):
    """The process has died here."""


@attrs.define(eq=False)
class MemoryFiles(DictFiles):
    """Files of one directory in memory, which knows the directories in it."""

    url: str = ""
    place: MemoryPlace | None = None

    async def directories(self) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        assert self.place is not None
        below = f"{self.url}/"
        used = [url for url, files in self.place.directories.items() if files.content and url.startswith(below)]
        return sorted({url.removeprefix(below).partition("/")[0] for url in used})


@attrs.define(eq=False)
class MemoryPlace:
    """An `OpenDirectory` in memory."""

    directories: dict[str, MemoryFiles] = attrs.field(factory=dict)

    def __call__(self, url: str) -> MemoryFiles:
        return self.directories.setdefault(url, MemoryFiles(url=url, place=self))

    def content(self, below: str) -> dict[tuple[str, str], bytes]:
        """All files of directories whose URLs begin so."""
        found = [(url, files) for url, files in self.directories.items() if url.startswith(below)]
        return {(url, name): content for url, files in found for name, content in files.content.items()}


async def dies(run: Awaitable[object]) -> bool:
    """True if the process has died in this, also in several tasks at a time."""
    try:
        await run
    except* KilledError:
        has_died = True
    else:
        has_died = False
    return has_died


Interruption = Callable[[], Awaitable[None]]
"""Called before each request and after it; may raise, and may take its time."""


@attrs.define(eq=False)
class InterruptedFiles:
    """Files whose requests may be interrupted, before they take effect or after."""

    files: Directory
    before: Interruption
    after: Interruption

    async def read(self, name: str) -> bytes | None:
        return await self._ask(lambda: self.files.read(name))

    async def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        return await self._ask(lambda: self.files.read_range(name, start, stop))

    async def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        return await self._ask(lambda: self.files.write(name, content, replace=replace))

    async def list(self) -> Mapping[str, int]:
        return await self._ask(self.files.list)

    async def delete(self, name: str) -> None:
        await self._ask(lambda: self.files.delete(name))

    async def directories(self) -> Sequence[str]:
        return await self._ask(self.files.directories)

    async def _ask(self, call: Callable[[], Awaitable[ResultT]]) -> ResultT:
        await self.before()
        found = await call()
        await self.after()
        return found


async def _goes_on() -> None:
    """No interruption."""


@attrs.define(eq=False)
class Steps:
    """Requests to a place, counted. A process that dies before a request has died after the one before it."""

    deadly: int | None = None
    """Number of the request before which the process dies. None if it lives."""
    taken: int = 0
    pause: Callable[[int], Awaitable[None]] | None = None
    """Called with the number of each request before it. None not to pause."""

    def opened(self, open_files: OpenDirectory) -> OpenDirectory:
        return lambda url: InterruptedFiles(open_files(url), self._step, _goes_on)

    async def _step(self) -> None:
        self.taken += 1
        if self.pause is not None:
            await self.pause(self.taken)
        if self.deadly is not None and self.taken > self.deadly:
            raise KilledError


@attrs.define(eq=False)
class EveryTenth:
    """A place at which every tenth request fails, in turn before it takes effect and after."""

    requests: int = 0
    failures: int = 0

    def opened(self, open_files: OpenDirectory) -> OpenDirectory:
        return lambda url: InterruptedFiles(open_files(url), self._before, self._after)

    async def _before(self) -> None:
        self.requests += 1
        if self.requests % 20 == 0:
            self._fail()

    async def _after(self) -> None:
        if self.requests % 20 == 10:
            self._fail()

    def _fail(self) -> None:
        self.failures += 1
        raise UnavailableError("the place does not answer this time")
