"""Removal of what compactions leave behind: merged chunks, old compactions, and unpublished files.

    PLACE/compacting/CLUSTER/making-POSITION      empty: files of a compaction at this position are or were being written

Before the first file of a compaction is written it is marked, since a location cannot list
directories. The files are removed once two newer compactions exist, no matter if it was published,
or its writer was killed or refused. A writer that is still active then would publish a compaction
that no server takes. The mark is removed last. What has no mark is another program's, such as the state of a
backup at the same place, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from pyspark_virtuallog.compact.chunks import Chunk, chunks
from virtuallog.contract.types import LogPosition
from virtuallog_database.snapshots.compaction_store import KEPT, CompactionStore
from virtuallog_loglets.archive.drivers.files import Files

_MARK: Final = re.compile(r"making-(\d{20})")


async def mark(files: Files, position: LogPosition) -> None:
    """Mark that files of a compaction at this position may exist from now on; durable on return."""
    await files.write(f"making-{position:020d}", b"")


async def clean(place: CompactionStore, files: Files, cluster: bytes, position: LogPosition) -> None:
    """Remove what is unneeded once a compaction is published, and the log is held from there on.
    After a kill the next compaction continues.

    Args:
        place: location of compactions.
        files: files with chunks and marks.
        cluster: cluster of the compaction.
        position: position of the published compaction.
    """
    await remove_chunks(files, lambda chunk: chunk.stop <= position)
    marked = {int(match[1]): name for name in await files.list() if (match := _MARK.fullmatch(name)) is not None}
    published = [each for each in await place.positions(cluster) if each in marked]
    for old, name in marked.items():
        if len(published) >= KEPT and old < published[-KEPT]:
            await place.remove(cluster, old)
            await files.delete(name)


async def remove_chunks(files: Files, which: Callable[[Chunk], bool]) -> None:
    """Remove some chunks; of each, the file that completes it goes first."""
    for chunk in chunks(await files.list()):
        if which(chunk):
            for name in reversed(chunk.files):
                await files.delete(name)
