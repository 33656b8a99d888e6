"""Raw writes to the store of every replica, through the log: for emergencies (SOSP'21, section 4).

A bug may leave something in the state that no command of the application can repair, or that makes
`apply` fail. Then an operator names keys to put and to delete. All replicas do so at the same
position, so they stay equal. The engine knows nothing of what the keys mean, and breaks the rule
that each engine writes its own state only. Only the cursor is out of reach.

Header: number of writes u32; for each: key length u32, key, 1 and value length u32 and value, or 0
to delete; little-endian. Afterwards every layer and the application reload their soft state.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import attrs

from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.ports import Done
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.keys import CURSOR
from virtuallog_database.engines.layers.layer import Layer
from virtuallog_database.transaction import StoreTransaction

_LENGTH: Final = struct.Struct("<I")


@attrs.define(eq=False)
class BrainDoctorEngine(Layer):
    """Applies raw writes of operators."""

    name: ClassVar[str] = "brain_doctor"

    reload: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    """Reloads all soft state from the store; set by the builder of the stack."""

    def operate(self, writes: Mapping[bytes, bytes | None], done: Done) -> None:
        """Put these pairs into the store of every replica, and delete where the value is None, in
        one step. `done` gets None once that is applied here, or an error, as of `propose`.

        Raises:
            InvalidSettingError: the cursor is among the keys; nothing was done.
        """
        if CURSOR in writes:
            raise InvalidSettingError(CURSOR.decode(errors="replace"), "the cursor is not to be written")
        self.below.propose(Entry(b"", {self.name: encode(writes)}), done)

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        header = entry.headers.get(self.name)
        if header is None:
            return self.apply_above(transaction, entry, position)
        for key, value in parse_untrusted(header).items():
            if value is None:
                transaction.delete(key)
            else:
                transaction.put(key, value)
        transaction.ends_here = (
            True  # soft state is reloaded, and the store must not have effects of later entries by then
        )
        return None

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        if self.name in entry.headers:
            self.reload()
        else:
            self.post_apply_above(entry, position, result)


def encode(writes: Mapping[bytes, bytes | None]) -> bytes:
    parts = [_LENGTH.pack(len(writes))]
    for key, value in writes.items():
        parts += [_LENGTH.pack(len(key)), key]
        parts += [b"\0"] if value is None else [b"\1", _LENGTH.pack(len(value)), value]
    return b"".join(parts)


def parse_untrusted(header: bytes) -> dict[bytes, bytes | None]:
    """Parse the writes of a command.

    Raises:
        MalformedError: no such command, or one that writes the cursor. All replicas agree on that.
    """
    reader = _Pieces(header)
    writes: dict[bytes, bytes | None] = {}
    for _ in range(reader.number()):
        key = reader.piece(reader.number())
        writes[key] = reader.piece(reader.number()) if reader.piece(1) != b"\0" else None
    if reader.at != len(header) or CURSOR in writes:
        raise MalformedError("these raw writes are not well formed")
    return writes


@attrs.define
class _Pieces:
    blob: bytes
    at: int = 0

    def number(self) -> int:
        (value,) = _LENGTH.unpack(self.piece(_LENGTH.size))
        return int(value)

    def piece(self, length: int) -> bytes:
        found = self.blob[self.at : self.at + length]
        if len(found) != length:
            raise MalformedError("these raw writes end too early")
        self.at += length
        return found
