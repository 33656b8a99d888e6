"""What stands in the local store under the keys of `database.kv.keys`.                                             Pure.

Durable format, version 1, little-endian; each record starts with its version. Equal states are equal bytes on all replicas: state
checksums and snapshots rely on it.

    counters    version u8 | zxid i64 | znodes, ephemerals, sessions, limits of quotas: u32 each | bytes of data u64
    znode       version u8 | kind u8 | has data u8 | czxid, mzxid, pzxid, ctime, mtime: i64 each | version, aversion: i32
                | children ever created, children: u32 | owner i64 | bytes of the ACL u32 | ACL | data
    session     version u8 | generation u32 | timeout in ms u32 | touches u64 | password

The ACL of a znode that is open to everybody is left out. `owner` is a session, or a time to live in milliseconds. A record is decoded
whenever it is looked at: that costs less than to keep decoded ones right through commit and rollback. But for counters and sessions,
which each command of a group looks at and writes again: see `Transaction.put_parsed`.
"""

from __future__ import annotations

import enum
import struct
from typing import Final

import attrs

from database.kv.acl_codec import decode_acl, encode_acl
from database.kv.commands import OPEN_ACL, Acl
from database.kv.results import Stat
from virtuallog.errors import CorruptionError

_VERSION: Final = 1
_META: Final = struct.Struct("<BqIIIIQ")
_ZNODE: Final = struct.Struct("<BBBqqqqqiiIIqI")
_SESSION: Final = struct.Struct("<BIIQ")


class Kind(enum.IntEnum):
    """Of a znode; numbers of ZooKeeper's flags."""

    PERSISTENT = 0
    EPHEMERAL = 1
    CONTAINER = 4
    TTL = 5


@attrs.define
class Meta:
    """Counters of the whole tree."""

    zxid: int = 0
    """Of the last command."""
    znodes: int = 0
    ephemerals: int = 0
    sessions: int = 0
    limits: int = 0
    """Znodes that limit a part of the tree: without any, nobody looks for them."""
    data_bytes: int = 0
    """Of all znodes."""

    def encode(self) -> bytes:
        return _META.pack(
            _VERSION, self.zxid, self.znodes, self.ephemerals, self.sessions, self.limits, self.data_bytes
        )


@attrs.define
class Znode:
    """One znode, without its name."""

    kind: int
    czxid: int
    mzxid: int
    pzxid: int
    ctime: int
    mtime: int
    version: int = 0
    aversion: int = 0
    created: int = 0
    """Children, ever: the next one that is sequential gets this number."""
    children: int = 0
    owner: int = 0
    """Of an ephemeral: its session. Of a TTL znode: its time to live, in milliseconds."""
    acl: tuple[Acl, ...] = OPEN_ACL
    data: bytes | None = b""

    def encode(self) -> bytes:
        acl = b"" if self.acl is OPEN_ACL else encode_acl(self.acl)
        data = self.data
        head = _ZNODE.pack(
            _VERSION, self.kind, data is not None, self.czxid, self.mzxid, self.pzxid, self.ctime, self.mtime,
            self.version, self.aversion, self.created, self.children, self.owner, len(acl),
        )  # fmt: skip
        return head + acl + data if data else head + acl

    def stat(self) -> Stat:
        """As clients see it: what belongs to containers and TTL znodes is not shown (ZooKeeper 3.8)."""
        return Stat(
            self.czxid, self.mzxid, self.ctime, self.mtime, self.version,
            signed(2 * self.created - self.children), self.aversion,
            self.owner if self.kind == 1 else 0, len(self.data or b""), self.children, self.pzxid,
        )  # fmt: skip


@attrs.define
class Session:
    """One session."""

    generation: int
    """How often it has been attached."""
    timeout_ms: int
    touches: int
    """How often it has been heard of: whoever wants to expire it says how many he knows of."""
    password: bytes

    def encode(self) -> bytes:
        return _SESSION.pack(_VERSION, self.generation, self.timeout_ms, self.touches) + self.password


def signed(number: int) -> int:
    """Wrapped into 32 bits, as ZooKeeper's versions are."""
    return (number + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def decode_meta(blob: bytes) -> Meta:
    try:
        version, *fields = _META.unpack(blob)
    except struct.error as error:
        raise CorruptionError("the counters of the tree are torn") from error
    _check(version)
    return Meta(*fields)


def decode_znode(blob: bytes) -> Znode:
    try:
        (version, kind, has_data, czxid, mzxid, pzxid, ctime, mtime, data_version, aversion, created, children, owner,
         acl_bytes) = _ZNODE.unpack_from(blob)  # fmt: skip
    except struct.error as error:
        raise CorruptionError("a znode is torn") from error
    if version != _VERSION:
        _check(version)
    at = _ZNODE.size + acl_bytes
    acl = decode_acl(blob[_ZNODE.size : at]) if acl_bytes else OPEN_ACL
    data = blob[at:] if has_data else None
    return Znode(
        kind, czxid, mzxid, pzxid, ctime, mtime, data_version, aversion, created, children, owner, acl, data
    )  # fmt: skip


def decode_session(blob: bytes) -> Session:
    try:
        version, generation, timeout_ms, touches = _SESSION.unpack_from(blob)
    except struct.error as error:
        raise CorruptionError("a session is torn") from error
    _check(version)
    return Session(generation, timeout_ms, touches, blob[_SESSION.size :])


def _check(version: int) -> None:
    if version != _VERSION:
        raise CorruptionError(f"a record of the tree has version {version}, not {_VERSION}: a newer program wrote it")
