"""Copies a range of a log into an archive of another cluster: positions, sessions, times and gaps stay what they are.

A copy and no reference: the new cluster trims its history, and that deletes files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import version

import attrs

from virtuallog_loglets.archive import manifest as manifests
from virtuallog_loglets.archive.config import ArchiveConfig, directory_of
from virtuallog_loglets.archive.crew import Crew
from virtuallog_loglets.archive.files import Files
from virtuallog_loglets.archive.fsspec_files import FsspecFiles
from virtuallog_loglets.archive.manifest import checksum
from virtuallog_loglets.archive.verifying import Verified, Verifying
from virtuallog_loglets.archive.writing import Writing

Tell = Callable[[str, int], None]
"""Told what is being done, and up to where that is done."""


@attrs.frozen
class History:
    """An archive that is whole."""

    config: ArchiveConfig
    verified: Verified


async def copy_history(
    hire: Callable[[str, Files], Crew], url: str, cluster: bytes, start: int, stop: int, tell: Tell
) -> History:
    """Make an archive of [start, stop) below `url`, and compare it with what it is a copy of. Killed anywhere, the next one takes
    what is there, and is whole.

    Args:
        hire: who makes it, given its URL and its files.
        url: where archives are.
        cluster: the new one.
        start: first position.
        stop: one past the last.
        tell: of progress.

    Raises:
        CorruptionError, MalformedError: the copy is not what it should be; nobody uses it.
        VirtualLogError: as the reading, and as `virtuallog_loglets.archive.files.Files`.
    """
    config = ArchiveConfig(
        url=url, directory=directory_of(cluster.hex(), start, stop), start=start, stop=stop,
        manifest="", cluster=cluster.hex(),
    )  # fmt: skip
    files = FsspecFiles(config.location)
    crew = hire(config.location, files)
    blob = await Writing(
        crew=crew, files=files, cluster=config.cluster, start=start, stop=stop,
        writer=f"virtuallog {version('virtuallog')}", tell=partial(tell, "copying"),
    ).run()  # fmt: skip
    verified = await Verifying(
        manifest=manifests.decode_untrusted(blob), files=files, crew=crew, tell=partial(tell, "comparing")
    ).run()
    return History(attrs.evolve(config, manifest=checksum(blob)), verified)
