"""The directory of a database's store on a simulated disk (`virtuallog_database.ports.StoreDirectory`).

    disk = StoreDisk(random=...)                                lives as long as the machine's disk
    directory = SimulatedDirectory.of(disk, process, clock)     lives as long as the process

A crash, of the process alone as well, leaves the store where some moment between the last flush and now had left it: there is no
write-ahead log. Which moment is drawn. Checkpoints are there as a whole or not at all. Of files in staging that were written by
a life that is over, some lose their end.

Rot is found when it is met, as RocksDB and the snapshots have checksums: reading a rotten pair raises CorruptionError, and so does
installing a rotten file.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, TypeAlias

import attrs
from crc32c import crc32c

from virtuallog.contract.errors import (
    CorruptionError,
    DiskFullError,
    MalformedError,
    StorageError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.ports import Clock, Span
from virtuallog.contract.types import LogPosition
from virtuallog.testing.sim.disk_faults import DiskFaults
from virtuallog.testing.sim.process import Process
from virtuallog_database.engines.core.keys import CURSOR
from virtuallog_database.ports import CheckpointFile, StoreReader
from virtuallog_database.testing.memory_store import MemoryDisk, SortedPairs

Changes: TypeAlias = Mapping[bytes, bytes | None]
_PAIR: Final = struct.Struct("<II")
FILES: Final = 3
"""Files of a checkpoint, if it has as many pairs, so that one can be fetched by halves."""
RESTORED: Final = "store restored"
"""Counter of stores replaced by another replica's checkpoint."""
FLUSH_SECONDS: Final = 0.1
"""Longest on a good disk."""
_TORN: Final = 0.3
"""Share of the staged files that lose their end in a crash."""


def digest_of(key: bytes, value: bytes | None) -> int:
    """Digest of one pair; 0 if there is none. The digest of a store is the XOR of all of them,
    independent of their order."""
    if value is None:
        return 0
    return int.from_bytes(hashlib.blake2b(key + b"\0" + value, digest_size=8).digest(), "little")


@attrs.define(eq=False)
class StoreDisk(MemoryDisk):
    """Content that survives a crash, and the faults to inject. Their counters are those of
    `virtuallog.testing.sim.key_values`."""

    random: Random = attrs.field(factory=Random)
    faults: DiskFaults = attrs.field(factory=DiskFaults)
    fired: Counter[str] = attrs.field(factory=Counter)
    on_write: Callable[[StoreDisk, Changes], None] = lambda disk, changes: None
    """Shown the store after each write, and what was written."""
    on_open: Callable[[StoreDisk], None] = lambda disk: None
    """Shown the store when a life opens it."""
    checkpoints: dict[str, dict[str, bytes]] = attrs.field(factory=dict, init=False)
    staged: dict[str, bytearray] = attrs.field(factory=dict, init=False)
    rotten: set[bytes] = attrs.field(factory=set, init=False)
    """Keys with unreadable values."""
    digest: int = attrs.field(default=0, init=False)
    """Digest of the visible content."""

    def write(self, changes: Changes, dropped: Sequence[Span]) -> None:
        super().write(changes, dropped)
        for key, former in self._undo[-1].items():
            self.digest ^= digest_of(key, former) ^ digest_of(key, self.content.get(key))
        self.rotten.difference_update(changes)
        self.on_write(self, changes)

    @property
    def durable_cursor(self) -> LogPosition:
        """First position whose effects a crash may take; every write has the cursor in it."""
        value = self._undo[0].get(CURSOR) if self._undo else self.content.get(CURSOR)
        return LogPosition(int.from_bytes(value or b"", "big"))

    @property
    def former(self) -> SortedPairs:
        """Visible value before the last write; valid only within `on_write`."""
        pairs = dict(self.content.pairs)
        for key, value in self._undo[-1].items():
            if value is None:
                pairs.pop(key, None)
            else:
                pairs[key] = value
        return SortedPairs(pairs)

    def crash(self, chance: Random | None = None) -> None:
        """The process is dead, or the machine has lost its power."""
        before = dict(self.content.pairs) if self.unflushed else None
        super().crash(chance or self.random)
        if before is not None and before != self.content.pairs:
            self.fired["store unflushed lost"] += 1
        self.digest = self.full_digest()
        for content in self.staged.values():
            if content and self.random.random() < _TORN:
                del content[self.random.randrange(len(content)) :]

    def replace(self, pairs: Mapping[bytes, bytes]) -> None:
        """A staged store takes the place of this one, which must not be open."""
        super().wipe()
        self.content = SortedPairs(dict(pairs))
        self.staged.clear()
        self.checkpoints.clear()
        self.rotten.clear()
        self.digest = self.full_digest()

    def wipe(self) -> None:
        self.replace({})

    def rot(self) -> str | None:
        """Flip one bit somewhere; returns where, None if there is nothing to flip."""
        files = [(name, file) for name, found in sorted(self.checkpoints.items()) for file in sorted(found)]
        keys = sorted(self.content.pairs)
        if files and self.random.random() < 0.5:
            name, place = self.random.choice(files)
            content = bytearray(self.checkpoints[name][place])
            content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
            self.checkpoints[name][place] = bytes(content)
        elif keys:
            key = self.random.choice(keys)
            self.rotten.add(key)
            place = repr(key)
        else:
            return None
        self.fired["store bit flipped"] += 1
        return place

    def fires(self, probability: float, name: str) -> bool:
        """Without a draw when it cannot happen."""
        if probability > 0 and self.random.random() < probability:
            self.fired[name] += 1
            return True
        return False

    def duration_seconds(self) -> float:
        """Simulated duration of the next flush: it writes some files, and syncs each."""
        shortest, longest = self.faults.write_seconds
        return self.random.uniform(0.0, FLUSH_SECONDS) + FILES * self.random.uniform(shortest, longest)

    def full_digest(self) -> int:
        """Digest computed anew; `digest` must equal it."""
        digest = 0
        for key, value in self.content.pairs.items():
            digest ^= digest_of(key, value)
        return digest


