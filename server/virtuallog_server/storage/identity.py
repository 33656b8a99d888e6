"""The durable identity of a node: its data directory, its cluster, and the number of its starts.

`store_id` is random and made when a data directory is formatted. It names the parts that survive a restart: LogServers,
acceptors. `boot` goes up by one, durably, each time a process starts on the directory, from a random number on. It names the
parts that must not survive one: sequencers. Both stand in one small file, which is replaced as a whole: written new, synced, renamed.

    unformatted ---- every peer is new as well ----> formatting ---- every peer is at least that ----> formatted
    (no file)                                        (a store id, no vote)                              (votes)
        '------ the register expects it ----> joining ---- the register names its store id ----------------^

The middle states are what makes the rule for wiped disks hold (`virtuallog_server.node.formatter`, `virtuallog_server.node.join`).

File, little-endian; an unknown version is refused, never guessed at:

    magic "VLOGNODE" | version u16 | phase u8 | pad u8 | node u32 | boot u64 | store id 16 | cluster id 16 (or zeros)
    joined u64, from version 2 on
    crc32c u32 of all that

Version 1 has the phases 0, formatting, and 1, formatted. A directory that has joined a running cluster needs version 2; all
others are still written as version 1, which older programs read.
"""

from __future__ import annotations

import enum
import random
import struct
from typing import Final

import attrs
from crc32c import crc32c

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError, MalformedError, WrongRecipientError
from virtuallog.contract.ports import Storage
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import NodeId

FILE_NAME: Final = "identity"
_NEW_NAME: Final = "identity.new"
_MAGIC: Final = b"VLOGNODE"
FIRST_VERSION: Final = 1
VERSION: Final = 2
_RECORD: Final = struct.Struct("<8sHBxIQ16s16s")
_JOINED: Final = struct.Struct("<Q")
_CHECKSUM: Final = struct.Struct("<I")
_VERSION_FIELD: Final = struct.Struct("<8sH")
_NO_CLUSTER: Final = bytes(16)

_COUNTED = CrashPoint("node: a boot is counted, nothing of it has started")
_WRITTEN = CrashPoint("node: a new identity file is written, the old one stands")
_REPLACED = CrashPoint("node: a new identity file stands, nobody has acted on it")


class FormatPhase(enum.Enum):
    """Phases of a data directory (see the diagram above)."""

    UNFORMATTED = "unformatted"
    FORMATTING = "formatting"
    JOINING = "joining"
    FORMATTED = "formatted"


_NUMBERS: Final = {0: FormatPhase.FORMATTING, 1: FormatPhase.FORMATTED, 2: FormatPhase.JOINING}
"""Phase numbers in the file."""


@attrs.frozen(kw_only=True)
class IdentityRecord:
    """The content of the identity file."""

    node: NodeId
    phase: FormatPhase
    boot: int
    store_id: bytes
    cluster: ClusterId | None = None
    joined: int = 0
    """The version of the register in which it joined a running cluster. 0 if it was there from the beginning."""

    def encode(self) -> bytes:
        is_first = self.joined == 0 and self.phase is not FormatPhase.JOINING
        number = next(number for number, phase in _NUMBERS.items() if phase is self.phase)
        version = FIRST_VERSION if is_first else VERSION
        record = _RECORD.pack(_MAGIC, version, number, self.node, self.boot, self.store_id, self.cluster or _NO_CLUSTER)
        record += b"" if is_first else _JOINED.pack(self.joined)
        return record + _CHECKSUM.pack(crc32c(record))


def decode_untrusted(content: bytes) -> IdentityRecord:
    """Parse the content of an identity file.

    Raises:
        MalformedError: not an identity file, or one of a version that this program does not know.
        CorruptionError: it does not match its checksum.
    """
    if len(content) < _VERSION_FIELD.size or content[: len(_MAGIC)] != _MAGIC:
        raise MalformedError("the identity file is not one of a virtuallog node")
    _, version = _VERSION_FIELD.unpack_from(content)
    if version not in {FIRST_VERSION, VERSION}:
        raise MalformedError(f"a data directory of format {version}; this program reads formats up to {VERSION}")
    size = _RECORD.size + (0 if version == FIRST_VERSION else _JOINED.size)
    if len(content) != size + _CHECKSUM.size:
        raise CorruptionError(f"the identity file has {len(content)} bytes")
    record, checksum = content[:size], _CHECKSUM.unpack_from(content, size)[0]
    if crc32c(record) != checksum:
        raise CorruptionError("the identity file does not match its checksum")
    _, _, number, node, boot, store_id, cluster = _RECORD.unpack_from(record)
    if number not in _NUMBERS:
        raise MalformedError(f"a data directory in phase {number}, which this program does not know")
    joined = 0 if version == FIRST_VERSION else _JOINED.unpack_from(record, _RECORD.size)[0]
    known = None if cluster == _NO_CLUSTER else ClusterId(cluster)
    return IdentityRecord(
        node=NodeId(node), phase=_NUMBERS[number], boot=boot, store_id=store_id, cluster=known, joined=joined
    )


