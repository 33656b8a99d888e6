"""Copies a range of a log into an archive of another cluster: positions, sessions, times and gaps
stay the same.

It is a copy and not a reference: the new cluster trims its history, and that deletes files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import version

import attrs

from virtuallog_loglets.archive.config import ArchiveConfig, directory_of
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core.manifest import checksum
from virtuallog_loglets.archive.creation.archive_writer import ArchiveWriter
from virtuallog_loglets.archive.creation.executor import ArchiveExecutor
from virtuallog_loglets.archive.creation.verification import ArchiveVerifier, VerificationReport
from virtuallog_loglets.archive.drivers.files import Files, OpenFiles
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles

Tell = Callable[[str, int], None]
"""Progress callback: the current step, and the position up to which it is done."""


@attrs.frozen
class RestoredHistory:
    """A complete archive."""

    config: ArchiveConfig
    verified: VerificationReport


async def copy_history(
    executor_factory: Callable[[str, Files], ArchiveExecutor],
    url: str,
    cluster: bytes,
    start: int,
    stop: int,
    tell: Tell,
    open_files: OpenFiles = FsspecFiles,
) -> RestoredHistory:
    """Make an archive of [start, stop) below `url`, and compare it with its source. Killed
    anywhere, the next call takes the existing files, and completes it.

    Args:
        executor_factory: makes the executor, given the archive's URL and its files.
        url: location of archives.
        cluster: the new cluster.
        start: first position.
        stop: one past the last.
        tell: progress callback.
        open_files: opens the directory of the archive.

    Raises:
        CorruptionError, MalformedError: the copy differs from its source; it is not used.
        VirtualLogError: as the reading, and as `virtuallog_loglets.archive.drivers.files.Files`.
    """
    config = ArchiveConfig(
        url=url, directory=directory_of(cluster.hex(), start, stop), start=start, stop=stop,
        manifest="", cluster=cluster.hex(),
    )  # fmt: skip
    files = open_files(config.location)
    executor = executor_factory(config.location, files)
    blob = await ArchiveWriter(
        executor=executor, files=files, cluster=config.cluster, start=start, stop=stop,
        writer=f"virtuallog {version('virtuallog')}", tell=partial(tell, "copying"),
    ).run()  # fmt: skip
    verified = await ArchiveVerifier(
        manifest=manifests.decode_untrusted(blob), files=files, executor=executor, tell=partial(tell, "comparing")
    ).run()
    return RestoredHistory(attrs.evolve(config, manifest=checksum(blob)), verified)
