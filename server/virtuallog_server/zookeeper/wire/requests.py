"""Requests of clients: bodies into commands and reads.

A write becomes the command of the tree (`virtuallog_database.tree.commands`), a read a class of its own. For any body a parser
returns a request or raises MalformedError. The tree judges the content of a command.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

import attrs

from virtuallog.contract.errors import MalformedError
from virtuallog_database.tree.commands import Acl, Check, Create, Delete, Mode, Multi, SetAcl, SetData
from virtuallog_database.tree.watches import WatchMode
from virtuallog_server.zookeeper.wire.jute import Reader
from virtuallog_server.zookeeper.wire.opcodes import ERROR_ENTRY, OpCode
from virtuallog_server.zookeeper.wire.quorum_config import QuorumChange

MULTI_OPERATIONS_MAX: Final = 1000
"""Most operations of one multi or multiRead. A multi is applied at a stretch on every server: below a quota 40 to 90 us each, and
others wait. A frame might hold eighty times as many.
"""


class Read(NamedTuple):
    """A read of one znode; with `watch`, it sets one."""

    path: str
    watch: bool


@attrs.frozen
class MultiRead:
    reads: tuple[tuple[OpCode, Read], ...]
    """The reads, each with GET_DATA or GET_CHILDREN."""


@attrs.frozen
class AddWatch:
    path: str
    mode: WatchMode


@attrs.frozen
class NamedWatches:
    """Watches of a path, in one of the two tables of watches or in both."""

    path: str
    child: bool
    data: bool
    mode: WatchMode | None
    """Mode of these watches. None if any will do."""


@attrs.frozen
class SetWatches:
    """The watches of a client that has reconnected, and the last change that it has seen."""

    relative_zxid: int
    data: list[str]
    exist: list[str]
    child: list[str]
    persistent: list[str]
    recursive: list[str]


@attrs.frozen
class Auth:
    scheme: str
    credential: bytes | None


@attrs.frozen
class Batch:
    """A multi, and the types of its parts: their replies differ."""

    multi: Multi
    opcodes: tuple[OpCode, ...]


Write: TypeAlias = Create | Delete | SetData | SetAcl
Part: TypeAlias = Create | Delete | SetData | Check

_NO_MODE: Final = -1
"""Flags that this request cannot have. The tree refuses them, so a multi fails at the part that has them."""
_TTL_MODES: Final = frozenset((Mode.TTL, Mode.TTL_SEQUENTIAL))
_ADDED_MODES: Final = frozenset((WatchMode.PERSISTENT, WatchMode.PERSISTENT_RECURSIVE))
_NAMED_MODES: Final = {
    1: WatchMode.STANDARD, 2: WatchMode.STANDARD, 3: None, 4: WatchMode.PERSISTENT, 5: WatchMode.PERSISTENT_RECURSIVE,
}  # fmt: skip


def create(reader: Reader) -> Create:
    """Parse create, create2."""
    return Create(reader.string(), reader.buffer(), _acl(reader), reader.integer())


def create_container(reader: Reader) -> Create:
    created = create(reader)
    return created if created.mode == Mode.CONTAINER else attrs.evolve(created, mode=_NO_MODE)


def create_ttl(reader: Reader) -> Create:
    path, data, acl, flags, ttl_ms = reader.string(), reader.buffer(), _acl(reader), reader.integer(), reader.long()
    return Create(path, data, acl, flags if flags in _TTL_MODES else _NO_MODE, ttl_ms)


def delete(reader: Reader) -> Delete:
    return Delete(reader.string(), reader.integer())


def set_data(reader: Reader) -> SetData:
    return SetData(reader.string(), reader.buffer(), reader.integer())


def set_acl(reader: Reader) -> SetAcl:
    return SetAcl(reader.string(), _acl(reader), reader.integer())


def check(reader: Reader) -> Check:
    return Check(reader.string(), reader.integer())


def read(reader: Reader) -> Read:
    """Parse exists, getData, getChildren, getChildren2."""
    return Read(reader.string(), reader.boolean())


def path(reader: Reader) -> str:
    """Parse sync, getACL, getEphemerals, getAllChildrenNumber."""
    return reader.string()


def batch(reader: Reader) -> Batch:
    opcodes, parts = [], []
    while (opcode := _next_part(reader, _PARTS)) is not None:
        opcodes.append(opcode)
        parts.append(_PARTS[opcode](reader))
        if len(parts) > MULTI_OPERATIONS_MAX:
            raise MalformedError(f"more than {MULTI_OPERATIONS_MAX} operations in a multi")
    return Batch(Multi(tuple(parts)), tuple(opcodes))


def multi_read(reader: Reader) -> MultiRead:
    reads = []
    while (opcode := _next_part(reader, _READS)) is not None:
        reads.append((opcode, read(reader)))
        if len(reads) > MULTI_OPERATIONS_MAX:
            raise MalformedError(f"more than {MULTI_OPERATIONS_MAX} operations in a multi")
    return MultiRead(tuple(reads))


def add_watch(reader: Reader) -> AddWatch:
    path, mode = reader.string(), reader.integer()
    if mode not in _ADDED_MODES:
        raise MalformedError(f"watch mode {mode}")
    return AddWatch(path, WatchMode(mode))


def named_watches(reader: Reader) -> NamedWatches:
    """Parse checkWatches, removeWatches. Types, as in ZooKeeper from 3.9 on: 1 stands for watches of reads of children, 2 for those of
    other reads, 3 for any, 4 for persistent and 5 for recursive ones."""
    path, kind = reader.string(), reader.integer()
    if kind not in _NAMED_MODES:
        raise MalformedError(f"type {kind} of watches")
    return NamedWatches(path, child=kind != 2, data=kind != 1, mode=_NAMED_MODES[kind])


def set_watches(reader: Reader) -> SetWatches:
    relative_zxid = reader.long()
    data, exist, child = (reader.vector(reader.string) for _ in range(3))
    return SetWatches(relative_zxid, data, exist, child, [], [])


def set_watches2(reader: Reader) -> SetWatches:
    return SetWatches(reader.long(), *(reader.vector(reader.string) for _ in range(5)))


def auth(reader: Reader) -> Auth:
    reader.integer()  # the type of the packet: there is one
    return Auth(reader.string(), reader.buffer())


def token(reader: Reader) -> bytes:
    return reader.buffer() or b""


def reconfig(reader: Reader) -> QuorumChange:
    joining, leaving, new_members = (reader.optional_string() for _ in range(3))
    return QuorumChange(joining, leaving, new_members, reader.long())


def _acl(reader: Reader) -> tuple[Acl, ...]:
    """Parse an ACL. The id of the scheme `auth` means nothing: kazoo sends null."""
    return tuple(reader.vector(lambda: Acl(reader.integer(), reader.string(), reader.optional_string() or "")))


def _next_part(reader: Reader, known: Mapping[OpCode, object]) -> OpCode | None:
    """The type of the next operation in a multi. None at the end. A type that a multi cannot have is malformed."""
    opcode, is_last, _ = reader.integer(), reader.boolean(), reader.integer()
    if is_last:
        if opcode != ERROR_ENTRY:
            raise MalformedError("a multi has no proper end")
        return None
    try:
        found = OpCode(opcode)
    except ValueError:
        raise MalformedError(f"operation {opcode} in a multi") from None
    if found not in known:
        raise MalformedError(f"{found.name} in a multi of others")
    return found


_PARTS: Final[Mapping[OpCode, Callable[[Reader], Part]]] = {
    OpCode.CREATE: create,
    OpCode.CREATE2: create,
    OpCode.CREATE_CONTAINER: create_container,
    OpCode.CREATE_TTL: create_ttl,
    OpCode.DELETE: delete,
    OpCode.SET_DATA: set_data,
    OpCode.CHECK: check,
}
_READS: Final = {OpCode.GET_DATA: read, OpCode.GET_CHILDREN: read}
