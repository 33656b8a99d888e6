"""Content of one file on a simulated disk: as read, as durable, and the writes in between."""

from __future__ import annotations

from random import Random
from typing import Final

import attrs

SECTOR_BYTES: Final = 512
"""Bytes that a disk writes atomically."""
_TRIES: Final = 100
"""Tries to hit a byte that is not zero. A byte that is only allocated is never read, so its damage
would be useless."""


@attrs.define(eq=False)
class DiskWrite:
    """Bytes in the cache that no sync has covered."""

    offset: int
    data: bytes
    doomed: bool = False
    """True if its sync has failed: no later sync will write it."""

    def give_way(self, newer: DiskWrite) -> None:
        """Drop the parts that a newer write has durably overwritten: they cannot come back."""
        start, stop = max(self.offset, newer.offset), min(self.stop, newer.stop)
        if start < stop:
            changed = bytearray(self.data)
            changed[start - self.offset : stop - self.offset] = newer.data[start - newer.offset : stop - newer.offset]
            self.data = bytes(changed)

    @property
    def stop(self) -> int:
        return self.offset + len(self.data)


@attrs.define(eq=False)
class DiskContent:
    """One file as the disk holds it."""

    cached: bytearray
    durable: bytearray
    unsynced: list[DiskWrite] = attrs.Factory(list)
    last_synced: range = range(0)
    """Range of the newest durable write."""

    @classmethod
    def zeros(cls, size: int) -> DiskContent:
        return cls(bytearray(size), bytearray(size))

    def write(self, offset: int, data: bytes) -> DiskWrite:
        put(self.cached, offset, data)
        write = DiskWrite(offset, data)
        self.unsynced.append(write)
        return write

    def sync(self, last: DiskWrite) -> None:
        """Make `last`, and all before it, durable."""
        stop = self.unsynced.index(last) + 1
        self.last_synced = range(last.offset, last.stop)
        doomed: list[DiskWrite] = []
        for write in self.unsynced[:stop]:
            if write.doomed:
                doomed.append(write)
                continue
            put(self.durable, write.offset, write.data)
            for older in doomed:
                older.give_way(write)
        self.unsynced = doomed + self.unsynced[stop:]

    def truncate(self, size: int) -> None:
        del self.cached[size:]
        del self.durable[size:]

    def rot(self, at: int, flip: int) -> None:
        """Flip bits of a durable byte. Reads see it too: caches do not last."""
        self.durable[at] ^= flip
        self.cached[at] ^= flip

    def place_to_rot(self, random: Random) -> int | None:
        """Return a durable byte with damage that the owner can tell from a torn write; None if
        there is none.

        Not one of the newest durable write, unless that is the only one. In a log, a damaged last
        group looks like one that was being written when the power went, and that was never
        acknowledged.
        """
        size, spared = len(self.durable.rstrip(b"\0")), self.last_synced
        if len(spared) >= size:
            spared = range(0)
        below, above = range(min(spared.start, size)), range(spared.stop, size)
        if not len(below) + len(above):
            return None
        for _ in range(_TRIES):
            at = random.randrange(len(below) + len(above))
            at = at if at < len(below) else above[at - len(below)]
            if self.durable[at]:
                return at
        return None

    def lose_power(self, random: Random) -> list[str]:
        """Decide the fate of the unsynced writes; return the name of each one's fate."""
        writes, self.unsynced = self.unsynced, []
        random.shuffle(writes)
        fates = [_tear(self.durable, write, random) for write in writes]
        self.cached[:] = self.durable
        return fates


def put(image: bytearray, offset: int, data: bytes) -> None:
    if offset > len(image):
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def _tear(image: bytearray, write: DiskWrite, random: Random) -> str:
    """Put a random choice of the write's sectors on `image`; often all or none of them."""
    chance = random.choice((0.0, 0.2, 0.5, 0.8, 1.0))
    offset, data = write.offset, write.data
    first = offset - offset % SECTOR_BYTES
    sectors = range(first, offset + len(data), SECTOR_BYTES)
    kept = [sector for sector in sectors if random.random() < chance]
    for sector in kept:
        start, stop = max(sector, offset), min(sector + SECTOR_BYTES, offset + len(data))
        put(image, start, data[start - offset : stop - offset])
    return "unsynced kept" if len(kept) == len(sectors) else "unsynced torn" if kept else "unsynced lost"