async def read_identity_record(storage: Storage) -> IdentityRecord | None:
    """Read the identity file of a directory. None if there is none.

    Raises:
        MalformedError, CorruptionError: the file cannot be trusted.
    """
    if FILE_NAME not in await storage.names():
        return None
    file = await storage.open(FILE_NAME)
    try:
        return decode_untrusted(await file.read(0, file.size))
    finally:
        await file.close()


class Identity:
    """The identity of a running node. Every change is durable on return, and visible only then."""

    def __init__(self, storage: Storage, node: NodeId, marker: IdentityRecord | None) -> None:
        self._storage = storage
        self._marker = marker
        self.node: Final = node
        self.fresh: Final = marker is None or marker.phase is not FormatPhase.FORMATTED
        """True if the directory was not formatted before this start. Then no peer has asked it for anything, and a missing store
        was never there.
        """

    @classmethod
    async def open(cls, storage: Storage, node: NodeId) -> Identity:
        """Read the identity file, if there is one, and count this start. Call it once per process.

        Raises:
            WrongRecipientError: the directory belongs to another node.
            MalformedError, CorruptionError: the file cannot be trusted.
        """
        marker = await read_identity_record(storage)
        if marker is None:
            return cls(storage, node, None)
        if marker.node != node:
            raise WrongRecipientError("data directory", f"one of node {node}", f"one of node {marker.node}")
        identity = cls(storage, node, marker)
        # Durable before it is used: else a sequencer with a forgotten boot number could be taken for its successor.
        await identity._save(attrs.evolve(marker, boot=marker.boot + 1))
        _COUNTED.reached()
        return identity

    @property
    def storage(self) -> Storage:
        """The directory of the identity file."""
        return self._storage

    @property
    def phase(self) -> FormatPhase:
        return FormatPhase.UNFORMATTED if self._marker is None else self._marker.phase

    @property
    def store_id(self) -> bytes:
        """Empty while unformatted."""
        return self._marker.store_id if self._marker else b""

    @property
    def boot(self) -> int:
        """0 while unformatted."""
        return self._marker.boot if self._marker else 0

    @property
    def cluster(self) -> ClusterId | None:
        """None until this node has learned a register."""
        return self._marker.cluster if self._marker else None

    @property
    def joined(self) -> int:
        """The version of the register in which this directory joined a running cluster. 0 if it did not."""
        return self._marker.joined if self._marker else 0

    async def start_formatting(self, source: random.Random) -> None:
        """Give the directory a store id, and the first of its boot numbers."""
        await self._make(FormatPhase.FORMATTING, source)

    async def start_joining(self, source: random.Random) -> None:
        """Give the directory a store id, to be put into the register of a running cluster, and the first of its boot numbers."""
        await self._make(FormatPhase.JOINING, source)

    async def _make(self, phase: FormatPhase, source: random.Random) -> None:
        assert self.phase is FormatPhase.UNFORMATTED
        store_id = source.randbytes(16)
        # Not 1: a directory that replaces a lost one, for the same node, would count through the same numbers again,
        # and a sequencer of the lost one would be taken for its own.
        first = 1 + int.from_bytes(store_id[:4], "little")
        await self._save(IdentityRecord(node=self.node, phase=phase, boot=first, store_id=store_id))

    async def finish_formatting(self) -> None:
        """Enter the phase in which this node may vote and store."""
        assert self._marker is not None
        assert self.phase is FormatPhase.FORMATTING
        await self._save(attrs.evolve(self._marker, phase=FormatPhase.FORMATTED))

    async def finish_joining(self, cluster: ClusterId, joined: int) -> None:
        """Enter that phase in a running cluster: its register names this store since version `joined`."""
        assert self._marker is not None
        assert self.phase is FormatPhase.JOINING
        await self._save(attrs.evolve(self._marker, phase=FormatPhase.FORMATTED, cluster=cluster, joined=joined))

    async def join(self, cluster: ClusterId) -> None:
        """Remember the cluster, if it is not known yet.

        Raises:
            WrongRecipientError: the directory belongs to another cluster.
        """
        assert self._marker is not None
        if self._marker.cluster is None:
            await self._save(attrs.evolve(self._marker, cluster=cluster))
        elif self._marker.cluster != cluster:
            raise WrongRecipientError("data directory", f"cluster {cluster.hex()}", self._marker.cluster.hex())

    async def move(self, cluster: ClusterId) -> None:
        """Move the directory to a cluster that continues from the register of the former one (`virtuallog_server.storage.register_import`)."""
        assert self._marker is not None
        await self._save(attrs.evolve(self._marker, cluster=cluster))

    async def _save(self, marker: IdentityRecord) -> None:
        """Replace the file in one step. If this is cancelled or crashes half-way, the old file stands."""
        content = marker.encode()
        await self._storage.remove(_NEW_NAME)
        file = await self._storage.create(_NEW_NAME, len(content))
        try:
            await file.write_synced(0, [content])
        finally:
            await file.close()
        _WRITTEN.reached()
        await self._storage.rename(_NEW_NAME, FILE_NAME)
        _REPLACED.reached()
        self._marker = marker
