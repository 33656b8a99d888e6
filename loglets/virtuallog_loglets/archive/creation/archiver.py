"""Archiver: makes a closed segment into a config for the chain. Writes, publishes, reads back,
compares.

The change of the chain, `reconfig_modify`, is left to the caller, who asks a node. A node that
cannot see the files refuses it, as it looks at the archive first
(`virtuallog.client.address_space`). Then the hot copy stays for the grace period, and nodes drop it
afterwards.

`config_to_put_back` is the way back: the loglet that the archive replaced, for a segment with
another id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.chain import Segment
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, MalformedError, UnsupportedError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider, SupportsRebind, replicated
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogPosition
from virtuallog.reconfiguration.core.node_table import lost_copies
from virtuallog.runtime import log
from virtuallog_loglets.archive.config import GRACE_SECONDS, ArchiveConfig, HotCopy, check_url, directory_of, join
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core.manifest import ArchiveManifest
from virtuallog_loglets.archive.creation.archive_writer import ArchiveWriter
from virtuallog_loglets.archive.creation.data_files import DataFileSizes
from virtuallog_loglets.archive.creation.executor import ArchiveExecutor, SerialExecutor
from virtuallog_loglets.archive.creation.segment_source import SegmentSource
from virtuallog_loglets.archive.creation.verification import ArchiveVerifier, VerificationReport, is_damaged
from virtuallog_loglets.archive.drivers.files import Files
from virtuallog_loglets.archive.provider import KIND, ArchiveProvider

_WHERE: Final = "undo"
_VERIFIED = CrashPoint("archive: an archive is verified, the chain does not name it")

ArchiveProgress: TypeAlias = Callable[[str, int], None]
"""Callback for progress: the present step, and the position up to which it is done."""


async def _hot_state_unknown(segment: Segment) -> bool:
    return False


@attrs.frozen(kw_only=True)
class FinishedArchive:
    """An archive that is whole."""

    config: ArchiveConfig
    manifest: ArchiveManifest
    verified: VerificationReport


def serial_executor(archiving: Archiver, segment: Segment, source: SegmentSource, files: Files) -> ArchiveExecutor:
    """Executor in this process."""
    return SerialExecutor(source, files, archiving.sizes)


ExecutorFactory: TypeAlias = "Callable[[Archiver, Segment, SegmentSource, Files], ArchiveExecutor]"
"""Makes the executor for the files of a segment: (archiver, segment, source to read, files to write)."""


@attrs.frozen(eq=False, kw_only=True)
class Archiver:
    """Archiver with the settings that all segments of a log share."""

    provider: ArchiveProvider
    cluster: str
    """Id of the cluster, in hexadecimal digits."""
    url: str
    """URL of the place where archives are."""
    environment: Environment
    grace_seconds: float = GRACE_SECONDS
    tell: ArchiveProgress = lambda what, position: None
    sizes: DataFileSizes = attrs.field(factory=DataFileSizes)
    executor_factory: ExecutorFactory = serial_executor
    """Makes the executor of the data files; by default it works in this process."""
    is_still_hot: Callable[[Segment], Awaitable[bool]] = _hot_state_unknown
    """Returns True if the chain, asked anew, has the segment itself and so names no archive of it.
    Then a damaged archive is written again; before that it blocks every further attempt."""

    def location(self, segment: Segment) -> str:
        """URL of the directory of a closed segment's archive."""
        return join(self.url, self._directory(segment))

    async def run(self, segment: Segment, hot: Loglet) -> FinishedArchive:
        """Archive a closed segment; `hot` is a client of its loglet. Existing files are reused.

        If it is cancelled or killed, what is written stays, and the next call continues there.

        Raises:
            InvalidSettingError: the segment is open, empty or an archive, or the URL is not one for archives; nothing was done.
            CorruptionError, MalformedError: the existing or written content is not the segment. It is not used.
            UnavailableError: the segment or the place for files does not answer; may be called again.
            VirtualLogError: as `virtuallog_loglets.archive.drivers.files.Files`, and as the segment's loglet.
        """
        check_url(self.url)
        _check_segment(segment)
        files, source = (
            self.provider.files(self.location(segment)),
            SegmentSource.of(hot, segment, self.environment.clock),
        )
        executor = self.executor_factory(self, segment, source, files)
        blob = await self._written(segment, executor, files)
        try:
            verified = await self._verified(blob, executor, source, files)
        except (CorruptionError, MalformedError) as error:
            if not (await is_damaged(manifests.decode_untrusted(blob), files) and await self.is_still_hot(segment)):
                raise
            log.warning("writing a damaged archive anew", archive=self.location(segment), error=str(error))
            blob = await self._written(segment, executor, files, unusable=blob)
            verified = await self._verified(blob, executor, source, files)
        _VERIFIED.reached()
        return self._archived(segment, blob, verified)

    async def _written(
        self, segment: Segment, executor: ArchiveExecutor, files: Files, unusable: bytes | None = None
    ) -> bytes:
        assert segment.stop is not None
        return await ArchiveWriter(
            executor=executor, files=files, cluster=self.cluster, start=segment.start, stop=segment.stop, writer=_program(),
            tell=lambda position: self.tell("writing", position), unusable=unusable,
            may_replace=partial(self.is_still_hot, segment),
        ).run()  # fmt: skip

    async def _verified(
        self, blob: bytes, executor: ArchiveExecutor, source: SegmentSource, files: Files
    ) -> VerificationReport:
        """Verify a new archive.

        What the archive says was trimmed must be trimmed in the hot copy. No client trims an
        archive that no chain names, and markers may be left from another life of the log.
        """
        manifest = manifests.decode_untrusted(blob)
        found = await ArchiveVerifier(
            manifest=manifest, files=files, executor=executor, tell=lambda position: self.tell("verifying", position)
        ).run()
        if found.start > manifest.start and not await source.is_trimmed(manifest.start, found.start):
            raise CorruptionError(f"an archive says that all below {found.start} is trimmed, but the hot copy has it")
        return found

    def _archived(self, segment: Segment, blob: bytes, verified: VerificationReport) -> FinishedArchive:
        assert segment.stop is not None
        now_ms = int(self.environment.clock.wall() * 1000)
        config = ArchiveConfig(
            url=self.url, directory=self._directory(segment), start=segment.start, stop=segment.stop,
            manifest=manifests.checksum(blob), cluster=self.cluster,
            hot=HotCopy.of(segment, now_ms + int(self.grace_seconds * 1000)),
        )  # fmt: skip
        return FinishedArchive(config=config, manifest=manifests.decode_untrusted(blob), verified=verified)

    def _directory(self, segment: Segment) -> str:
        assert segment.stop is not None
        return directory_of(self.cluster, segment.start, segment.stop)


