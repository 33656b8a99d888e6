"""From a closed segment to a config that may be put into the chain: write, publish, read back, compare.

The put itself, `reconfig_modify`, is left to the caller, who asks a node: a node that cannot see the files refuses it, as it
looks at the archive first (`virtuallog.address_space`). Then the hot copy stays for the grace period, and nodes let go of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TypeAlias

import attrs
import structlog

from virtuallog.api import Loglet
from virtuallog.chain import Segment
from virtuallog.crash_points import CrashPoint
from virtuallog.errors import CorruptionError, InvalidSettingError, MalformedError
from virtuallog.ports import Environment
from virtuallog_loglets.archive import manifest as manifests
from virtuallog_loglets.archive.config import GRACE_SECONDS, ArchiveConfig, HotCopy, check_url, directory_of, join
from virtuallog_loglets.archive.crew import Crew, OneByOne
from virtuallog_loglets.archive.files import Files
from virtuallog_loglets.archive.making import Sizes
from virtuallog_loglets.archive.manifest import Manifest
from virtuallog_loglets.archive.provider import KIND, ArchiveProvider
from virtuallog_loglets.archive.source import Source
from virtuallog_loglets.archive.verifying import Verified, Verifying, is_damaged
from virtuallog_loglets.archive.writing import Writing

_VERIFIED = CrashPoint("archive: an archive is verified, the chain does not name it")

Tell: TypeAlias = Callable[[str, int], None]
"""Told what is being done, and up to which position it is done."""

log = structlog.get_logger(__name__)


async def _nobody_knows(segment: Segment) -> bool:
    return False


@attrs.frozen(kw_only=True)
class Archived:
    """An archive that is whole."""

    config: ArchiveConfig
    manifest: Manifest
    verified: Verified


def one_by_one(archiving: Archiving, segment: Segment, source: Source, files: Files) -> Crew:
    """This process."""
    return OneByOne(source, files, archiving.sizes)


Hire: TypeAlias = "Callable[[Archiving, Segment, Source, Files], Crew]"
"""Finds those who work on the files of a segment: from where they read it, and where they write."""


@attrs.frozen(eq=False, kw_only=True)
class Archiving:
    """What is the same for all segments of a log."""

    provider: ArchiveProvider
    cluster: str
    """In hexadecimal digits."""
    url: str
    """Where archives are."""
    environment: Environment
    grace_seconds: float = GRACE_SECONDS
    tell: Tell = lambda what, position: None
    sizes: Sizes = attrs.field(factory=Sizes)
    hire: Hire = one_by_one
    """Who makes and verifies the files: by default this process."""
    is_still_hot: Callable[[Segment], Awaitable[bool]] = _nobody_knows
    """Whether the chain, asked anew, has the segment itself, so that it names no archive of it. Then one that is damaged is
    written again; before that it is in the way of every further attempt."""

    def location(self, segment: Segment) -> str:
        """URL of the directory of a closed segment's archive."""
        return join(self.url, self._directory(segment))

    async def run(self, segment: Segment, hot: Loglet) -> Archived:
        """Archive a closed segment; `hot` is a client of its loglet. Whatever is there already is used.

        Cancelled or killed, what is written stays, and the next call goes on there.

        Raises:
            InvalidSettingError: the segment is open, empty or an archive, or the URL is not one for archives; nothing was done.
            CorruptionError, MalformedError: what is there, or was written, is not the segment. Nobody uses it.
            UnavailableError: the segment or the place for files does not answer; may be called again.
            VirtualLogError: as `virtuallog_loglets.archive.files.Files`, and as the segment's loglet.
        """
        check_url(self.url)
        _check_segment(segment)
        files, source = self.provider.files(self.location(segment)), Source.of(hot, segment, self.environment.clock)
        crew = self.hire(self, segment, source, files)
        blob = await self._written(segment, crew, files)
        try:
            verified = await self._verified(blob, crew, source, files)
        except (CorruptionError, MalformedError) as error:
            if not (await is_damaged(manifests.decode_untrusted(blob), files) and await self.is_still_hot(segment)):
                raise
            log.warning("writing a damaged archive anew", archive=self.location(segment), error=str(error))
            blob = await self._written(segment, crew, files, unusable=blob)
            verified = await self._verified(blob, crew, source, files)
        _VERIFIED.reached()
        return self._archived(segment, blob, verified)

    async def _written(self, segment: Segment, crew: Crew, files: Files, unusable: bytes | None = None) -> bytes:
        assert segment.stop is not None
        return await Writing(
            crew=crew, files=files, cluster=self.cluster, start=segment.start, stop=segment.stop, writer=_program(),
            tell=lambda position: self.tell("writing", position), unusable=unusable,
            may_replace=partial(self.is_still_hot, segment),
        ).run()  # fmt: skip

    async def _verified(self, blob: bytes, crew: Crew, source: Source, files: Files) -> Verified:
        """What the archive says was trimmed must be so in the hot copy: nobody trims an archive that no chain names, and markers
        may be left from another life of the log."""
        manifest = manifests.decode_untrusted(blob)
        found = await Verifying(
            manifest=manifest, files=files, crew=crew, tell=lambda position: self.tell("verifying", position)
        ).run()
        if found.start > manifest.start and not await source.is_trimmed(manifest.start, found.start):
            raise CorruptionError(f"an archive says that all below {found.start} is trimmed, but the hot copy has it")
        return found

    def _archived(self, segment: Segment, blob: bytes, verified: Verified) -> Archived:
        assert segment.stop is not None
        now_ms = int(self.environment.clock.wall() * 1000)
        config = ArchiveConfig(
            url=self.url, directory=self._directory(segment), start=segment.start, stop=segment.stop,
            manifest=manifests.checksum(blob), cluster=self.cluster,
            hot=HotCopy.of(segment, now_ms + int(self.grace_seconds * 1000)),
        )  # fmt: skip
        return Archived(config=config, manifest=manifests.decode_untrusted(blob), verified=verified)

    def _directory(self, segment: Segment) -> str:
        assert segment.stop is not None
        return directory_of(self.cluster, segment.start, segment.stop)


async def verify_archive(
    provider: ArchiveProvider, config: ArchiveConfig, environment: Environment, tell: Tell = lambda what, position: None
) -> Verified:
    """Read an archive that is in the chain, and compare it with its hot copy as long as there is one.

    Raises: as `Verifying.run`, and as `ArchiveLoglet.manifest`.
    """
    loglet, hot = provider.open_archive(config, environment), config.hot
    opened = None if hot is None else provider.open_hot(hot, environment)
    source = None if hot is None or opened is None else Source(opened, config.start - hot.base, environment.clock)
    files = provider.files(config.location)
    return await Verifying(
        manifest=await loglet.manifest(), files=files, crew=OneByOne(source, files),
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
