"""Tables: typed records by key, in the order in which they were added.

    AGENTS = RecordTable("agents", encode=..., decode=...)
    registry.get(AGENTS, "a1")          None if there is none
    registry.items(AGENTS)              in the order in which the keys were added
    registry.tagged(AGENTS, "drained")  number of records with a tag, without a search

A record of a table is stored under the key NAME 00 KEY. Durable format of its value: number u64, big-endian, then the
encoded record. The number gives the order; it stays while a record is replaced, and is new after a deletion.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import attrs

from virtuallog.contract.errors import CorruptionError, InvalidSettingError
from virtuallog_database.errors import BinaryTooOldError

RecordT = TypeVar("RecordT")


def untagged(_: Any) -> Collection[str]:
    """No tags."""
    return ()


KEY_BYTES_MAX: Final = 512
"""Longest key of a record, in bytes of UTF-8."""
_NUMBER: Final = struct.Struct(">Q")


@attrs.frozen(eq=False)
class RecordTable(Generic[RecordT]):
    """A kind of records. Two tables of one registrar have different names.

    A record must not be changed in place, as readers and operations share it: put another one.
    """

    name: str
    """Lower-case letters, digits and underscores."""
    encode: Callable[[RecordT], bytes]
    decode: Callable[[bytes], RecordT]
    """The inverse of `encode`. Raises an exception for other bytes. A registry holds what it returns, also of a record that was just put."""
    tags: Callable[[RecordT], Collection[str]] = untagged
    """Tags of a record, such as states that records may be in: their records are counted."""

    def __attrs_post_init__(self) -> None:
        if not self.name.isascii() or not self.name.replace("_", "a").isalnum() or not self.name.islower():
            raise InvalidSettingError("table", f"'{self.name}' is not of lower-case letters, digits and underscores")


@attrs.frozen
class Slot:
    """A record in its place in the order of a table."""

    number: int
    record: Any
    size: int = attrs.field(default=0, eq=False)
    """Bytes of its stored key and value; 0 as long as it is not stored."""
    tags: Collection[str] = attrs.field(default=(), eq=False)
    encoded: bytes = attrs.field(default=b"", eq=False, repr=False)
    """Its stored value; empty once it is stored."""

    @classmethod
    def of(cls, table: RecordTable[Any], number: int, record: Any) -> Slot:
        """A record that is to be stored.

        Raises:
            InvalidSettingError: the table cannot write the record, or not read back what it writes.
        """
        try:
            encoded = table.encode(record)
            read = table.decode(encoded)
        except Exception as error:
            what = f"the table '{table.name}' cannot write and read back {repr(record)[:100]}: {error}"
            raise InvalidSettingError("record", what) from error
        return cls(number, read, tags=tuple(table.tags(read)), encoded=_NUMBER.pack(number) + encoded)


_Slots = dict[str, Slot]
"""Slots of one table by key, in order of their numbers."""


@attrs.define(eq=False)
class Registry:
    """All tables of a registrar, as of one version. For readers; only `Edit` changes them."""

    _slots: dict[str, _Slots] = attrs.field(factory=dict)
    _next_number: int = 1
    size: int = attrs.field(default=0, init=False)
    """Bytes of all stored keys and values."""
    _tagged: dict[tuple[str, str], int] = attrs.field(factory=dict, init=False)
    """Records by table and tag."""

    def get(self, table: RecordTable[RecordT], key: str) -> RecordT | None:
        """The record of a key; None if there is none."""
        slot = self.slot(table.name, key)
        return None if slot is None else slot.record

    def items(self, table: RecordTable[RecordT]) -> Iterator[tuple[str, RecordT]]:
        """All records with their keys, in the order in which they were added."""
        return ((key, slot.record) for key, slot in self._slots.get(table.name, {}).items())

    def count(self, table: RecordTable[Any]) -> int:
        """Number of records."""
        return len(self._slots.get(table.name, {}))

    def tagged(self, table: RecordTable[Any], tag: str) -> int:
        """Number of records with a tag."""
        return self._tagged.get((table.name, tag), 0)

    def copy(self) -> Registry:
        """Another registry with the same records, which the two share."""
        made = Registry({table: dict(slots) for table, slots in self._slots.items()}, self._next_number)
        made.size, made._tagged = self.size, self._tagged.copy()
        return made

    def slot(self, table: str, key: str) -> Slot | None:
        """A record with its number."""
        return self._slots.get(table, {}).get(key)

    def slots(self, table: str) -> Mapping[str, Slot]:
        """All records of a table with their numbers."""
        return self._slots.get(table, {})

    @property
    def next_number(self) -> int:
        """Number of the next record that is added."""
        return self._next_number

    def commit(self, changes: Mapping[tuple[str, str], Slot | None]) -> None:
        """Take the changes of a stored batch: new records go to the end of their tables."""
        added = list[tuple[str, str, Slot]]()
        for (table, key), slot in changes.items():
            slots = self._slots.setdefault(table, {})
            former = slots.get(key)
            self._count(table, former, -1)
            self._count(table, slot, 1)
            if slot is not None and former is not None and former.number == slot.number:
                slots[key] = slot
                continue
            slots.pop(key, None)
            if slot is not None:
                added.append((table, key, slot))
        for table, key, slot in sorted(added, key=lambda each: each[2].number):
            self._slots[table][key] = slot
            self._next_number = max(self._next_number, slot.number + 1)

    def _count(self, table: str, slot: Slot | None, sign: int) -> None:
        if slot is not None:
            self.size += sign * slot.size
            for tag in slot.tags:
                self._tagged[table, tag] = self._tagged.get((table, tag), 0) + sign

    @classmethod
    def of(cls, found: Iterable[tuple[str, str, Slot]]) -> Registry:
        """A registry of records with their tables and keys, in any order."""
        registry = cls()
        for table, key, slot in sorted(found, key=lambda each: each[2].number):
            registry._slots.setdefault(table, {})[key] = slot
            registry._count(table, slot, 1)
            registry._next_number = max(registry._next_number, slot.number + 1)
        return registry

    @classmethod
    def decode_untrusted(cls, records: Mapping[bytes, bytes], tables: Sequence[RecordTable[Any]]) -> Registry:
        """Decode stored records.

        Raises:
            CorruptionError: a record of none of these tables, or one that cannot be decoded.
            BinaryTooOldError: a registry of a later format.
        """
        by_name = {table.name: table for table in tables}
        return cls.of(decode_untrusted(key, value, by_name) for key, value in records.items())


def encode_key(table: str, key: str) -> bytes:
    """Stored key of a record.

    Raises:
        InvalidSettingError: the key is empty, or too long.
    """
    encoded = key.encode("utf-8", "surrogatepass")
    if not 0 < len(encoded) <= KEY_BYTES_MAX:
        raise InvalidSettingError("key", f"a key of a record has 1 to {KEY_BYTES_MAX} bytes, this one {len(encoded)}")
    return table.encode() + b"\0" + encoded


def split_key(stored: bytes) -> tuple[str, str]:
    """RecordTable and key of a stored key."""
    table, _, key = stored.partition(b"\0")
    return table.decode(errors="replace"), key.decode("utf-8", "surrogatepass")


def split_slot(value: bytes) -> tuple[int, bytes]:
    """Number and encoded record of a stored value. Raises CorruptionError: it is too short."""
    if len(value) < _NUMBER.size:
        raise CorruptionError(f"a record of {len(value)} bytes")
    return _NUMBER.unpack_from(value)[0], value[_NUMBER.size :]


def encode_slot(table: RecordTable[Any], slot: Slot) -> bytes:
    """Stored value of a record."""
    return _NUMBER.pack(slot.number) + table.encode(slot.record)


def decode_untrusted(key: bytes, value: bytes, tables: Mapping[str, RecordTable[Any]]) -> tuple[str, str, Slot]:
    """RecordTable, key and content of a stored record. Raises CorruptionError, as `Registry.decode_untrusted`."""
    name, _, _ = key.partition(b"\0")
    table = tables.get(name.decode(errors="replace"))
    if table is None:
        raise CorruptionError(f"a record {key[:40]!r} of none of the tables {', '.join(tables)}")
    number, encoded = split_slot(value)
    try:
        record = table.decode(encoded)
        return *split_key(key), Slot(number, record, len(key) + len(value), tuple(table.tags(record)))
    except BinaryTooOldError:
        raise
    except Exception as error:  # decoders are of users, and such bytes may make any of them fail
        raise CorruptionError(f"a record of the table '{table.name}' cannot be read: {error!r:.200}") from error
