"""Removes what compactions leave behind: chunks that are folded, compactions that are too old, and what was never published.

    PLACE/compacting/CLUSTER/making-POSITION      empty: somebody writes, or has written, files of a compaction at this position

Before the first file of a compaction is written it is marked, since a place is not asked for directories. The files go once two newer
compactions are there, whether it was published or somebody was killed, or refused: whoever were still at it then would publish
one that nobody takes. The mark goes last.
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
    """Note that files of a compaction at this position may be there from now on; durable on return."""
    await files.write(f"making-{position:020d}", b"")


async def clean(place: CompactionStore, files: Files, cluster: bytes, position: LogPosition) -> None:
    """Remove what nobody needs once a compaction is published, and the log is held from there on. Killed, the next one goes on.

    Args:
        place: where compactions are.
        files: where chunks and marks are.
        cluster: whose.
        position: of the compaction that is published.
    """
    await remove_chunks(files, lambda chunk: chunk.stop <= position)
    await place.remove_old(cluster)
    kept = (await place.positions(cluster))[-KEPT:]
    for name in await files.list():
        match = _MARK.fullmatch(name)
        if match is not None and len(kept) == KEPT and int(match[1]) < kept[0]:
            await place.remove_files(cluster, int(match[1]))
            await files.delete(name)


async def remove_chunks(files: Files, which: Callable[[Chunk], bool]) -> None:
    """Remove some chunks; of each goes first what makes it one."""
    for chunk in chunks(await files.list()):
        if which(chunk):
            for name in reversed(chunk.files):
                await files.delete(name)
