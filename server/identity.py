"""Who a node is, durably: which data directory this is, of which node and cluster, and how often it was started.

`store_id` is random and made when a data directory is formatted. It names what survives a restart: LogServers,
acceptors. `boot` goes up by one, durably, each time a process starts on the directory, from a random number on. It names
what must not survive one: sequencers. Both stand in one small file, which is replaced as a whole: written new, synced, renamed.

    unformatted ---- every peer is new as well ----> formatting ---- every peer is at least that ----> formatted
    (no file)                                        (a store id, no vote)                              (votes)

The middle state is what makes the rule for wiped disks hold (`server.formatting`).

File format, version 1, little-endian; an unknown version is refused, never guessed at:

    magic "VLOGNODE" | version u16 | formatted u8 | pad u8 | node u32 | boot u64 | store id 16 | cluster id 16 (or zeros)
    crc32c u32 of all that
"""

from __future__ import annotations

import enum
import random
import struct
from typing import Final

import attrs
from crc32c import crc32c

from virtuallog.crash_points import CrashPoint
from virtuallog.errors import CorruptionError, MalformedError, WrongRecipientError
from virtuallog.ports import Storage
from virtuallog.register import ClusterId
from virtuallog.types import NodeId

FILE_NAME: Final = "identity"
_NEW_NAME: Final = "identity.new"
_MAGIC: Final = b"VLOGNODE"
_VERSION: Final = 1
_RECORD: Final = struct.Struct("<8sHBxIQ16s16s")
_CHECKSUM: Final = struct.Struct("<I")
_VERSION_FIELD: Final = struct.Struct("<8sH")
_NO_CLUSTER: Final = bytes(16)

_COUNTED = CrashPoint("node: a boot is counted, nothing of it has started")
_WRITTEN = CrashPoint("node: a new identity file is written, the old one stands")
_REPLACED = CrashPoint("node: a new identity file stands, nobody has acted on it")


class Phase(enum.Enum):
    """How far a data directory has come; see the picture above."""

    UNFORMATTED = "unformatted"
    FORMATTING = "formatting"
    FORMATTED = "formatted"


@attrs.frozen(kw_only=True)
class Marker:
    """The content of the identity file."""

    node: NodeId
    formatted: bool
    boot: int
    store_id: bytes
    cluster: ClusterId | None = None

    def encode(self) -> bytes:
        record = _RECORD.pack(
            _MAGIC, _VERSION, self.formatted, self.node, self.boot, self.store_id, self.cluster or _NO_CLUSTER
        )
        return record + _CHECKSUM.pack(crc32c(record))


def decode_untrusted(content: bytes) -> Marker:
    """The marker that `content` spells.

    Raises:
        MalformedError: not an identity file, or one of a version that this program does not know.
        CorruptionError: it does not match its checksum.
    """
    if len(content) < _VERSION_FIELD.size or content[: len(_MAGIC)] != _MAGIC:
        raise MalformedError("the identity file is not one of a virtuallog node")
    _, version = _VERSION_FIELD.unpack_from(content)
    if version != _VERSION:
        raise MalformedError(f"a data directory of format {version}; this program reads format {_VERSION}")
    if len(content) != _RECORD.size + _CHECKSUM.size:
        raise CorruptionError(f"the identity file has {len(content)} bytes")
    record, checksum = content[: _RECORD.size], _CHECKSUM.unpack_from(content, _RECORD.size)[0]
    if crc32c(record) != checksum:
        raise CorruptionError("the identity file does not match its checksum")
    _, _, formatted, node, boot, store_id, cluster = _RECORD.unpack(record)
    known = None if cluster == _NO_CLUSTER else ClusterId(cluster)
    return Marker(node=NodeId(node), formatted=bool(formatted), boot=boot, store_id=store_id, cluster=known)


class Identity:
    """The identity of a running node. Every change is durable when it returns, and visible only then."""

    def __init__(self, storage: Storage, node: NodeId, marker: Marker | None) -> None:
        self._storage = storage
        self._marker = marker
        self.node: Final = node

    @classmethod
    async def open(cls, storage: Storage, node: NodeId) -> Identity:
        """Read the identity file, if there is one, and count this start. To be called once per process.

        Raises:
            WrongRecipientError: the directory belongs to another node.
            MalformedError, CorruptionError: the file cannot be trusted.
        """
        names = await storage.names()
        if FILE_NAME not in names:
            return cls(storage, node, None)
        file = await storage.open(FILE_NAME)
        try:
            marker = decode_untrusted(await file.read(0, file.size))
        finally:
            await file.close()
        if marker.node != node:
            raise WrongRecipientError("data directory", f"one of node {node}", f"one of node {marker.node}")
        identity = cls(storage, node, marker)
        # Durable before it is used: a sequencer of a boot number that was forgotten could be taken for its successor.
        await identity._save(attrs.evolve(marker, boot=marker.boot + 1))
        _COUNTED.reached()
        return identity

    @property
    def phase(self) -> Phase:
        if self._marker is None:
            return Phase.UNFORMATTED
        return Phase.FORMATTED if self._marker.formatted else Phase.FORMATTING

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

    async def start_formatting(self, source: random.Random) -> None:
        """Give the directory a store id, and the first of its boot numbers."""
        assert self.phase is Phase.UNFORMATTED
        store_id = source.randbytes(16)
        # Not 1: a directory that replaces a lost one, for the same node, would count through the same numbers again,
        # and a sequencer of the lost one would be taken for its own.
        first = 1 + int.from_bytes(store_id[:4], "little")
        await self._save(Marker(node=self.node, formatted=False, boot=first, store_id=store_id))

    async def finish_formatting(self) -> None:
        """From now on this node may vote and store."""
        assert self._marker is not None
        await self._save(attrs.evolve(self._marker, formatted=True))

    async def join(self, cluster: ClusterId) -> None:
        """Remember the cluster; nothing happens if it is known already.

        Raises:
            WrongRecipientError: the directory belongs to another cluster.
        """
        assert self._marker is not None
        if self._marker.cluster is None:
            await self._save(attrs.evolve(self._marker, cluster=cluster))
        elif self._marker.cluster != cluster:
            raise WrongRecipientError("data directory", f"cluster {cluster.hex()}", self._marker.cluster.hex())

    async def _save(self, marker: Marker) -> None:
        """Replace the file in one step. Cancelled or crashed half-way, the old one stands."""
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
