"""The log: one appender task over a `Storage`, with group commit and callbacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs
import trio

from loglets.wal.record import Address, Record
from loglets.wal.settings import WalSettings
from virtuallog.errors import VirtualLogError
from virtuallog.ports import Storage

Appended: TypeAlias = Callable[[Sequence[Address] | VirtualLogError], None]
"""Called once with the addresses of the records, or with the error. Must not block and must not raise."""


@attrs.frozen(kw_only=True)
class WalStatistics:
    """The log at one moment. Counts begin at `open`."""

    segments: int
    bytes: int
    groups: int
    records: int
    syncs: int
    queued_bytes: int
    poisoned: bool
    full: bool


class WriteAheadLog:
    """A durable sequence of records, dropped from the front in whole segments."""

    @classmethod
    async def open(
        cls, storage: Storage, settings: WalSettings, replay: Callable[[Address, Record], None]
    ) -> WriteAheadLog:
        """Recover the log in `storage` (an empty one makes a new log): call `replay` for every record, in order.

        A torn tail, which no append was acknowledged for, is cut off. All that was replayed is durable on return.

        Raises:
            CorruptionError: stored bytes have changed, or a segment is missing. Stop using this copy.
            MalformedError: files of another version.
            StorageError: the disk failed.
        """
        raise NotImplementedError

    async def run(
        self, snapshot: Callable[[], Sequence[Record]], *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """The appender: takes everything queued, writes it, syncs once, calls back in order; until cancelled.

        `snapshot` is called between groups, when a new segment begins. At that moment every earlier append has been
        called back. What it returns is written first in the new segment, becomes durable together with the first
        group in it and is replayed like any other record, so that any prefix of segments can be dropped.

        After a cancellation nothing is called back any more: what was queued is unknown to its callers.

        Raises:
            StorageError: a write or a sync failed; every append has been, and will be, answered with it.
        """
        raise NotImplementedError

    def append(self, records: Sequence[Record], done: Appended, *, essential: bool = False) -> None:
        """Queue `records`, in this order and after everything queued before. Never blocks.

        `done` is called on the event loop: with the addresses once all of the records are durable, in the order of
        the appends; or with the error. A refusal (nothing was queued) is reported before `append` returns. A crash may
        keep any prefix of the records of an append that was not called back.

        Args:
            records: at least one; together at most `group_bytes_max`.
            done: told the outcome.
            essential: may use the headroom of a full disk (seals, trims, repairs).

        Errors given to `done`:
            StorageError: the log is poisoned; whether the records are in it is unknown.
            DiskFullError: no room and not essential. Nothing was written.
            OverloadedError: `queue_bytes_max` is exceeded. Nothing was queued.
            TooLargeError: over a limit. Nothing was queued.
            UnavailableError: `run` has ended. Nothing was queued.
        """
        raise NotImplementedError

    async def read(self, address: Address) -> Record:
        """The record at an address that `append` or `replay` gave.

        Raises:
            TrimmedError: its segment has been dropped; `first` is the lowest address that may still be read.
            BeyondTailError: nothing durable is there yet.
            CorruptionError: the bytes there are not a whole record.
            StorageError: the disk failed.
        """
        raise NotImplementedError

    def drop_before(self, address: Address) -> None:
        """Allow every segment that lies wholly below `address` to be deleted; the active one never is.

        Such segments are unreadable at once; their files go in the background, oldest first, while `run` runs.
        """
        raise NotImplementedError

    def statistics(self) -> WalStatistics:
        raise NotImplementedError
