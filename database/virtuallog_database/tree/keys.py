"""Keys of the tree in the local store.

    m                           counters of the whole tree
    n PATH                      a znode
    a PATH, d PATH              its ACL, its data, where these stand apart
    c PARENT 00 NAME            it is a child of that one: the names of children without reading their data
    e SESSION PATH              it is an ephemeral of that session
    r PATH                      it may be reaped: a container, or a znode with a time to live
    s SESSION                   a session

Paths have no zero bytes, and a session is 8 bytes, big-endian. Keys that start with a zero byte are
the engines' own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from virtuallog.contract.ports import Span
from virtuallog_database.ports import StoreReader

META: Final = b"m"
SESSIONS: Final[Span] = (b"s", b"t")
EPHEMERALS: Final[Span] = (b"e", b"f")
REAPABLE: Final[Span] = (b"r", b"s")
SCAN_COUNT: Final = 512
"""Pairs of one scan: a directory of a million children is read in pieces."""
ZNODES_COUNT: Final = 64
"""Znodes of one scan, fewer: the former version put up to 1 MiB into a record."""

_SESSION: Final = struct.Struct(">q")


def znode(path: str) -> bytes:
    return b"n" + path.encode(
        "utf-8", "surrogatepass"
    )  # inlined `encoded`: this is called several times for each command


def acl(path: str) -> bytes:
    return b"a" + encoded(path)


def data(path: str) -> bytes:
    return b"d" + encoded(path)


def znodes_below(path: str) -> Span:
    """Span of all descendants."""
    prefix = b"n" + encoded(path if path == "/" else path + "/")
    return prefix + (b"\0" if path == "/" else b""), prefix[:-1] + b"0"


def child(parent: str, name: str) -> bytes:
    return encoded(f"c{parent}\0{name}")


def children(parent: str) -> Span:
    prefix = b"c" + encoded(parent)
    return prefix + b"\0", prefix + b"\1"


def ephemeral(session: int, path: str) -> bytes:
    return b"e" + _SESSION.pack(session) + encoded(path)


def ephemerals(session: int) -> Span:
    prefix = b"e" + _SESSION.pack(session)
    return prefix + b"/", prefix + b"0"


def reapable(path: str) -> bytes:
    return b"r" + encoded(path)


def session(session: int) -> bytes:
    return b"s" + _SESSION.pack(session)


def session_of(key: bytes) -> int:
    """Session in this key, which is that of a session or of an ephemeral."""
    found: int = _SESSION.unpack_from(key, 1)[0]
    return found


def encoded(path: str) -> bytes:
    """A path as bytes. A path with half a surrogate pair finds nothing: no such path can be
    created."""
    return path.encode("utf-8", "surrogatepass")


def decoded(path: bytes) -> str:
    return path.decode("utf-8", "surrogatepass")


def scan_all(reading: StoreReader, span: Span, count: int = SCAN_COUNT) -> Iterator[tuple[bytes, bytes]]:
    """Every pair, in pieces of `count`. The store must not be written in between."""
    start, stop = span
    while pairs := reading.scan((start, stop), count):
        yield from pairs
        if len(pairs) < count:
            return
        start = pairs[-1][0] + b"\0"
