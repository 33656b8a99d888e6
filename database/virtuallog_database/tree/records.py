"""Records in the local store under the keys of `virtuallog_database.tree.keys`.

Durable format, version 1, little-endian; each record starts with its version. Equal states are
equal bytes on all replicas: state checksums and snapshots rely on it.

    counters    version u8 | zxid i64 | znodes, ephemerals, sessions, limits of quotas: u32 each | bytes of data u64
                version 2: | until when counts of quotas are paid, ms: i64
    znode       version u8 | kind u8 | has data u8 | czxid, mzxid, pzxid, ctime, mtime: i64 each | version, aversion: i32
                | children ever created, children: u32 | owner i64 | bytes of the ACL u32 | ACL |
                data
                version 2: ... bytes of the ACL u32 | bytes of data u32 | ACL | data
    data        data of a znode    ACL      ACL of a znode
    session     version u8 | generation u32 | timeout in ms u32 | touches u64 | password

Version 2 of the counters comes with the switch `bounds` (`bounds.py`), and never before it. From
then on an ACL or data of more than `APART_BYTES` has a separate record. The znode's record has
version 2 then, and only their lengths. So creating a child writes its parent's record, and not its
parent's data. Other znodes have version 1 as before. Records of the former version are read, and
converted when they are written.

The ACL of an open znode is left out. `owner` is a session, or a time to live in milliseconds. A
record is decoded at each look: that costs less than keeping decoded ones right through commit and
rollback. Exceptions are counters and sessions, which each command of a group reads and writes: see
`StoreTransaction.put_record`.
"""

from __future__ import annotations

import enum
import hmac
import struct
from typing import Final

import attrs

from virtuallog.contract.errors import CorruptionError
from virtuallog_database.tree.acl_codec import decode_acl, encode_acl
from virtuallog_database.tree.commands import OPEN_ACL, Acl
from virtuallog_database.tree.results import Stat

APART_BYTES: Final = 1024
"""Bytes above which an ACL, or data, has a separate record."""
ACL_APART: Final = 1
DATA_APART: Final = 2
_VERSION: Final = 1
_BOUNDED: Final = 2
_META: Final = struct.Struct("<BqIIIIQ")
_BOUNDED_META: Final = struct.Struct("<BqIIIIQq")
_ZNODE: Final = struct.Struct("<BBBqqqqqiiIIqI")
_DATA_BYTES: Final = struct.Struct("<I")
_SESSION: Final = struct.Struct("<BIIQ")


class ZnodeKind(enum.IntEnum):
    """Kinds of a znode; numbers of ZooKeeper's flags."""

    PERSISTENT = 0
    EPHEMERAL = 1
    CONTAINER = 4
    TTL = 5


@attrs.define
class Meta:
    """Counters of the whole tree."""

    zxid: int = 0
    """Zxid of the last command."""
    znodes: int = 0
    ephemerals: int = 0
    sessions: int = 0
    limits: int = 0
    """Number of znodes that limit a part of the tree; if 0, limits are not searched."""
    data_bytes: int = 0
    """Bytes of data of all znodes."""
    recounted_ms: int = 0
    """Time until which the counts of new quotas are paid, see `bounds.may_recount`."""
    is_bounded: bool = False
    """True if commands are bounded from here on, and records may be separate."""

    def copy(self) -> Meta:
        return Meta(
            self.zxid, self.znodes, self.ephemerals, self.sessions, self.limits, self.data_bytes, self.recounted_ms,
            self.is_bounded,
        )  # fmt: skip

    def encode(self) -> bytes:
        if self.is_bounded:
            return _BOUNDED_META.pack(
                _BOUNDED,
                self.zxid,
                self.znodes,
                self.ephemerals,
                self.sessions,
                self.limits,
                self.data_bytes,
                self.recounted_ms,
            )
        return _META.pack(
            _VERSION, self.zxid, self.znodes, self.ephemerals, self.sessions, self.limits, self.data_bytes
        )


