"""The processes of an exploration: owners, which run the core of the registrar, and the store.

The store is that of a database over the virtual log: its commands, and the function that executes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, cast

import attrs

from virtuallog.contract.ports import Span
from virtuallog_database.engines.core.enabled_engines import STATE, key_of
from virtuallog_database.registrar.core.edit import _Untouched
from virtuallog_database.registrar.core.machine import (
    Committed,
    Effect,
    Load,
    Recovered,
    RegistrarMachine,
    Resolve,
    Store,
)
from virtuallog_database.registrar.core.ownership import OWNERSHIP
from virtuallog_database.registrar.core.tables import Registry, encode_key, encode_slot
from virtuallog_database.registrar.errors import DeposedError, RegistrarAbortedError
from virtuallog_database.state.core import variables
from virtuallog_database.state.core.record_changes import RecordChanges, VersionedRecords
from virtuallog_database.state.core.variable_commands import Update, encode, parse_untrusted
from virtuallog_database.state.core.variables import Variables
from virtuallog_database.transaction import StoreTransaction
from virtuallog_simulation.explorer.canonical_form import register_value
from virtuallog_simulation.explorer.local_states import Cell, Event, Sent
from virtuallog_simulation.explorer.messages import MessageInFlight
from virtuallog_simulation.explorer.registrar.state import (
    ITEMS,
    LETTERS,
    OWNER_KEY,
    REGISTRY,
    Content,
    OwnerView,
    StoredBatch,
    StoreView,
    Ticket,
    content_text,
)

LATE: Final = "late"
"""Mark in the call of a request that its sender has given up: it may still take effect, and is not answered."""

register_value(_Untouched, lambda _: "untouched")


@attrs.define(eq=False)
class StorePairs:
    """The part of a local store that commands on variables use."""

    pairs: dict[bytes, bytes] = attrs.field(factory=lambda: {key_of(STATE): b"\1" + bytes(8)})

    def get(self, key: bytes) -> bytes | None:
        return self.pairs.get(key)

    def scan(self, span: Span, count: int) -> list[tuple[bytes, bytes]]:
        return sorted((key, value) for key, value in self.pairs.items() if span[0] <= key < span[1])[:count]

    def write(self, changes: dict[bytes, bytes | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self.pairs.pop(key, None)
            else:
                self.pairs[key] = value


@attrs.define(eq=False)
class StoreCell(Cell):
    """The store."""

    node: int
    store: StorePairs = attrs.field(factory=StorePairs)

    @property
    def name(self) -> int:
        return self.node

    def take(self, event: Event) -> tuple[list[Sent], list[Any]]:
        message: MessageInFlight = event[1]
        told: list[Any] = []
        if isinstance(message.body, Load):
            outcome: Any = self._load()
            text = "nothing" if outcome is None else f"{outcome.version.decode()}: {content_text(_content(outcome))}"
        else:
            outcome = self._update(message.body, told)
            text = "done" if outcome else "refused"
        if LATE in message.call:
            return [], told
        return [Sent(message.sender, message.call, outcome, f"{text}{call_text(message.call)}")], told

    def _load(self) -> VersionedRecords | None:
        found, name = Variables(self.store), REGISTRY.encode()
        version = found.version(name)
        if version is None:
            return None
        return VersionedRecords({key[1:]: value for key, value in found.records(name, (b"r", b"s"))}, version)

    def _update(self, request: Store, told: list[Any]) -> bool:
        before, changes = self.store.get(b"vh" + REGISTRY.encode()), request.changes
        command = Update(
            name=REGISTRY.encode(), expected=request.expected, version=changes.version, may_create=request.may_create,
            puts=[(b"r" + key, value) for key, value in changes.puts.items()],
            deletes=[b"r" + key for key in sorted(changes.deletes)],
        )  # fmt: skip
        transaction = StoreTransaction(cast(Any, self.store))
        result = variables.apply(transaction, parse_untrusted(encode(command)))
        transaction.commit()
        if result.is_done and result.present != before:
            view = self.view()
            told.append(StoredBatch(view.version, view.content, OWNER_KEY in changes.puts))
        return result.is_done

    def view(self) -> StoreView:
        """Part that moves and checks look at."""
        found = self._load()
        return StoreView(b"", frozenset()) if found is None else StoreView(found.version, _content(found))


@attrs.define
class Versions:
    """Versions that one registrar draws: its name and a number, where a product draws 16 random bytes."""

    owner: str
    drawn: int = 0

    def draw(self) -> bytes:
        """The next version."""
        self.drawn += 1
        return f"{self.owner}.{self.drawn}".encode()


@attrs.define(eq=False)
class OwnerCell(Cell):
    """One place of registrars: each is replaced by the next one."""

    NO_STATE: ClassVar[frozenset[str]] = frozenset({"plan", "same_name"})

    node: int
    plan: tuple[str, ...]
    """Kinds of the operations of each registrar."""
    same_name: bool
    incarnation: int = 0
    machine: RegistrarMachine = attrs.field(init=False)
    versions: Versions = attrs.field(init=False)
    waiting: tuple[Ticket, ...] = ()
    offered: int = 0
    call: Load | Store | None = None
    is_repeated: bool = False
    """True if an attempt of the call had no answer."""

    def __attrs_post_init__(self) -> None:
        self._replace()

    @property
    def name(self) -> int:
        return self.node

    @property
    def owner(self) -> str:
        """Name of the present registrar."""
        return f"{LETTERS[self.node - 1]}{self.incarnation}"

    def _replace(self) -> None:
        self.incarnation += 1
        self.waiting, self.offered, self.call, self.is_repeated = (), 0, None, False
        self.versions = Versions(self.owner)
        owner = "owner" if self.same_name else self.owner
        self.machine = RegistrarMachine(REGISTRY, (ITEMS,), owner, self.versions.draw)

    # -- steps ----------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> tuple[list[Sent], list[Any]]:
        machine = self.machine
        doubtful: Sequence[Ticket] = ()
        match event:
            case ("recover",):
                effects = machine.recover()
            case ("offer",):
                self.offered += 1
                ticket = Ticket(self.owner, self.offered, self.plan[self.offered - 1])
                machine.offer(ticket, ticket)
                self.waiting = (*self.waiting, ticket)
                effects = []
            case ("begin",):
                effects = machine.begin()
            case ("again",):
                assert self.call is not None
                self.is_repeated = True
                effects = [self.call]
            case ("fail",):
                doubtful, self.call = self._stored_now(), None
                effects = machine.failed(RegistrarAbortedError(REGISTRY, "no answer"))
            case ("replace",):
                self._replace()
                effects = []
            case ("take", MessageInFlight() as message):
                effects, doubtful = self._receive(message)
            case _:
                raise TypeError(event)
        return self._perform(effects, doubtful)

    def _receive(self, message: MessageInFlight) -> tuple[list[Effect], Sequence[Ticket]]:
        call, is_repeated = self.call, self.is_repeated
        self.call, self.is_repeated = None, False
        if isinstance(call, Load):
            if message.body is None:
                return self.machine.copied(Registry(), b""), ()
            registry = Registry.decode_untrusted(message.body.records, (ITEMS, OWNERSHIP))
            return self.machine.copied(registry, message.body.version), ()
        doubtful = self._stored_now() if is_repeated else ()
        return self.machine.stored(is_done=message.body), doubtful

    def _stored_now(self) -> Sequence[Ticket]:
        """Operations of the batch that is being stored."""
        batch = self.machine._batch
        return () if batch is None else tuple(ticket for ticket, _ in batch.answers)

    def _perform(self, effects: Sequence[Effect], doubtful: Sequence[Ticket]) -> tuple[list[Sent], list[Any]]:
        sent: list[Sent] = []
        told: list[Any] = []
        for effect in effects:
            match effect:
                case Load():
                    sent.append(self._call(effect, "load"))
                case Store(expected, changes, _):
                    sent.append(
                        self._call(effect, f"store {_changes_text(changes)} over {expected.decode() or 'nothing'}")
                    )
                case Resolve(ticket, outcome):
                    if self.waiting[:1] != (ticket,):
                        raise AssertionError(f"{ticket} is answered, where {', '.join(map(str, self.waiting))} wait")
                    self.waiting = self.waiting[1:]
                    told.append(("answer", ticket, outcome, ticket in doubtful))
                case Recovered() | Committed():
                    told.append((type(effect).__name__.lower(),))
        return sent, told

    def _call(self, call: Load | Store, text: str) -> Sent:
        self.call = call
        asked = (self.incarnation, self.versions.drawn)
        return Sent(0, asked, call, f"{text}{call_text(asked)}")

    def view(self) -> OwnerView:
        """Part that moves and checks look at."""
        machine = self.machine
        content = (
            (encode_key(table.name, key), encode_slot(table, slot))
            for table in (ITEMS, OWNERSHIP)
            for key, slot in machine.registry.slots(table.name).items()
        )
        return OwnerView(
            self.owner, machine.state, machine.version, frozenset(content), self.waiting, self.offered,
            self.incarnation, "" if self.call is None else type(self.call).__name__.lower(), machine._fences,
            machine.can_begin,
            isinstance(machine.error, DeposedError),
        )  # fmt: skip


def call_text(call: tuple[Any, ...]) -> str:
    """Number of the registrar of its place that asks, and of the version that it has drawn last."""
    return f" #{call[0]}.{call[1]}{', late' if LATE in call else ''}"


def _content(found: VersionedRecords) -> Content:
    return frozenset(found.records.items())


def _changes_text(changes: RecordChanges) -> str:
    return f"{changes.version.decode()} with {content_text(frozenset(changes.puts.items()))}"