@attrs.define(eq=False)
class _Life:
    """State shared by all that one life has opened: once one part has failed, all have."""

    disk: StoreDisk
    process: Process
    clock: Clock
    failure: VirtualLogError | None = None
    """Raised by every further use, as RocksDB's store does: the first to see it may only have read."""

    def check(self) -> None:
        self.process.check()
        if self.failure is not None:
            raise self.failure

    def check_reads(self, keys: Sequence[bytes] = ()) -> None:
        self.check()
        if self.disk.fires(self.disk.faults.read_error, "store read error"):
            self.fail(StorageError("the disk failed a read"))
        if self.disk.rotten and not self.disk.rotten.isdisjoint(keys):
            self.fail(CorruptionError("a block of the store does not match its checksum"))

    def check_writes(self, size: int) -> None:
        self.check()
        if not self.disk.faults.take_room(size):
            self.disk.fired["store full"] += 1
            raise DiskFullError("the disk is full")
        if self.disk.fires(self.disk.faults.write_error, "store write error"):
            self.fail(StorageError("the disk failed a write"))

    async def flush(self) -> None:
        """Everything written before the call is durable on return."""
        self.check()
        last = self.disk.writes
        await self.clock.sleep(self.disk.duration_seconds())
        self.check()
        if self.disk.fires(self.disk.faults.sync_error, "store sync error"):
            self.fail(StorageError("the disk failed a sync"))
        later = self.disk.writes - last
        self.disk.flushed(max(0, self.disk.unflushed - later))

    def fail(self, error: VirtualLogError) -> None:
        self.failure = error
        raise error


@attrs.frozen(eq=False)
class _Frozen:
    """`virtuallog_database.ports.StoreReader` of a moment."""

    _life: _Life
    _content: SortedPairs

    def get(self, key: bytes) -> bytes | None:
        self._life.check_reads([key])
        return self._content.get(key)

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        self._life.check_reads(self._content.keys(span)[:count])
        return self._content.scan(span, count)


@attrs.define(eq=False)
class SimulatedStore:
    """`virtuallog_database.ports.LocalStore` of one life."""

    _life: _Life

    def get(self, key: bytes) -> bytes | None:
        self._life.check_reads([key])
        return self._life.disk.content.get(key)

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        content = self._life.disk.content
        self._life.check_reads(content.keys(span)[:count])
        return content.scan(span, count)

    def write(self, changes: Changes, dropped: Sequence[Span] = ()) -> None:
        self._life.check_writes(sum(len(key) + len(value or b"") for key, value in changes.items()))
        self._life.disk.write(changes, dropped)

    @property
    def is_behind(self) -> bool:
        return self._life.disk.is_behind

    async def flush(self) -> None:
        await self._life.flush()

    def snapshot(self) -> StoreReader:
        self._life.check()
        return _Frozen(self._life, SortedPairs(dict(self._life.disk.content.pairs)))

    async def close(self) -> None:
        """Nothing is flushed by it; the next `open` shows all that was written."""
        self._life.process.check()


@attrs.define(eq=False)
class SimulatedDirectory:
    """`virtuallog_database.ports.StoreDirectory` of one life."""

    _life: _Life

    @classmethod
    def of(cls, disk: StoreDisk, process: Process, clock: Clock) -> SimulatedDirectory:
        return cls(_Life(disk, process, clock))

    @property
    def checkpoints(self) -> SimulatedCheckpoints:
        return SimulatedCheckpoints(self._life)

    @property
    def staging(self) -> SimulatedStaging:
        return SimulatedStaging(self._life)

    async def open(self) -> SimulatedStore:
        await self._life.clock.sleep(0)
        self._life.check_reads()
        self._life.disk.on_open(self._life.disk)
        return SimulatedStore(self._life)

    async def close(self) -> None:
        """There is nothing to let go of."""