@attrs.frozen
class SeparateRecord:
    """Placeholder for data, or for an ACL, in a separate record."""

    size: int

    def __len__(self) -> int:
        return self.size


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
    """Children ever created: the number of the next sequential child."""
    children: int = 0
    owner: int = 0
    """Session of an ephemeral; time to live of a TTL znode, in milliseconds."""
    acl: tuple[Acl, ...] | SeparateRecord = OPEN_ACL
    data: bytes | SeparateRecord | None = b""
    apart: int = 0
    """Flags `ACL_APART` and `DATA_APART`: the store has a separate record of its ACL or its data,
    before this znode is put."""
    key: bytes = attrs.field(default=b"", eq=False, repr=False)
    """Key of the record, once known: most znodes that are found are put again."""

    def encode(self) -> bytes:
        """Encode as one record, of version 1. Nothing of it may be separate."""
        acl = b"" if self.acl is OPEN_ACL else encode_acl(self.acl)  # type: ignore[arg-type]  # not apart
        data = self.data
        head = _ZNODE.pack(
            _VERSION, self.kind, data is not None, self.czxid, self.mzxid, self.pzxid, self.ctime, self.mtime,
            self.version, self.aversion, self.created, self.children, self.owner, len(acl),
        )  # fmt: skip
        return head + acl + data if data else head + acl  # type: ignore[operator]  # not apart

    def encode_apart(self) -> tuple[bytes, bytes | SeparateRecord | None, bytes | SeparateRecord | None]:
        """Records of the znode, its ACL and its data. None if there shall be no separate record;
        `SeparateRecord` if the present one stays."""
        acl = (
            self.acl if isinstance(self.acl, SeparateRecord) else b"" if self.acl is OPEN_ACL else encode_acl(self.acl)
        )
        data = self.data
        acl_apart = acl if len(acl) > APART_BYTES else None
        data_apart = data if data is not None and len(data) > APART_BYTES else None
        if acl_apart is None and data_apart is None:
            return self.encode(), None, None
        head = _ZNODE.pack(
            _BOUNDED, self.kind, data is not None, self.czxid, self.mzxid, self.pzxid, self.ctime, self.mtime,
            self.version, self.aversion, self.created, self.children, self.owner, len(acl),
        )  # fmt: skip
        parts = [head, _DATA_BYTES.pack(len(data or b""))]
        parts += [part for part in (acl, data) if isinstance(part, bytes) and len(part) <= APART_BYTES]
        return b"".join(parts), acl_apart, data_apart

    def stat(self) -> Stat:
        """Stat for clients: what belongs to containers and TTL znodes is not shown (ZooKeeper 3.8)."""
        return Stat(
            self.czxid, self.mzxid, self.ctime, self.mtime, self.version,
            (2 * self.created - self.children + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000, self.aversion,  # inlined `signed`
            self.owner if self.kind == 1 else 0, len(self.data or b""), self.children, self.pzxid,
        )  # fmt: skip


@attrs.define
class SessionRecord:
    """One session."""

    generation: int
    """Number of attachments so far."""
    timeout_ms: int
    touches: int
    """Number of touches so far: a command to expire the session names the number it is based on."""
    password: bytes

    def has_password(self, password: bytes) -> bool:
        """True if this is its password, which never changes. Takes the same time for every wrong
        one."""
        return hmac.compare_digest(self.password, password)

    def encode(self) -> bytes:
        return _SESSION.pack(_VERSION, self.generation, self.timeout_ms, self.touches) + self.password


def signed(number: int) -> int:
    """Wrap a number into 32 bits, as ZooKeeper's versions are."""
    return (number + 0x8000_0000 & 0xFFFF_FFFF) - 0x8000_0000


def decode_meta(blob: bytes) -> Meta:
    is_bounded = blob[:1] == b"\2"
    try:
        version, *fields = (_BOUNDED_META if is_bounded else _META).unpack(blob)
    except struct.error as error:
        raise CorruptionError("the counters of the tree are torn") from error
    if not is_bounded:
        _check(version)
    meta = Meta(*fields)
    meta.is_bounded = is_bounded
    return meta


def decode_znode(blob: bytes) -> Znode:
    """Decode a record; separate records are not read."""
    try:
        (version, kind, has_data, czxid, mzxid, pzxid, ctime, mtime, data_version, aversion, created, children, owner,
         acl_bytes) = _ZNODE.unpack_from(blob)  # fmt: skip
    except struct.error as error:
        raise CorruptionError("a znode is torn") from error
    if version != _VERSION:
        return _decode_apart(blob, version)
    at = _ZNODE.size + acl_bytes
    acl = decode_acl(blob[_ZNODE.size : at]) if acl_bytes else OPEN_ACL
    data = blob[at:] if has_data else None
    return Znode(
        kind, czxid, mzxid, pzxid, ctime, mtime, data_version, aversion, created, children, owner, acl, data
    )  # fmt: skip


def _decode_apart(blob: bytes, version: int) -> Znode:
    if version != _BOUNDED:
        _check(version)
    try:
        (_, kind, has_data, czxid, mzxid, pzxid, ctime, mtime, data_version, aversion, created, children, owner,
         acl_bytes) = _ZNODE.unpack_from(blob)  # fmt: skip
        (data_bytes,) = _DATA_BYTES.unpack_from(blob, _ZNODE.size)
    except struct.error as error:
        raise CorruptionError("a znode is torn") from error
    acl_at = _ZNODE.size + _DATA_BYTES.size
    data_at = acl_at + (acl_bytes if acl_bytes <= APART_BYTES else 0)
    acl: tuple[Acl, ...] | SeparateRecord = OPEN_ACL
    if acl_bytes:
        acl = decode_acl(blob[acl_at:data_at]) if acl_bytes <= APART_BYTES else SeparateRecord(acl_bytes)
    data: bytes | SeparateRecord | None = None
    if has_data:
        data = blob[data_at:] if data_bytes <= APART_BYTES else SeparateRecord(data_bytes)
    return Znode(
        kind, czxid, mzxid, pzxid, ctime, mtime, data_version, aversion, created, children, owner, acl, data,
        (ACL_APART if isinstance(acl, SeparateRecord) else 0) | (DATA_APART if isinstance(data, SeparateRecord) else 0),
    )  # fmt: skip


def data_bytes_of(blob: bytes) -> int:
    """Bytes of data of the znode in this record."""
    if blob[:1] == b"\2":
        found: int = _DATA_BYTES.unpack_from(blob, _ZNODE.size)[0]
        return found
    return len(decode_znode(blob).data or b"")


def decode_session(blob: bytes) -> SessionRecord:
    try:
        version, generation, timeout_ms, touches = _SESSION.unpack_from(blob)
    except struct.error as error:
        raise CorruptionError("a session is torn") from error
    _check(version)
    return SessionRecord(generation, timeout_ms, touches, blob[_SESSION.size :])


def _check(version: int) -> None:
    if version != _VERSION:
        raise CorruptionError(f"a record of the tree has version {version}, not {_VERSION}: a newer program wrote it")