async def verify_archive(
    provider: ArchiveProvider,
    config: ArchiveConfig,
    environment: Environment,
    tell: ArchiveProgress = lambda what, position: None,
) -> VerificationReport:
    """Read an archive that is in the chain, and compare it with its hot copy while there is one.

    Raises: as `ArchiveVerifier.run`, and as `ArchiveLoglet.manifest`.
    """
    loglet, hot = provider.open_archive(config, environment), config.hot
    opened = None if hot is None else provider.open_hot(hot, environment)
    source = (
        None if hot is None or opened is None else SegmentSource(opened, config.start - hot.base, environment.clock)
    )
    files = provider.files(config.location)
    return await ArchiveVerifier(
        manifest=await loglet.manifest(), files=files, executor=SerialExecutor(source, files),
        tell=lambda position: tell("verifying", position),
    ).run()  # fmt: skip


def _check_segment(segment: Segment) -> None:
    where = f"segment {segment.id}"
    if segment.stop is None:
        raise InvalidSettingError(where, "is open; extend the chain to close it")
    if segment.stop == segment.start:
        raise InvalidSettingError(where, "is empty")
    if segment.kind == KIND:
        raise InvalidSettingError(where, "is an archive")


def _program() -> str:
    try:
        return f"virtuallog {version('virtuallog')}"
    except PackageNotFoundError:
        return "virtuallog"


def config_to_put_back(provider: LogletProvider, hot: HotCopy, register: Register) -> bytes:
    """Config with which a new segment has the entries of the hot copy.

    Raises:
        InvalidSettingError: some of its servers have lost their copies meanwhile, which would go unnoticed under a new id.
        MalformedError: its config cannot be read.
        UnsupportedError: loglets of this kind exist only under the id that they were made with.
    """
    found = replicated(provider)
    if found is not None:
        servers = found.placement(hot.config).servers
        place = LogPosition(0)  # only the id counts
        former = Segment(id=hot.id, kind=hot.kind, config=hot.config, start=place, stop=place)
        if lost := lost_copies(register, former, servers):
            raise InvalidSettingError(_WHERE, f"nodes {sorted(lost)} have new disks, without copies of the hot loglet")
        return found.move(hot.id, hot.config, servers)
    if isinstance(provider, SupportsRebind):
        return provider.named(hot.id, hot.config)
    raise UnsupportedError(f"a loglet of kind {hot.kind} cannot be put back")
