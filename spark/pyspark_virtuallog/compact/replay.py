"""Replay of the log into a store, which writes down the effects of each entry. One task for the
whole log: effects depend on all entries before.

A chunk is durable before the store moves past it: the store never has anything whose effects are
lost. So after a kill exactly what lies behind the store is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from pyspark_virtuallog.compact import chunks
from virtuallog.client.scan import scan
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.keys import CURSOR
from virtuallog_database.engines.core.state_digests import EVERYTHING
from virtuallog_database.ports import LocalStore
from virtuallog_database.replica.replay import AppliedEffects, Replay
from virtuallog_database.replica.write_buffer import WriteBuffer
from virtuallog_loglets.archive.drivers.files import Files

CHUNK_BYTES: Final = 16 << 20
"""Bytes of keys and values in a chunk: held in memory, some three times over; as much as one task
of Spark reads at a time."""
_PAIRS_AT_ONCE: Final = 1024


@attrs.define(eq=False)
class ChunkReplay:
    """Replay for one compaction.

    Args:
        log: the log to play.
        store: the store, with what was played so far.
        files: files of chunks.
        chunk_bytes: see `CHUNK_BYTES`.
    """

    log: VirtualLog
    store: LocalStore
    files: Files
    chunk_bytes: int = CHUNK_BYTES

    async def run(self, stop: LogPosition, tell: Callable[[int], None] = lambda position: None) -> None:
        """Play up to `stop`. On return the store stands there, durably, and all effects on the way
        are in chunks.

        Raises:
            SnapshotNeededError: the log has been trimmed at the cursor.
            CorruptionError: a part of it is lost.
            BinaryTooOldError: the database uses an engine that this program does not know.
            VirtualLogError: as `scan`, `Files`, and of the disk. Written chunks stay.
        """
        held = WriteBuffer(self.store)
        replay, pending = Replay(held), list[AppliedEffects]()
        start = replay.cursor
        async for piece in scan(self.log, start, stop):
            pending += replay.apply(piece)
            if held.size >= self.chunk_bytes:
                await self._save(held, start, replay.cursor, pending)
                start, pending = replay.cursor, []
                tell(start)
        if replay.cursor > start:
            await self._save(held, start, replay.cursor, pending)
            tell(replay.cursor)

    async def dump(self) -> None:
        """Write all pairs of the store as if the entry before its cursor had put them: for a store
        that did not come about by playing the log from its beginning."""
        stop = int.from_bytes(self.store.get(CURSOR) or b"", "big")
        part, (start, end) = 0, EVERYTHING
        changes: dict[bytes, bytes | None] = {}
        size = 0
        while pairs := self.store.scan((start, end), _PAIRS_AT_ONCE):
            changes.update(pairs)
            size += sum(len(key) + len(value) for key, value in pairs)
            start = pairs[-1][0] + b"\0"
            if size >= self.chunk_bytes:
                await self._write(stop, part, changes)
                part, size, changes = part + 1, 0, {}
        await self._write(stop, None, changes)

    async def _write(self, stop: int, part: int | None, changes: dict[bytes, bytes | None]) -> None:
        changes.pop(CURSOR, None)
        effects = AppliedEffects(LogPosition(stop - 1), 0, changes)
        await self.files.write(chunks.name_of(0, stop, part), chunks.encode([effects]))

    async def _save(self, held: WriteBuffer, start: int, stop: int, pending: list[AppliedEffects]) -> None:
        await self.files.write(chunks.name_of(start, stop), chunks.encode(pending))
        held.release()
        await held.flush()