@attrs.frozen
class SimulatedCheckpoints:
    """`virtuallog_database.ports.Checkpoints` of one life."""

    _life: _Life

    async def names(self) -> list[str]:
        self._life.check_reads()
        return sorted(self._life.disk.checkpoints)

    async def take(self, name: str) -> None:
        disk = self._life.disk
        self._life.check_writes(0)
        assert name not in disk.checkpoints
        pairs = dict(disk.content.pairs)
        self._life.check_reads(list(pairs))
        await self._life.flush()
        disk.checkpoints[name] = _files_of(pairs)

    async def files(self, name: str) -> list[CheckpointFile]:
        self._life.check_reads()
        found = self._find(name)
        return [CheckpointFile(file, len(found[file]), _noted(found[file])) for file in sorted(found)]

    async def read(self, name: str, file: str, offset: int, length: int) -> bytes:
        self._life.check_reads()
        found = self._find(name)
        if file not in found:
            raise UnavailableError(f"checkpoint {name} has no file {file}")
        return found[file][offset : offset + length]

    async def remove(self, name: str) -> None:
        self._life.check()
        self._life.disk.checkpoints.pop(name, None)

    def _find(self, name: str) -> dict[str, bytes]:
        found = self._life.disk.checkpoints.get(name)
        if found is None:
            raise UnavailableError(f"no checkpoint {name}")
        return found


@attrs.frozen
class SimulatedStaging:
    """`virtuallog_database.ports.StagingArea` of one life."""

    _life: _Life

    async def files(self) -> list[CheckpointFile]:
        self._life.check_reads()
        staged = self._life.disk.staged
        return [CheckpointFile(file, len(staged[file]), crc32c(bytes(staged[file]))) for file in sorted(staged)]

    async def write(self, file: str, offset: int, content: bytes) -> None:
        self._life.check_writes(len(content))
        if "/" in file or not file:
            raise MalformedError(f"no name of a file: {file!r}")
        staged = self._life.disk.staged.setdefault(file, bytearray())
        staged.extend(bytes(max(0, offset - len(staged))))
        staged[offset : offset + len(content)] = content

    async def remove(self, file: str) -> None:
        self._life.check()
        self._life.disk.staged.pop(file, None)

    async def clear(self) -> None:
        self._life.check()
        self._life.disk.staged.clear()

    async def install(self) -> None:
        pairs: dict[bytes, bytes] = {}
        for _, content in sorted(self._life.disk.staged.items()):
            pairs.update(_pairs_of(bytes(content)))
        await self._life.flush()
        self._life.disk.replace(pairs)
        self._life.disk.fired[RESTORED] += 1


def checkpoint_of(pairs: Mapping[bytes, bytes]) -> dict[str, tuple[bytes, int]]:
    """Files of a checkpoint of a store with these pairs, each with its checksum: a checkpoint that
    another replica may have made."""
    return {name: (content, crc32c(content)) for name, content in _files_of(pairs).items()}


def _files_of(pairs: Mapping[bytes, bytes]) -> dict[str, bytes]:
    """Each ends with a checksum, as the tables of RocksDB have some; empty ones are left out, but for the first."""
    keys, files = sorted(pairs), {}
    share = max(1, -(-len(keys) // FILES))
    for number in range(max(1, -(-len(keys) // share))):
        body = bytearray()
        for key in keys[number * share : (number + 1) * share]:
            body += _PAIR.pack(len(key), len(pairs[key])) + key + pairs[key]
        files[f"{number:06d}.sst"] = bytes(body) + crc32c(bytes(body)).to_bytes(4, "little")
    return files


def _noted(content: bytes) -> int:
    """Checksum of the file when it was taken: its end vouches for its body, whatever has rotted
    since."""
    body = content[:-4]
    return crc32c(content) if crc32c(body) == int.from_bytes(content[-4:], "little") else 0


def _pairs_of(content: bytes) -> dict[bytes, bytes]:
    body, pairs, at = content[:-4], {}, 0
    if len(content) < 4 or crc32c(body) != int.from_bytes(content[-4:], "little"):
        raise CorruptionError("a table of the staged store does not match its checksum")
    while at < len(body):
        key_length, value_length = _PAIR.unpack_from(body, at)
        at += _PAIR.size
        pairs[body[at : at + key_length]] = body[at + key_length : at + key_length + value_length]
        at += key_length + value_length
    return pairs
