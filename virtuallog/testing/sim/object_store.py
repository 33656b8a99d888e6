"""A simulated external file store, as object stores and network filesystems are: one server on a
simulated network.

Requests are delayed, lost, and executed late or twice as every other call of a simulation, also
after the process that sent them has died. Acknowledged files are never lost: that is the store's
promise. It may be temporarily unavailable. If files are not made in one step (`torn`), the first
half of one can be seen before the rest, or for good if its writer dies in between.

Any component with these five methods and a URL per directory can be run on it; it was made for
`virtuallog_loglets.archive.drivers.files.Files`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Done, Handlers, Request
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.network import SimulatedNetwork
from virtuallog.testing.sim.process import Process, executing

CALL_SECONDS: Final = 2.0
REST_SECONDS: Final = (0.0, 0.05)
"""Shortest and longest time from the first half of a file to all of it."""


@attrs.frozen
class FilesAnswer:
    value: Any


@attrs.frozen(kw_only=True)
class FilesRequest(Request[FilesAnswer]):
    """Request of one method of `SimulatedFiles`."""

    url: str
    name: str = ""


@attrs.frozen(kw_only=True)
class ReadFile(FilesRequest):
    start: int = 0
    stop: int | None = None


@attrs.frozen(kw_only=True)
class WriteFile(FilesRequest):
    content: bytes = attrs.field(repr=lambda content: f"{len(content)} bytes")
    replace: bool
    writer: Process = attrs.field(repr=False)


@attrs.frozen(kw_only=True)
class ListFiles(FilesRequest):
    pass


@attrs.frozen(kw_only=True)
class DeleteFile(FilesRequest):
    pass


@attrs.define(eq=False)
class FilesServer:
    """All directories, by their URLs."""

    network: SimulatedNetwork
    random: random.Random
    refusing: float = 0.0
    """Share of the requests that fail without effect."""
    torn: float = 0.0
    """Share of the files that are not made in one step."""
    damaging: float = 0.0
    """Share of the files that are damaged: one bit is flipped."""
    on_write: Callable[[str, str, bytes], None] = lambda url, name, content: None
    """Called for each file that is whole now: (URL of the directory, name, content).

    The content is what was sent, also if it was damaged on its way: the writer is judged by that.
    """
    directories: dict[str, dict[str, bytes]] = attrs.field(factory=dict, init=False)

    @property
    def handlers(self) -> Handlers:
        return {ReadFile: self._serve, WriteFile: self._serve, ListFiles: self._serve, DeleteFile: self._serve}

    def _serve(self, request: FilesRequest, done: Done) -> None:
        if self.random.random() < self.refusing:
            self.network.counts["files refused"] += 1
            done(UnavailableError("too many requests; slow down"))
            return
        directory = self.directories.setdefault(request.url, {})
        match request:
            case ReadFile(name=name, start=start, stop=stop):
                found = directory.get(name)
                done(FilesAnswer(None if found is None else found[start:stop]))
            case WriteFile():
                self._write(request, directory, done)
            case ListFiles():
                done(FilesAnswer({name: len(content) for name, content in sorted(directory.items())}))
            case DeleteFile(name=name):
                directory.pop(name, None)
                done(FilesAnswer(None))

    def _write(self, request: WriteFile, directory: dict[str, bytes], done: Done) -> None:
        name, content = request.name, self._maybe_damaged(request.content)
        if not request.replace and name in directory:
            done(FilesAnswer(False))
            return

        def finish() -> None:
            if half and not request.writer.alive:
                return  # the writer has died: the rest never comes
            directory[name] = content
            self.on_write(request.url, name, request.content)
            done(FilesAnswer(True))

        half = self.random.random() < self.torn
        if not half:
            finish()
            return
        self.network.counts["file torn"] += 1  # for good, or until the rest is there
        directory[name] = content[: len(content) // 2]
        self.network.timeline.schedule(self.random.uniform(*REST_SECONDS), finish)

    def _maybe_damaged(self, content: bytes) -> bytes:
        if not content or self.damaging == 0.0 or self.random.random() >= self.damaging:
            return content
        self.network.counts["file damaged"] += 1
        damaged = bytearray(content)
        damaged[self.random.randrange(len(damaged))] ^= 1 << self.random.randrange(8)
        return bytes(damaged)


@attrs.frozen(eq=False)
class SimulatedFiles:
    """One directory, for the process that uses it at the moment. Implements
    `virtuallog_loglets.archive.drivers.files.Files`."""

    _network: SimulatedNetwork
    _server: NodeId
    _url: str

    async def read(self, name: str) -> bytes | None:
        found: bytes | None = await self._call(ReadFile(url=self._url, name=name))
        return found

    async def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        found: bytes | None = await self._call(ReadFile(url=self._url, name=name, start=start, stop=stop))
        return found

    async def write(self, name: str, content: bytes, *, replace: bool = True) -> bool:
        writer = _user()
        request = WriteFile(url=self._url, name=name, content=bytes(content), replace=replace, writer=writer)
        return bool(await self._call(request))

    async def list(self) -> Mapping[str, int]:
        found: Mapping[str, int] = await self._call(ListFiles(url=self._url))
        return found

    async def delete(self, name: str) -> None:
        await self._call(DeleteFile(url=self._url, name=name))

    async def _call(self, request: FilesRequest) -> Any:
        process = _user()
        services = self._network.services(process, SimulatedClock(process))
        return (await services.call(self._server, request, CALL_SECONDS)).value


def _user() -> Process:
    """Return the process that uses the files: it is outside of the carrier of messages between nodes."""
    process = executing()
    assert process is not None, "files are used by processes"
    return process
