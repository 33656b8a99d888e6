"""Client of an archive: a closed segment, read from Parquet files. Its offsets are positions of the
log.

    read ---> row groups that are in memory ---> files ---> the hot copy, as long as there is one
                                                   |  damaged, missing, no answer

It takes no appends and is sealed from the beginning. `check_tail` answers from the files alone,
never from the hot copy. So before an archive is put into the chain it shows if the archive is there
and whole.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import (
    BeyondTailError,
    CorruptionError,
    MalformedError,
    SealedError,
    StorageError,
    UnavailableError,
    UnsupportedError,
)
from virtuallog.contract.loglet import Loglet, Placed
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import Gap, GapKind, LogletOffset, PlacedBatch, Sealed, Tail
from virtuallog.runtime import log
from virtuallog_loglets.archive.config import ArchiveConfig
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core.content_digest import clipped
from virtuallog_loglets.archive.core.manifest import ArchiveManifest, DataFile
from virtuallog_loglets.archive.drivers.files import NEEDS, Files
from virtuallog_loglets.archive.drivers.trim_markers import trim, trim_point

if TYPE_CHECKING:
    from virtuallog_loglets.archive.core.parquet import Footer

ResultT = TypeVar("ResultT")

FILE_SECONDS: Final = 30.0
"""Time limit for one call to the files, in seconds: some MiB from an object store that has a bad moment."""
HOT_SECONDS: Final = 2.0
"""Time limit for all of a read, in seconds, while there is a hot copy: that answers in
milliseconds, and readers have a patience of their own."""
SILENT_SECONDS: Final = 30.0
"""Seconds that reads skip the files once they were too slow for one that has a hot copy."""
GROUPS_KEPT: Final = 8
"""Most row groups in memory, about 1 MiB each: a reader goes through a group in several reads, and
there may be a few readers."""
FOOTERS_KEPT: Final = 16
"""Most footers in memory, some tens of KiB each."""


class _TrimmedError(Exception):
    """A file is missing because it was trimmed."""


class ArchiveLoglet:
    """Client of one archive. Implements `virtuallog.contract.loglet.Loglet`."""

    def __init__(self, config: ArchiveConfig, files: Files, clock: Clock, hot: Callable[[], Loglet] | None) -> None:
        """Open a client; makes no request yet.

        Args:
            config: config in the chain.
            files: the archive's directory.
            clock: clock for time limits.
            hot: opens the loglet that the archive replaced; None if it is no longer kept.
        """
        self.config: Final = config
        self._files = files
        self._clock = clock
        self._open_hot = hot
        self._hot: Loglet | None = None
        self._silent_until = -inf
        """Until then the hot copy is read at once."""
        self._manifest: ArchiveManifest | None = None
        self._trim = config.start
        """Trim point as far as this client knows. Nothing below is read, though it may still be there."""
        self._groups: OrderedDict[tuple[str, int], list[Placed]] = OrderedDict()
        self._footers: OrderedDict[str, Footer] = OrderedDict()

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        raise SealedError("an archive takes no appends", refused=True)

    async def check_tail(self) -> Tail:
        """Check the tail as the contract says.

        Raises also the errors of `Files`, CorruptionError and MalformedError, if the archive is not
        whole.
        """
        manifest, names = await self.manifest(), await self._ask(self._files.list)
        self._trim = max(self._trim, trim_point(manifest, names))
        for file in manifest.files:
            if file.stop > self._trim and names.get(file.name) != file.bytes:
                found = names.get(file.name, "none")
                raise CorruptionError(f"file {file.name} of an archive has {found} of its {file.bytes} bytes")
        return Sealed(manifest.stop)

    async def wait_tail(self, past: LogletOffset) -> Tail:
        return await self.check_tail()

    async def seal(self) -> None:
        """Do nothing: an archive is sealed."""

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        stop = min(stop, LogletOffset(self.config.stop))
        if start >= stop:
            raise BeyondTailError(start, self.config.stop)
        if self._open_hot is None:
            return await self._read_files(start, stop, max_bytes)
        if self._clock.monotonic() >= self._silent_until:
            try:
                return await self._read_soon(start, stop, max_bytes)
            except (CorruptionError, MalformedError, UnavailableError, StorageError, UnsupportedError) as error:
                log.warning("reading the hot copy of an archive", archive=self.config.directory, error=str(error))
        return await self._read_hot(start, stop, max_bytes)

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        try:
            manifest = await self.manifest()
        except (CorruptionError, MalformedError) as error:
            if self._open_hot is None:
                raise
            log.warning("trimming an archive without its manifest", archive=self.config.directory, error=str(error))
            await self._trim_without_manifest(offset)
        else:
            await self._trim_files(manifest, offset)
        return LogletOffset(self._trim)

    async def _trim_files(self, manifest: ArchiveManifest, offset: int) -> None:
        target = min(max(offset, manifest.start), manifest.stop)
        self._trim = max(self._trim, await self._ask(lambda: trim(self._files, manifest, target)))

    async def _trim_without_manifest(self, offset: LogletOffset) -> None:
        """Trim by markers, which count whatever the manifest says. The hot copy tells the trim point before."""
        config = self.config
        assert config.hot is not None
        bare = ArchiveManifest(
            cluster=config.cluster,
            start=config.start,
            stop=config.stop,
            trimmed=config.start,
            files=(),
            content="",
            writer="",
        )
        await self._trim_files(bare, offset)
        shift = config.start - config.hot.base
        found = await self._hot_loglet().prefix_trim(LogletOffset(self._trim - shift))
        self._trim = max(self._trim, min(found + shift, config.stop))

    async def manifest(self) -> ArchiveManifest:
        """Manifest of the archive; read once, as it never changes.

        Raises:
            CorruptionError: it is missing, or not the one that the chain means.
            MalformedError: it is one of another log, or of a later version.
            UnavailableError, StorageError, UnsupportedError: as `Files`.
        """
        if self._manifest is None:
            blob = await self._ask(lambda: self._files.read(manifests.NAME))
            if blob is None:
                raise CorruptionError(f"the archive {self.config.location} has no manifest")
            found = manifests.decode_untrusted(blob, self.config.manifest)
            found.check_range(self.config.cluster, self.config.start, self.config.stop)
            self._manifest = found
        return self._manifest

    # -- from files ---------------------------------------------------------------------------------------------------

    async def _read_files(self, start: int, stop: int, max_bytes: int) -> Sequence[Placed]:
        manifest = await self.manifest()
        if start < max(self._trim, manifest.trimmed):
            return [Gap(start, min(stop, max(self._trim, manifest.trimmed)), GapKind.TRIMMED)]
        index = bisect_right(manifest.files, start, key=lambda file: file.start) - 1
        try:
            found = await self._group_at(manifest.files[index], start)
        except _TrimmedError:
            return [Gap(start, min(stop, self._trim), GapKind.TRIMMED)]
        return _as_much_as(max_bytes, clipped(found, start, stop))

    async def _read_soon(self, start: int, stop: int, max_bytes: int) -> Sequence[Placed]:
        """Read from the files while the hot copy can still help: raises UnavailableError in time for it."""
        with self._clock.timeout(HOT_SECONDS) as scope:
            return await self._read_files(start, stop, max_bytes)
        assert scope.cancelled_caught
        self._silent_until = self._clock.monotonic() + SILENT_SECONDS
        raise UnavailableError(f"{self.config.location} has not answered for {HOT_SECONDS:.0f} s")

    async def _group_at(self, file: DataFile, position: int) -> list[Placed]:
        """Items of the row group with this position."""
        parquet, footer = _parquet(), await self._footer(file)
        index = bisect_right(file.groups, position, key=lambda group: group.start) - 1
        group, key = file.groups[index], (file.name, index)
        if key not in self._groups:
            content = await self._bytes(file, group.first_byte, group.stop_byte)
            _keep(self._groups, key, parquet.read_group_untrusted(footer, index, content), GROUPS_KEPT)
        self._groups.move_to_end(key)
        return self._groups[key]

    async def _footer(self, file: DataFile) -> Footer:
        if file.name not in self._footers:
            tail = await self._bytes(file, file.bytes - file.footer_bytes, file.bytes)
            _keep(self._footers, file.name, _parquet().footer_untrusted(file, tail), FOOTERS_KEPT)
        self._footers.move_to_end(file.name)
        return self._footers[file.name]

    async def _bytes(self, file: DataFile, start: int, stop: int) -> bytes:
        """Bytes of a file. Raises _TrimmedError if the file is gone, as it may be."""
        content = await self._ask(lambda: self._files.read_range(file.name, start, stop))
        if content is None:
            manifest, names = await self.manifest(), await self._ask(self._files.list)
            self._trim = max(self._trim, trim_point(manifest, names))
            if file.stop <= self._trim:
                raise _TrimmedError
            raise CorruptionError(f"file {file.name} of an archive is missing")
        return content

    async def _ask(self, call: Callable[[], Awaitable[ResultT]]) -> ResultT:
        with self._clock.timeout(FILE_SECONDS) as scope:
            return await call()
        assert scope.cancelled_caught
        raise UnavailableError(f"{self.config.location} has not answered for {FILE_SECONDS:.0f} s")

    # -- from the hot copy --------------------------------------------------------------------------------------------

    async def _read_hot(self, start: int, stop: int, max_bytes: int) -> Sequence[Placed]:
        assert self.config.hot is not None
        shift = self.config.start - self.config.hot.base
        found = await self._hot_loglet().read(LogletOffset(start - shift), LogletOffset(stop - shift), max_bytes)
        return [item.shift(shift) for item in found]

    def _hot_loglet(self) -> Loglet:
        assert self._open_hot is not None
        self._hot = self._hot or self._open_hot()
        return self._hot


def _parquet() -> Any:
    """Import the modules that take a third of a second to load: only readers of archives need them.

    Raises:
        UnsupportedError: they are not installed.
    """
    try:
        from virtuallog_loglets.archive.core import parquet
    except ImportError as error:
        raise UnsupportedError(NEEDS) from error
    return parquet


def _as_much_as(max_bytes: int, items: Sequence[Placed]) -> Sequence[Placed]:
    size = 0
    for count, item in enumerate(items):
        size += len(item.batch.blob) if isinstance(item, PlacedBatch) else 0
        if size > max_bytes and count:
            return items[:count]
    return items


def _keep(kept: OrderedDict[Any, Any], key: object, value: object, limit: int) -> None:
    kept[key] = value
    while len(kept) > limit:
        kept.popitem(last=False)
