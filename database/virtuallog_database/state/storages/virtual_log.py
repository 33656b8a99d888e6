"""Storage in a database over the virtual log: variables beside the tree, in the same log, store, snapshots and backups.

A value of up to CHUNK_BYTES travels in one command. A larger one is staged in pieces, under keys with its new version; then
one small command compares, refers to the pieces, and deletes those of the former version. A write that ends halfway leaves
pieces that nothing refers to; the next write of the name deletes them.

    c VERSION       a claim of the update that is about to make the name with this version
    p VERSION 0001  a piece of a larger value; `v` is missing then
    r KEY           a record (`RecordStorage`); nothing reads it where there is a value
    v               a value, if it is small

Removal of what is too much for one command:

* `expunge` removes the version, with all but records, in one step. The records go afterwards: nothing reads them without a
  version. If the program ends in between, the next writer of the name deletes them.
* A value in the place of records has versions in between, each with the whole value and less of the records. A version in
  between is made of the last one, so a repeated call goes on where the former one has ended.
* An update that makes a name puts a claim, and then looks for records that were left. It needs its claim, and a removal
  deletes all claims in its first step. So what another client leaves after the look does not come back.

Reads are linearizable: `prepare_read`, a read of the local store, `confirm`. SessionOrderEngine settles most lost replies,
so UnavailableError is rare here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import trio

from virtuallog.contract.errors import StorageError, TooLargeError, UnavailableError
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
from virtuallog_database.state.variable import VERSION_BYTES, StateEntry, encode_name

if TYPE_CHECKING:  # its package imports this module
    from virtuallog_database.client.database_handle import DatabaseHandle

ResultT = TypeVar("ResultT")

CHUNK_BYTES: Final = 512 << 10
"""Bytes of one piece of a large value."""
VALUE_BYTES_MAX: Final = 64 << 20
CHANGES_BYTES_MAX: Final = 2 << 20
"""Bytes of keys and values in one `update`, and of keys in one command. A command takes 3 MiB."""
ROUNDS_MAX: Final = 4
"""Rounds of one write. Each one more is due to another client, which has deleted what was staged."""
STEPS_MAX: Final = 64
"""Most versions in between of one write, each for CHANGES_BYTES_MAX of keys. A registry has not as many."""
_CLAIMS: Final = b"c"
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
        for _ in range(ROUNDS_MAX):
            present, keys = await self._read(lambda variables: _keys(variables, encoded))
            if present == entry.version:
                return True
            base = _base(present, expected, entry.version)
            if not may_set(present, base, may_create=may_create):
                # An earlier attempt may still be on its way, and find the name expunged. It is skipped behind a later command of this replica.
                await self._change(Stage(name=encoded, puts=()))
                return await self.version(name) == entry.version
            is_in_between = base != expected
            shed = await self._shed(encoded, base, entry, may_create, keys, CHANGES_BYTES_MAX)
            if shed is not None:
                if shed.expected != base:
                    may_create, is_in_between = False, True
                puts, pieces = await self._stage_value(encoded, entry)
                deletes = sorted(shed.keys.difference(pieces, (key for key, _ in puts)))
                if await self._update(encoded, shed.expected, entry.version, may_create, puts, deletes, pieces):
                    return True
            if is_in_between:
                return True  # the value was stored, and another client has replaced it
        raise _contended(name)

    async def expunge(self, name: str, expected: bytes) -> bool:
        encoded = encode_name(name)
        present, keys = await self._read(lambda variables: _keys(variables, encoded))
        if present is None:
            await self._sweep(encoded, keys)
        if present != expected:
            return False
        part, rest = _cut(keys, CHANGES_BYTES_MAX)
        if not await self._update(encoded, expected, b"", False, (), part, ()):
            return False
        await self._sweep(encoded, rest)
        return True

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
        for _ in range(ROUNDS_MAX):
            ground = await self._prepare(encoded, expected, changes.version, may_create)
            gone = [*ground.keys, *deletes]
            if await self._update(encoded, ground.expected, changes.version, may_create, puts, gone, ground.needs):
                return True
            if not ground.needs or await self.version(name) is not None:
                return False
        raise _contended(name)

    async def _prepare(self, name: bytes, expected: bytes, version: bytes, may_create: bool) -> _Ground:
        """Make the ground for an update of records. Free if the name has records of the expected version, and this replica is not behind."""
        with _reading():
            present = self._handle.database.variables.version(name)
        if present != expected:
            present = await self._read(lambda variables: variables.version(name))
        if present is None:
            return await self._claim(name, expected, version) if may_create else _Ground(expected)
        base = _base(present, expected, version)
        if base != present:
            return _Ground(expected)  # the update is refused, or done already
        with _reading():
            variables = self._handle.database.variables
            if not _is_value(variables, name, base):
                left = (key for key, _ in variables.records(name, (b"", _RECORDS)))
                return _Ground(base, frozenset(_cut(left, CHUNK_BYTES)[0]))
        return await self._unpack(name, base, version)

    async def _claim(self, name: bytes, expected: bytes, version: bytes) -> _Ground:
        """Claim a name without a version, and have the records that were left under it deleted."""
        claim = _CLAIMS + version
        await self._change(Stage(name=name, puts=[(claim, b"")]))
        present, keys = await self._read(lambda variables: _keys(variables, name))
        if present is not None:
            return _Ground(expected, frozenset(), (claim,))
        await self._sweep(name, keys.difference([claim]))
        return _Ground(expected, frozenset([claim]), (claim,))

    async def _unpack(self, name: bytes, expected: bytes, version: bytes) -> _Ground:
        """Stage the records of a packed value as records, before the update that deletes the value, and records that were left."""
        loaded, keys = await self._load(name, lambda snapshot: _keys(snapshot, name)[1])
        if loaded is None or loaded.version != expected:
            return _Ground(expected)  # the update is refused
        records = {_RECORDS + key: value for key, value in loaded.records.items()}
        entry, left = StateEntry(pack(loaded.records.items()), version), keys.difference(records)
        ground = await self._shed(name, expected, entry, False, left, CHUNK_BYTES)
        if ground is None:
            return _Ground(expected)
        rest = iter(records.items())
        while page := _page(rest):
            await self._change(Stage(name=name, puts=page, expected=ground.expected))
        return ground

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

    async def _shed(
        self, name: bytes, expected: bytes, entry: StateEntry, may_create: bool, keys: frozenset[bytes], limit: int
    ) -> _Ground | None:
        """Delete records until the keys of the rest have at most `limit` bytes, under versions in between that have the value of `entry`. None:
        another client has written.

        Raises:
            TooLargeError: they are too many.
        """
        versions = _between(entry.version)
        for version in versions[versions.index(expected) + 1 if expected in versions else 0 :]:
            if sum(map(len, keys)) <= limit:
                break
            part, rest = _cut(keys, CHANGES_BYTES_MAX)
            puts, pieces = await self._stage_value(name, StateEntry(entry.value, version))
            own = frozenset([*pieces, *(key for key, _ in puts)])
            deletes = [key for key in part if key not in own]
            if not await self._update(name, expected, version, may_create, puts, deletes, pieces):
                return None
            expected, may_create, keys = version, False, own.union(rest)
        return _Ground(expected, keys)

    async def _sweep(self, name: bytes, keys: Collection[bytes]) -> None:
        """Delete records of a name without a version. If another client makes the name meanwhile, it has deleted them."""
        rest: Collection[bytes] = keys
        while rest:
            part, rest = _cut(rest, CHUNK_BYTES)
            if not await self._update(name, b"", b"", True, (), part, ()):
                return

    async def _stage_value(self, name: bytes, entry: StateEntry) -> tuple[list[tuple[bytes, bytes]], list[bytes]]:
        """Stage the pieces of a value. Returns what its command puts, and the keys that it needs."""
        if len(entry.value) <= CHUNK_BYTES:
            return [(_VALUE, entry.value)], []
        keys = list[bytes]()
        for number, start in enumerate(range(0, len(entry.value), CHUNK_BYTES)):
            keys.append(_piece(entry.version, number))
            await self._change(Stage(name=name, puts=[(keys[-1], entry.value[start : start + CHUNK_BYTES])]))
        return [], keys

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


@attrs.frozen
class _Ground:
    """State of a name in front of a command, with the records to delete."""

    expected: bytes
    """Version that the name has."""
    keys: frozenset[bytes] = frozenset()
    """Keys that go with it."""
    needs: Sequence[bytes] = ()


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
        if not update.expected and not update.version:
            return  # what was left under a name without a version
        gone = [key for key in update.deletes if key[:1] != _CLAIMS]
        keys = [*gone, *(key for key, _ in update.puts)]
        if any(key[:1] != _RECORDS for key in keys) or any(key[:1] != _CLAIMS for key in update.needs):
            self.stream.put(None)
            return
        puts = {key[1:]: value for key, value in update.puts}
        deletes = [key[1:] for key in gone]
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


def _keys(variables: Variables, name: bytes) -> tuple[bytes | None, frozenset[bytes]]:
    return variables.version(name), frozenset(key for key, _ in variables.records(name))


def _cut(keys: Iterable[bytes], limit: int) -> tuple[list[bytes], list[bytes]]:
    """Keys of at most `limit` bytes, and the others. Records are the last ones: all else must go in the first step of a removal."""
    ordered, size = sorted(keys, key=lambda key: (key[:1] == _RECORDS, key)), 0
    for number, key in enumerate(ordered):
        size += len(key)
        if size > limit:
            return ordered[:number], ordered[number:]
    return ordered, []


def _between(version: bytes) -> list[bytes]:
    """Versions in between of the write that makes `version`, in order."""
    return [hashlib.blake2b(version + bytes([n]), digest_size=VERSION_BYTES).digest() for n in range(STEPS_MAX)]


def _base(present: bytes | None, expected: bytes, version: bytes) -> bytes:
    """The version that a write replaces: a version in between that an earlier attempt has made, or else the expected one."""
    return present if present not in (None, expected) and present in _between(version) else expected


def _contended(name: str) -> UnavailableError:
    return UnavailableError(f"other clients delete what is staged for '{name}' all the time: nothing was done")


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
