"""Trims: the trim point is moved first, then the slots below it are deleted in the background.

Each step of deleting moves `deleted` in the same transaction, at the version that was read. So two
deleting clients do not disturb each other, and a late copy does nothing. After a crash, the next
client that trims continues.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import RetryableError, SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import Environment
from virtuallog.contract.znodes import BadVersionError, Delete, Operation, RefusedError, Set, Znodes
from virtuallog.exactly_once.slot_offsets import INDEX_BITS
from virtuallog_loglets.zookeeper.core.layout import ZooKeeperLayout
from virtuallog_loglets.zookeeper.core.records import (
    MANIFEST_BYTES,
    TrimState,
    decode_manifest_untrusted,
    decode_trim_untrusted,
)
from virtuallog_loglets.zookeeper.drivers.base_znodes import DROPPED, BaseZnodes
from virtuallog_loglets.zookeeper.drivers.slots import ZooKeeperSlots

DELETES_MAX: Final = 128
"""Most slots deleted in one step: some milliseconds of ZooKeeper's time, in which appends wait."""
_ROUNDS: Final = 16
"""Most attempts to move the trim point. Another one comes only if another client has just trimmed."""
_TRIES: Final = 5
"""Most attempts to delete while ZooKeeper does not answer. Then the next trim continues."""
_PAUSE_SECONDS: Final = 0.5

_TRIMMED = CrashPoint("zookeeper: the trim point has moved, nothing is deleted")
_DELETED = CrashPoint("zookeeper: some of the trimmed slots are deleted", rare=True)


@attrs.define(eq=False)
class ZooKeeperTrimmer:
    """Trimmer of one client of a loglet."""

    _layout: ZooKeeperLayout
    _znodes: Znodes
    _base_znodes: BaseZnodes
    _slots: ZooKeeperSlots
    _environment: Environment
    _is_deleting: bool = attrs.field(default=False, init=False)

    async def trim(self, offset: int) -> int:
        """See `Loglet.prefix_trim`."""
        layout = self._layout
        for _ in range(_ROUNDS):
            # Each is read by itself, this one first: what was created in one transaction with it
            # exists by then, or is gone for good.
            seal, batches, found = await self._znodes.read([layout.base, layout.batches, layout.trim], fresh=True)
            if seal is None:
                self._base_znodes.missing()
                return 0
            if batches is None or found is None:
                raise SealedError(DROPPED, refused=True)
            self._base_znodes.recognise(batches.stat)
            known = decode_trim_untrusted(found.data)
            trim = max(known.trim, min(offset, batches.stat.version << INDEX_BITS))
            if trim > known.trim:
                try:
                    moved = attrs.evolve(known, trim=trim)
                    await self._znodes.multi([Set(layout.trim, moved.encode(), found.stat.version)])
                except BadVersionError:
                    continue
                _TRIMMED.reached()
            if known.deleted < trim >> INDEX_BITS:
                self._start_deleting()
            return trim
        raise UnavailableError(f"trim of loglet {layout.segment}: others trim all the time")

    def _start_deleting(self) -> None:
        if not self._is_deleting:
            self._is_deleting = True
            self._environment.nursery.start_soon(self._delete)

    async def _delete(self) -> None:
        tries = 0
        try:
            while tries < _TRIES:
                try:
                    if not await self._delete_some():
                        return
                    tries = 0
                    _DELETED.reached()
                except (RetryableError, RefusedError):  # or another client deletes: then the next look shows it
                    tries += 1
                    await self._environment.clock.sleep(_PAUSE_SECONDS)
        except VirtualLogError:
            pass  # lost or forbidden: readers and the next trim report it
        finally:
            self._is_deleting = False

    async def _delete_some(self) -> bool:
        """Delete one step's slots; False if there is nothing left to do."""
        (found,) = await self._znodes.read([self._layout.trim], fresh=True)
        if found is None:  # dropped
            return False
        trim = decode_trim_untrusted(found.data)
        stop = min(trim.deleted + DELETES_MAX, trim.trim >> INDEX_BITS)
        if stop <= trim.deleted:
            return False
        done = TrimState(trim=trim.trim, deleted=stop)
        deletes = await self._deletes(range(trim.deleted, stop))
        await self._znodes.multi([*deletes, Set(self._layout.trim, done.encode(), found.stat.version)])
        return True

    async def _deletes(self, numbers: range) -> list[Operation]:
        """Deletes for all that exists of these slots. Only slots of a manifest's size have to be
        read for that."""
        paths = [self._layout.slot(number) for number in numbers]
        stats = await self._znodes.stats(paths)
        there = [path for path, stat in zip(paths, stats, strict=True) if stat is not None]
        small = [path for path, stat in zip(paths, stats, strict=True) if stat and stat.data_bytes == MANIFEST_BYTES]
        chunks: list[str] = []
        for znode in await self._znodes.read(small) if small else []:
            manifest = None if znode is None else decode_manifest_untrusted(znode.data)
            chunks += [f"{self._layout.chunks}/{name}" for name in (manifest.names if manifest else [])]
        present = await self._znodes.stats(chunks) if chunks else []
        left = [path for path, stat in zip(chunks, present, strict=True) if stat is not None]
        return [Delete(path) for path in (*there, *left)]
