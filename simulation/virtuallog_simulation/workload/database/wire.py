"""Requests and replies of ZooKeeper's protocol, as a client sees them.

Each request has a row: its number, how its body is written, how the body of its reply is read. Replies of errors have no body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from virtuallog_database.tree.commands import Check, Create, Delete, Mode, SetAcl, SetData
from virtuallog_simulation.workload.database.jute import Reader, Writer
from virtuallog_simulation.workload.database.requests import (
    AddWatch,
    Answer,
    Auth,
    CheckWatches,
    Close,
    CountAll,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    GetEphemerals,
    Granted,
    Login,
    MultiRead,
    Ping,
    Reconfig,
    RemoveWatches,
    Request,
    SetWatches,
    Sync,
    Transaction,
    WhoAmI,
)

EVENT_XID: Final = -1
PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8
_ERROR: Final = -1
"""Type of an error entry in a multi's reply; also of the entry that ends it."""
_CREATE: Final = 1
_CREATE2: Final = 15
_CREATE_CONTAINER: Final = 19
_CREATE_TTL: Final = 21
_GET_CHILDREN: Final = 8
_SET_WATCHES2: Final = 105


@attrs.frozen
class _Form:
    number: int
    write: Callable[[Writer, Any], object]
    read: Callable[[Reader], Any]


def _nothing(_: Any) -> None:
    return None


def _write_create(writer: Writer, create: Create) -> None:
    writer.string(create.path).buffer(create.data).acl(create.acl).int32(create.mode)
    if create.mode in {Mode.TTL, Mode.TTL_SEQUENTIAL}:
        writer.int64(create.ttl_ms)


def _write_versioned(writer: Writer, one: Delete | Check) -> None:
    writer.string(one.path).int32(one.version)


def _write_set_data(writer: Writer, change: SetData) -> None:
    writer.string(change.path).buffer(change.data).int32(change.version)


def _write_watched(writer: Writer, read: Exists | GetData | GetChildren) -> None:
    writer.string(read.path).flag(read.watch)


def _write_set_watches(writer: Writer, watches: SetWatches) -> None:
    writer.int64(watches.since).strings(watches.data).strings(watches.exist).strings(watches.child)
    if watches.persistent or watches.recursive:
        writer.strings(watches.persistent).strings(watches.recursive)


def _write_set_acl(writer: Writer, change: SetAcl) -> None:
    writer.string(change.path).acl(change.acl).int32(change.version)


def _write_path(writer: Writer, asked: GetAcl | CountAll) -> None:
    writer.string(asked.path)


def _write_named(writer: Writer, watches: CheckWatches | RemoveWatches) -> None:
    writer.string(watches.path).int32(watches.kind)


def _write_reconfig(writer: Writer, change: Reconfig) -> None:
    for text in (change.joining, change.leaving, None):
        writer.buffer(None if text is None else text.encode())
    writer.int64(change.from_version)


def _write_multi_read(writer: Writer, asked: MultiRead) -> None:
    for one in asked.reads:
        writer.int32(4 if isinstance(one, GetData) else _GET_CHILDREN).flag(False).int32(_ERROR)
        _write_watched(writer, one)
    writer.int32(_ERROR).flag(True).int32(_ERROR)


def _read_users(reader: Reader) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((reader.string(), reader.string()) for _ in range(reader.int32())))


def _write_multi(writer: Writer, transaction: Transaction) -> None:
    for operation in transaction.operations:
        writer.int32(number_of(operation)).flag(False).int32(_ERROR)
        _FORMS[type(operation)].write(writer, operation)
    writer.int32(_ERROR).flag(True).int32(_ERROR)


def _read_multi(reader: Reader) -> tuple[Answer, ...]:
    """One answer per operation; zxids stand in the header alone. Of what was created only the path is kept: servers tell the stat
    or not, as the kind of znode is."""
    answers: list[Answer] = []
    while True:
        number, done, error = reader.int32(), reader.flag(), reader.int32()
        if done:
            return tuple(answers)
        if number == _ERROR:
            answers.append(Answer(0, reader.int32()))
        else:
            value = _BY_NUMBER[number](reader)
            answers.append(Answer(0, error, (value[0], None) if number in _CREATES else value))


def _read_created(reader: Reader) -> tuple[str, Any]:
    return reader.string(), reader.stat()


