"""Bugs of the write-ahead log beneath the LogServers."""

from __future__ import annotations

from typing import Final

from loglets.wal.log import WriteAheadLog
from tests.mutants.mutant import Mutant, mutant
from virtuallog.errors import StorageError


@mutant(
    WriteAheadLog._write_group,
    published="Redpanda 21.10, NATS JetStream 2.12.1",
    scenario="loaded",
    found_by=["acknowledged below the stop", "loglet tails move forward", "acknowledged is readable"],
)
async def acknowledged_before_the_sync(self: WriteAheadLog) -> None:
    """A group is called back, and counted as durable, before it is written."""
    assert self._segment is not None
    segment, chunks, self._opening = self._segment, self._opening, []
    offset = segment.synced
    group = self._take_group(chunks)
    segment.group_synced()
    for done, addresses in group:
        done(addresses)
    await self._write_synced(offset, chunks)
    if not offset:
        self._shelf.make_spare()


@mutant(
    WriteAheadLog._write_group,
    published="fsyncgate, PostgreSQL 2018",
    scenario="broken-disk",
    found_by=[
        "acknowledged below the stop",
        "loglet tails move forward",
        "acknowledged is readable",
        "no unexpected error",
    ],
)
async def failed_sync_taken_for_a_sync(self: WriteAheadLog) -> None:
    """A group whose sync failed is counted as durable: the next sync will return without an error."""
    assert self._segment is not None
    segment, chunks, self._opening = self._segment, self._opening, []
    offset, records = segment.synced, segment.records
    group = self._take_group(chunks)
    try:
        await self._write_synced(offset, chunks)
    except StorageError:
        self._syncs += 1
    if not offset:
        self._shelf.make_spare()
    segment.group_synced()
    self._groups += 1
    self._records += segment.records - records
    for done, addresses in group:
        done(addresses)


MUTANTS: Final[tuple[Mutant, ...]] = (acknowledged_before_the_sync, failed_sync_taken_for_a_sync)
