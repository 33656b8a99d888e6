"""Owners and the store of a registry as moves and checks see them, the operations, and the bounds of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from virtuallog_database.registrar.core.edit import Edit, NotPermittedError
from virtuallog_database.registrar.core.machine import MachineState
from virtuallog_database.registrar.core.ownership import KEY, OWNERSHIP
from virtuallog_database.registrar.core.tables import RecordTable, encode_key, split_key

Content: TypeAlias = frozenset[tuple[bytes, bytes]]
"""Records of the store, with their keys."""
ValueT = TypeVar("ValueT")

LETTERS: Final = "ABC"
"""Names of the places of owners. Nothing else that an exploration stores is in capitals, so a translation renames."""
REGISTRY: Final = "registry"
"""Name of the registry."""
SHARED: Final = "all"
"""Key that every `ensure` puts."""


def encode(count: int) -> bytes:
    """Stored value of an item."""
    return b"%d" % count


def decode(stored: bytes) -> int:
    """The inverse of `encode`."""
    return int(stored)


ITEMS: Final = RecordTable("items", encode, decode)
"""Items: a count by key, so that an operation that happens twice can be seen."""
OWNER_KEY: Final = encode_key(OWNERSHIP.name, KEY)
"""Stored key of the record that a fence writes."""


@attrs.frozen(kw_only=True)
class RegistrarBounds:
    """Limits of one configuration."""

    owners: int = 2
    """Registrars at a time."""
    fences: int = 2
    """Tries to fence of each registrar. One that would need another does not go on."""
    operations: tuple[str, ...] = ("add",)
    """Operations of each registrar, in order: kinds of `Ticket`."""
    replacements: int = 0
    """Registrars that crash, or have ended, and that a new one takes the place of."""
    aborts: bool = False
    """True if a registrar may end because a load or a store has no answer."""
    same_name: bool = False
    """True if all registrars have one name."""
    in_flight: int = 2


@attrs.frozen
class Ticket:
    """An operation of one registrar; also its caller."""

    owner: str
    number: int
    kind: str
    """`add`: puts an item. `alone`: the same, refused if there is one of another place. `ensure`: puts an item that all put alike."""

    def __str__(self) -> str:
        return f"{self.owner}-{self.number}"

    @property
    def key(self) -> str:
        """Key of its item."""
        return SHARED if self.kind == "ensure" else str(self)

    @property
    def stored_key(self) -> bytes:
        """The same, as it is stored."""
        return encode_key(ITEMS.name, self.key)

    def perform(self, edit: Edit) -> None:
        """Implements `Operation`."""
        if self.kind == "ensure":
            edit.put(ITEMS, SHARED, 1)
            return
        edit.put(ITEMS, self.key, (edit.get(ITEMS, self.key) or 0) + 1)  # before the refusal: it must leave no trace
        if self.kind == "alone" and any(key[0] != self.owner[0] for key, _ in edit.items(ITEMS)):
            raise NotPermittedError("another owner has an item")


@attrs.frozen
class OwnerView:
    """Part of a registrar that moves and checks look at."""

    owner: str
    state: MachineState
    version: bytes
    content: Content
    """Its copy of the registry, as it would be stored."""
    waiting: tuple[Ticket, ...]
    """Operations without an answer, in order."""
    offered: int
    """Operations so far."""
    incarnation: int
    call: str
    """`load` or `store`, if it waits for an answer to one."""
    fences: int
    """Tries to fence so far."""
    can_begin: bool
    is_deposed: bool


@attrs.frozen
class StoreView:
    """The store."""

    version: bytes
    """Empty if there is no registry."""
    content: Content


RegistrarView: TypeAlias = OwnerView | StoreView


@attrs.frozen
class StoredBatch:
    """One update of the store that took effect."""

    version: bytes
    content: Content
    """All records behind it."""
    is_fence: bool

    @property
    def writer(self) -> str:
        """Registrar that made it: a version begins with that name."""
        return self.version.partition(b".")[0].decode()

    def has(self, ticket: Ticket) -> bool:
        """True if the item of an operation is in it."""
        return any(key == ticket.stored_key for key, _ in self.content)


@attrs.frozen
class RegistrarHistory:
    """Past of a run, as far as states alone do not show it. It never goes back."""

    batches: tuple[StoredBatch, ...] = ()
    owner: str = ""
    """Registrar of the last fence; or the last that has recovered without one."""
    kept: frozenset[Ticket] = frozenset()
    """Operations that were answered as changed."""
    denied: frozenset[Ticket] = frozenset()
    """Operations whose answer says that they have not happened."""
    replacements: int = 0

    def content_of(self, version: bytes) -> Content | None:
        """The registry as of a version; None if no batch made it."""
        return next(
            (batch.content for batch in self.batches if batch.version == version), None if version else frozenset()
        )


def renamed(value: ValueT, table: Mapping[int, int]) -> ValueT:
    """The same value with other letters for the owners."""
    return _renamed(value, table)  # type: ignore[no-any-return]


def _renamed(value: Any, table: Mapping[int, int]) -> Any:
    if isinstance(value, str):
        return value.translate(table)
    if isinstance(value, bytes):
        return bytes(table.get(each, each) for each in value)
    if isinstance(value, tuple | frozenset):
        return type(value)(_renamed(each, table) for each in value)
    if isinstance(value, Mapping):
        return {_renamed(key, table): _renamed(each, table) for key, each in value.items()}
    if attrs.has(type(value)):
        fields = [field.name for field in attrs.fields(type(value))]
        return type(value)(*[_renamed(getattr(value, field), table) for field in fields])
    return value


def content_text(content: Content) -> str:
    """Records as text: whole, as two messages that differ must read so."""
    return ", ".join(_record_text(key, value) for key, value in sorted(content, key=lambda each: each[1][:8]))


def _record_text(key: bytes, value: bytes) -> str:
    number, told = int.from_bytes(value[:8], "big"), value[8:]
    if key == OWNER_KEY:
        ownership = OWNERSHIP.decode(told)
        return f"owner {ownership.owner} of epoch {ownership.epoch}"
    return f"{split_key(key)[1]} #{number} is {decode(told)}"