_FORMS: Final[Mapping[type, _Form]] = {
    Create: _Form(_CREATE2, _write_create, _read_created),
    Delete: _Form(2, _write_versioned, _nothing),
    SetData: _Form(5, _write_set_data, Reader.stat),
    Check: _Form(13, _write_versioned, _nothing),
    Transaction: _Form(14, _write_multi, _read_multi),
    Close: _Form(-11, lambda writer, _: writer, _nothing),
    Exists: _Form(3, _write_watched, Reader.stat),
    GetData: _Form(4, _write_watched, lambda reader: (reader.buffer(), reader.stat())),
    GetChildren: _Form(12, _write_watched, lambda reader: (tuple(sorted(reader.strings())), reader.stat())),
    Sync: _Form(9, lambda writer, sync: writer.string(sync.path), _nothing),
    Ping: _Form(11, lambda writer, _: writer, _nothing),
    AddWatch: _Form(106, lambda writer, watch: writer.string(watch.path).int32(watch.recursive), _nothing),
    SetWatches: _Form(101, _write_set_watches, _nothing),
    SetAcl: _Form(7, _write_set_acl, Reader.stat),
    GetAcl: _Form(6, _write_path, lambda reader: (reader.acl(), reader.stat())),
    GetEphemerals: _Form(
        103, lambda writer, asked: writer.string(asked.prefix), lambda reader: tuple(sorted(reader.strings()))
    ),
    CountAll: _Form(104, _write_path, Reader.int32),
    MultiRead: _Form(22, _write_multi_read, _read_multi),
    CheckWatches: _Form(17, _write_named, _nothing),
    RemoveWatches: _Form(18, _write_named, _nothing),
    Auth: _Form(100, lambda writer, auth: writer.int32(0).string(auth.scheme).buffer(auth.credential), _nothing),
    Login: _Form(102, lambda writer, login: writer.buffer(login.token), Reader.buffer),
    WhoAmI: _Form(107, lambda writer, _: writer, _read_users),
    Reconfig: _Form(16, _write_reconfig, lambda reader: (reader.buffer(), reader.stat())),
}
_BY_NUMBER: Final = {
    **{form.number: form.read for form in _FORMS.values()},
    _CREATE: lambda reader: (reader.string(), None),
    _GET_CHILDREN: lambda reader: tuple(sorted(reader.strings())),
    _CREATE_CONTAINER: _read_created,
    _CREATE_TTL: _read_created,
}
_CREATES: Final = (_CREATE, _CREATE2, _CREATE_CONTAINER, _CREATE_TTL)


def number_of(request: Request | Check) -> int:
    """ZooKeeper's number of this request."""
    if isinstance(request, Create) and request.mode is Mode.CONTAINER:
        return _CREATE_CONTAINER
    if isinstance(request, Create) and request.mode in {Mode.TTL, Mode.TTL_SEQUENTIAL}:
        return _CREATE_TTL
    if isinstance(request, SetWatches) and (request.persistent or request.recursive):
        return _SET_WATCHES2
    return _FORMS[type(request)].number


def xid_of(request: Request, number: int) -> int:
    """Xid of a request's reply: its number on the connection, unless its kind has one fixed xid."""
    match request:
        case Ping():
            return PING_XID
        case SetWatches():
            return SET_WATCHES_XID
        case Auth():
            return AUTH_XID
        case _:
            return number


def encode(request: Request, xid: int) -> bytes:
    """A request as a frame."""
    writer = Writer().int32(xid).int32(number_of(request))
    _FORMS[type(request)].write(writer, request)
    return writer.frame()


def decode(request: Request, zxid: int, error: int, body: Reader) -> Answer:
    """The reply to a request, behind its header."""
    return Answer(zxid, error, None if error else _FORMS[type(request)].read(body))


def encode_connect(session: int, password: bytes, last_zxid: int, timeout_ms: int, *, read_only: bool = False) -> bytes:
    """The first frame of a connection."""
    writer = Writer().int32(0).int64(last_zxid).int32(timeout_ms).int64(session).buffer(password).flag(read_only)
    return writer.frame()


def decode_connect(body: Reader) -> Granted:
    """The server's answer to it."""
    body.int32()
    timeout_ms = body.int32()
    return Granted(body.int64(), timeout_ms, body.buffer() or b"", body.flag())
