"""Trim markers of an archive: files whose names give trim points, and whose number only grows.

    trimmed-00000000000000001500        everything below 1500 may go

There is no lock on an object store and no file is changed. A trim adds a marker, and the highest
one counts. Data files that lie wholly below it are deleted by every trim that sees them, as often
as it takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from virtuallog.contract.errors import VirtualLogError
from virtuallog.runtime import log
from virtuallog_loglets.archive.core.manifest import ArchiveManifest
from virtuallog_loglets.archive.drivers.files import Files

PREFIX: Final = "trimmed-"
_DIGITS: Final = 20
MARKERS_KEPT: Final = 16
"""Number of obsolete markers that stay. A slow listing may miss the newest, made meanwhile. But it
does not miss the one that was the highest when it began, unless so many more were made since."""


def marker(position: int) -> str:
    return f"{PREFIX}{position:0{_DIGITS}d}"


def marked_untrusted(names: Iterable[str]) -> list[int]:
    """Positions of the markers among these names, ascending. Other names are ignored."""
    tails = (name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX))
    return sorted(int(tail) for tail in tails if len(tail) == _DIGITS and tail.isascii() and tail.isdecimal())


def trim_point(manifest: ArchiveManifest, names: Iterable[str]) -> int:
    """First position of the archive that is not trimmed."""
    return min(max([manifest.trimmed, *marked_untrusted(names)]), manifest.stop)


async def trim(files: Files, manifest: ArchiveManifest, position: int) -> int:
    """Trim up to a position of the archive; returns the trim point. The next trim completes what a
    crash leaves undone.

    Raises:
        VirtualLogError: as `Files`; it may have been trimmed.
    """
    names = await files.list()
    if position > trim_point(manifest, names):
        # Before anything is deleted: it tells readers that what is missing was trimmed.
        await files.write(marker(position), b"")
        names = await files.list()
    effective = trim_point(manifest, names)
    spare = [file.name for file in manifest.files if file.stop <= effective and file.name in names]
    spare += [marker(place) for place in marked_untrusted(names)[:-MARKERS_KEPT]]
    for name in spare:
        try:
            await files.delete(name)
        except VirtualLogError as error:  # only room is at stake
            log.warning("trimmed, but a file of an archive stays for now", file=name, error=str(error))
            break
    return effective
