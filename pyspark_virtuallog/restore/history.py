"""Copies a range of a log into an archive of another cluster: positions, sessions, times and gaps stay what they are.

A copy and no reference: the new cluster trims its history, and that deletes files.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import version

import attrs

from loglets.archive import manifest as manifests
from loglets.archive.config import ArchiveConfig, directory_of, join
from loglets.archive.crew import OneByOne
from loglets.archive.fsspec_files import FsspecFiles
from loglets.archive.manifest import checksum
from loglets.archive.source import Readable
from loglets.archive.verifying import Verified, Verifying
from loglets.archive.writing import Writing

Tell = Callable[[str, int], None]
"""Told what is being done, and up to where that is done."""


@attrs.frozen
class History:
    """An archive that is whole."""

    config: ArchiveConfig
    verified: Verified


async def copy_history(reading: Readable, url: str, cluster: bytes, start: int, stop: int, tell: Tell) -> History:
    """Make an archive of [start, stop) below `url`, and compare it with what it is a copy of. Killed anywhere, the next one takes
    what is there, and is whole.

    Raises:
        CorruptionError, MalformedError: the copy is not what it should be; nobody uses it.
        VirtualLogError: as the reading, and as `loglets.archive.files.Files`.
    """
    config = ArchiveConfig(
        url=url, directory=directory_of(cluster.hex(), start, stop), start=start, stop=stop,
        manifest="", cluster=cluster.hex(),
    )  # fmt: skip
    files = FsspecFiles(join(url, config.directory))
    crew = OneByOne(reading, files)
    blob = await Writing(
        crew=crew, files=files, cluster=config.cluster, start=start, stop=stop,
        writer=f"virtuallog {version('virtuallog')}", tell=partial(tell, "copying"),
    ).run()  # fmt: skip
    verified = await Verifying(
        manifest=manifests.decode_untrusted(blob), files=files, crew=crew, tell=partial(tell, "comparing")
    ).run()
    return History(attrs.evolve(config, manifest=checksum(blob)), verified)
