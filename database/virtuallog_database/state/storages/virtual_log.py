"""Storage in a database over the virtual log: variables beside the tree, in the same log, store, snapshots and backups.

A value of up to CHUNK_BYTES travels in one command. A larger one is staged in pieces, under keys with its new version; then
one small command compares, refers to the pieces, and deletes those of the former version. A write that ends halfway leaves
pieces that nothing refers to; the next write of the name deletes them.

    v               a value, if it is small
    p VERSION 0001  a piece of a larger one; `v` is missing then
    r KEY           a record (`RecordStorage`)

Reads are linearizable: `prepare_read`, a read of the local store, `confirm`. SessionOrderEngine settles most lost replies,
so UnavailableError is rare here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

import attrs
import trio

from virtuallog.contract.errors import StorageError, TooLargeError, UnavailableError
from virtuallog_database.client.database_handle import DatabaseHandle
from virtuallog_database.replica.database import Database
from virtuallog_database.state.core.record_changes import (
    RecordChanges,
    StoredUpdate,
    VersionedRecords,
    pack,
    unpack_untrusted,
)
from virtuallog_database.state.core.variable_commands import Stage, Update
from virtuallog_database.state.core.variables import SCAN_COUNT, UpdateResult, Variables
from virtuallog_database.state.records import UpdateStream
from virtuallog_database.state.storage import check_size, may_set
from virtuallog_database.state.variable import StateEntry, encode_name

ResultT = TypeVar("ResultT")

CHUNK_BYTES: Final = 512 << 10
"""Bytes of one piece of a large value."""
VALUE_BYTES_MAX: Final = 64 << 20
CHANGES_BYTES_MAX: Final = 2 << 20
"""Bytes of keys and values in one `update`, and of keys in one command. A command takes 3 MiB."""
_VALUE: Final = b"v"
_PIECES: Final = b"p"
_RECORDS: Final = b"r"
_NAMES: Final = 1024
"""Names of one page."""


@attrs.define(eq=False)
class VirtualLogStorage:
    """Implements `StateStorage` and `RecordStorage` with a replica of a database. It follows the replica through its incarnations."""

    _handle: DatabaseHandle
    value_bytes_max: int = VALUE_BYTES_MAX
    changes_bytes_max: int = CHANGES_BYTES_MAX

    # -- values -------------------------------------------------------------------------------------------------------

    async def get(self, name: str) -> StateEntry | None:
        """See `StateStorage.get`. Records are returned in one value, as `records.pack` makes it."""
        encoded = encode_name(name)
        return await self._read(lambda variables: _entry(variables, encoded))

    async def set(self, name: str, entry: StateEntry, expected: bytes, *, may_create: bool) -> bool:
        encoded = encode_name(name)
        check_size(name, entry.value, self.value_bytes_max)
        present, keys = await self._read(lambda variables: _keys(variables, encoded))
        if present == entry.version:
            return True
        if not may_set(present, expected, may_create=may_create):
            # An earlier attempt may still be on its way, and find the name expunged. It is skipped behind a later command of this replica.
            await self._change(Stage(name=encoded, puts=()))
            return await self.version(name) == entry.version
        puts, pieces = [(_VALUE, entry.value)], list[bytes]()
        if len(entry.value) > CHUNK_BYTES:
            puts, pieces = [], await self._stage_value(encoded, entry)
        deletes = sorted(keys.difference(pieces, (key for key, _ in puts)))
        return await self._update(encoded, expected, entry.version, may_create, puts, deletes, pieces)

    async def expunge(self, name: str, expected: bytes) -> bool:
        """See `StateStorage.expunge`.

        Raises:
            TooLargeError: the keys of its records do not fit into one command: delete records first.
        """
        encoded = encode_name(name)
        present, keys = await self._read(lambda variables: _keys(variables, encoded))
        return present == expected and await self._update(encoded, expected, b"", False, (), sorted(keys), ())

    async def names(self) -> frozenset[str]:
        return await self._read(lambda variables: frozenset(name.decode() for name in _names(variables)))

    # -- records ------------------------------------------------------------------------------------------------------

    async def load(self, name: str) -> VersionedRecords | None:
        """See `RecordStorage.load`. A value that `records.pack` has made is taken for its records: `state copy` brings these."""
        return (await self._load(encode_name(name), lambda _: None))[0]

    async def update(self, name: str, expected: bytes, changes: RecordChanges, *, may_create: bool) -> bool:
        encoded = encode_name(name)
        puts = [(_RECORDS + key, value) for key, value in changes.puts.items()]
        deletes = [_RECORDS + key for key in sorted(changes.deletes)]
        size = sum(len(key) + len(value) for key, value in puts) + sum(map(len, deletes))
        if size > CHANGES_BYTES_MAX:
            raise TooLargeError("bytes of changes", size, CHANGES_BYTES_MAX)
        packed = await self._unpack(encoded, expected)
        return await self._update(encoded, expected, changes.version, may_create, puts, [*packed, *deletes], ())

    async def _unpack(self, name: bytes, expected: bytes) -> list[bytes]:
        """Stage the records of a packed value as records, before the update that deletes the value. Returns what to delete then: the value, and
        records that an earlier attempt has left. Free if there is no packed value."""
        with _reading():
            variables = self._handle.database.variables
            is_behind = (variables.version(name) or b"") != expected
        if is_behind:
            await self._read(lambda _: None)
        with _reading():
            if not _is_value(self._handle.database.variables, name, expected):
                return []
        loaded, keys = await self._load(name, lambda snapshot: _keys(snapshot, name)[1])
        if loaded is None or loaded.version != expected:
            return []  # the update is refused
        records = {_RECORDS + key: value for key, value in loaded.records.items()}
        rest = iter(records.items())
        while page := _page(rest):
            await self._change(Stage(name=name, puts=page, expected=expected))
        return sorted(keys.difference(records))

    async def _load(self, name: bytes, look: Callable[[Variables], ResultT]) -> tuple[VersionedRecords | None, ResultT]:
        """All records of a name, and what else is looked for in the same snapshot."""
        database = self._handle.database
        snapshot = await self._read(lambda _: database.snapshot_variables())
        with _reading():
            return await _load(snapshot, name), look(snapshot)

    async def version(self, name: str) -> bytes | None:
        encoded = encode_name(name)
        return await self._read(lambda variables: variables.version(encoded))

    @contextmanager
    def watch(self, name: str) -> Iterator[UpdateStream]:
        """See `WatchesRecords.watch`. A new incarnation of the replica is a hole, and so is an update of a value."""
        watch = _Watch(encode_name(name))
        self._handle.enter(watch)
        try:
            yield watch.stream
        finally:
            self._handle.leave(watch)
            watch.end()

    # -- commands and reads -------------------------------------------------------------------------------------------

    async def _stage_value(self, name: bytes, entry: StateEntry) -> list[bytes]:
        keys = list[bytes]()
        for number, start in enumerate(range(0, len(entry.value), CHUNK_BYTES)):
            keys.append(_piece(entry.version, number))
            await self._change(Stage(name=name, puts=[(keys[-1], entry.value[start : start + CHUNK_BYTES])]))
        return keys

    async def _update(
        self, name: bytes, expected: bytes, version: bytes, may_create: bool, puts: Sequence[tuple[bytes, bytes]],
        deletes: Sequence[bytes], needs: Sequence[bytes],
    ) -> bool:  # fmt: skip
        if (size := sum(map(len, deletes))) > CHANGES_BYTES_MAX:
            raise TooLargeError("bytes of keys of records", size, CHANGES_BYTES_MAX)
        command = Update(
            name=name,
            expected=expected,
            version=version,
            may_create=may_create,
            puts=puts,
            deletes=deletes,
            needs=needs,
        )
        return (await self._change(command)).is_done

    async def _change(self, command: Update | Stage) -> UpdateResult:
        return await self._handle.database.change_variable(command)

    async def _read(self, look: Callable[[Variables], ResultT]) -> ResultT:
        """A linearizable read."""
        database = self._handle.database
        await database.prepare_read()
        with _reading():
            found = look(database.variables)
        await database.confirm()
        return found


@contextmanager
def _reading() -> Iterator[None]:
    """Raise UnavailableError where the replica has no state to read: another one is being installed."""
    try:
        yield
    except StorageError as error:
        raise UnavailableError(f"this replica has no state to read: {error}") from error


@attrs.define(eq=False)
class _Watch:
    """Follows a variable through the incarnations of a replica."""

    _name: bytes
    stream: UpdateStream = attrs.field(factory=UpdateStream, init=False)
    end: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    """Ends the present watch."""
    _has_begun: bool = attrs.field(default=False, init=False)

    def begin(self, database: Database) -> None:
        self.end()
        self.end = database.watch_variable(self._name, self._changed)
        if self._has_begun:
            self.stream.put(None)
        self._has_begun = True

    def _changed(self, update: Update) -> None:
        keys = [*update.deletes, *(key for key, _ in update.puts)]
        if any(key[:1] != _RECORDS for key in keys) or update.needs:
            self.stream.put(None)
            return
        puts = {key[1:]: value for key, value in update.puts}
        deletes = [key[1:] for key in update.deletes]
        self.stream.put(StoredUpdate(update.expected, update.version, puts, deletes))


def _entry(variables: Variables, name: bytes) -> StateEntry | None:
    version = variables.version(name)
    if version is None:
        return None
    value = _value(variables, name, version)
    return StateEntry(pack(_records(variables, name)) if value is None else value, version)


def _value(variables: Variables, name: bytes, version: bytes) -> bytes | None:
    """The value of a variable; None if it is one of records."""
    if (small := variables.record(name, _VALUE)) is not None:
        return small
    prefix = _PIECES + version
    pieces = [piece for _, piece in variables.records(name, (prefix, prefix + b"\xff" * 5))]
    return b"".join(pieces) if pieces else None


def _is_value(variables: Variables, name: bytes, version: bytes) -> bool:
    """True if a variable of this version is a value, and none of records."""
    return any(variables.record(name, key) is not None for key in (_VALUE, _piece(version, 0)))


def _piece(version: bytes, number: int) -> bytes:
    return _PIECES + version + number.to_bytes(4, "big")


def _keys(variables: Variables, name: bytes) -> tuple[bytes | None, set[bytes]]:
    return variables.version(name), {key for key, _ in variables.records(name)}


async def _load(snapshot: Variables, name: bytes) -> VersionedRecords | None:
    """All records of a variable, with a checkpoint now and then."""
    version = snapshot.version(name)
    if version is None:
        return None
    if (value := _value(snapshot, name, version)) is not None:
        return VersionedRecords(unpack_untrusted(name.decode(), value), version)
    records = dict[bytes, bytes]()
    for key, record in _records(snapshot, name):
        records[key] = record
        if len(records) % SCAN_COUNT == 0:
            await trio.lowlevel.checkpoint()
    return VersionedRecords(records, version)


def _records(variables: Variables, name: bytes) -> Iterator[tuple[bytes, bytes]]:
    return ((key[1:], value) for key, value in variables.records(name, (_RECORDS, b"s")))


def _names(variables: Variables) -> Iterator[bytes]:
    after = b""
    while page := variables.names(after, _NAMES):
        yield from page
        after = page[-1]


def _page(records: Iterator[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The next records, of about CHUNK_BYTES."""
    page, size = list[tuple[bytes, bytes]](), 0
    for key, value in records:
        page.append((key, value))
        size += len(key) + len(value)
        if size >= CHUNK_BYTES:
            break
    return page
