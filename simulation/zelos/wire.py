"""Requests and replies of ZooKeeper's protocol, as a client sees them.                                            Pure.

Each request has a row: its number, how its body is written, how the body of its reply is read. Replies of errors have no body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from database.kv.commands import Check, Create, Delete, Mode, SetData
from simulation.zelos.asked import (
    AddWatch,
    Answer,
    Close,
    Exists,
    GetChildren,
    GetData,
    Granted,
    Ping,
    Request,
    SetWatches,
    Sync,
    Transaction,
)
from simulation.zelos.jute import Reader, Writer

EVENT_XID: Final = -1
PING_XID: Final = -2
SET_WATCHES_XID: Final = -8
_ERROR: Final = -1
"""The type of an entry of a multi's reply that stands for an error; also of the one that ends it."""
_CREATE: Final = 1
_CREATE2: Final = 15
_CREATE_CONTAINER: Final = 19
_CREATE_TTL: Final = 21


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
}
_BY_NUMBER: Final = {
    **{form.number: form.read for form in _FORMS.values()},
    _CREATE: lambda reader: (reader.string(), None),
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
    return _FORMS[type(request)].number


def xid_of(request: Request, number: int) -> int:
    """What its reply is known by: its number on the connection, unless it is of a kind that has one for all."""
    match request:
        case Ping():
            return PING_XID
        case SetWatches():
            return SET_WATCHES_XID
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


def encode_connect(session: int, password: bytes, last_zxid: int, timeout_ms: int) -> bytes:
    """The first frame of a connection."""
    writer = Writer().int32(0).int64(last_zxid).int32(timeout_ms).int64(session).buffer(password).flag(False)
    return writer.frame()


def decode_connect(body: Reader) -> Granted:
    """The server's answer to it."""
    body.int32()
    timeout_ms = body.int32()
    return Granted(body.int64(), timeout_ms, body.buffer() or b"")
