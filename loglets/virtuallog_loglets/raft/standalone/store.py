"""Identity of a store: the directory of one replica, drawn when it is formatted.

A store is known by a random number, and not by a name that an operator gives. A directory that was lost is a lost member:
what takes its place has another number, votes as another one, and answers to no call that was meant for the former one.
Otherwise a replica without memory could vote twice in a term.

The file is JSON with a checksum, and is written last: a directory is formatted once it is there.

    {"address": "127.0.0.1:5051", "crc32c": 1853427, "log": "log", "store": 4611686018427387904, "version": 1}
"""

from __future__ import annotations

import json
import random
from typing import Any, Final

import attrs
from crc32c import crc32c

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.ports import Storage
from virtuallog.contract.types import NodeId

STORE_ID_BITS: Final = 63
"""Bits of a store's number. Two of a million stores have the same one with a probability of one in ten million."""
DIRECTORY: Final = "identity"
"""Name of the storage with the file."""

_FILE: Final = "store"
_NEW: Final = "store.new"
_VERSION: Final = 1


@attrs.frozen(kw_only=True)
class StoreIdentity:
    """Identity of one store."""

    store: NodeId
    log: str
    """Name of its log."""
    address: str
    """host:port that it listens on unless the caller names another one."""

    def encode(self) -> bytes:
        fields: dict[str, Any] = {**attrs.asdict(self), "version": _VERSION}
        return _pack({**fields, "crc32c": crc32c(_pack(fields))})


def decode_untrusted(blob: bytes) -> StoreIdentity:
    """Decode an identity.

    Raises:
        MalformedError: not an identity, or one of a later version.
        CorruptionError: the checksum does not match.
    """
    try:
        fields = json.loads(blob)
        version, checksum = fields["version"], fields.pop("crc32c")
        store, name, address = fields["store"], fields["log"], fields["address"]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MalformedError(f"not the identity of a store of a Raft log: {blob[:60]!r}") from error
    if version != _VERSION:
        raise MalformedError(f"the store has format {version}; this program knows format {_VERSION}")
    if crc32c(_pack(fields)) != checksum:
        raise CorruptionError("the identity of the store does not match its checksum")
    if not isinstance(store, int) or not 0 < store < 1 << STORE_ID_BITS or not isinstance(name, str):
        raise MalformedError(f"not the identity of a store of a Raft log: {blob[:60]!r}")
    return StoreIdentity(store=NodeId(store), log=name, address=str(address))


def draw(source: random.Random) -> NodeId:
    """Draw the number of a new store."""
    return NodeId(source.randrange(1, 1 << STORE_ID_BITS))


async def read_identity(storage: Storage) -> StoreIdentity | None:
    """Identity of the store in a directory; None if it is not formatted.

    Raises:
        MalformedError, CorruptionError, StorageError: it cannot be used.
    """
    if _FILE not in await storage.names():
        return None
    file = await storage.open(_FILE)
    try:
        return decode_untrusted(await file.read(0, file.size))
    finally:
        await file.close()


async def write_identity(storage: Storage, identity: StoreIdentity) -> None:
    """Write the identity of a store, as a whole or not at all.

    Raises:
        DiskFullError, StorageError: it was not written.
    """
    blob = identity.encode()
    await storage.remove(_NEW)
    file = await storage.create(_NEW, len(blob))
    try:
        await file.write_synced(0, [blob])
    finally:
        await file.close()
    await storage.rename(_NEW, _FILE)


def _pack(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True).encode()
