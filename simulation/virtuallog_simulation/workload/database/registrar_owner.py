"""A program that wants to own a registry: it holds a replica of the database, and stands by or owns in turn.

It does not care whether another one owns the registry: there is no election, so owners depose each other all the time, and a deposed one
that does not know it goes on. Each operation has a key of its own, so what is in the registry tells which have happened.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog_database.client import DatabaseHandle
from virtuallog_database.registrar.core.batch import OperationResult
from virtuallog_database.registrar.core.edit import Edit, NotPermittedError
from virtuallog_database.registrar.core.ownership import OWNERSHIP
from virtuallog_database.registrar.core.tables import RecordTable, Registry
from virtuallog_database.registrar.errors import DeposedError
from virtuallog_database.registrar.follower import Follower, open_follower
from virtuallog_database.registrar.registrar import Registrar, RegistrarSettings, open_registrar
from virtuallog_database.state.core.variable_commands import Stage, Update
from virtuallog_database.state.core.variables import UpdateResult
from virtuallog_database.state.storages.virtual_log import VirtualLogStorage

NAME: Final = "registry"
KEYS: Final = RecordTable[str]("keys", str.encode, bytes.decode)
"""Key of each operation that has happened, with the name of its owner."""
REMOVED: Final = RecordTable[str]("removed", str.encode, bytes.decode)
"""Keys that were removed."""
ACTS: Final = (1, 12)
"""Operations of one ownership."""
PAUSE_SECONDS: Final = 0.1
STANDBY_SECONDS: Final = (0.2, 3.0)
ANSWER_SECONDS: Final = 4.0
"""Longest wait for an answer; the operation may still happen."""

ADMITTED: Final = "registrars operations answered"
REFUSED: Final = "registrars operations refused"
DEPOSED: Final = "registrars owners deposed"
TAKEN: Final = "registrars recoveries from a copy"
LOADED: Final = "registrars recoveries by a load"
LEFT: Final = "registrars operations without an answer"
COMPARED: Final = "registrars copies compared"
SHAPES: Final = (ADMITTED, REFUSED, DEPOSED, TAKEN, LOADED, LEFT, COMPARED)


@attrs.frozen
class Admit:
    """Adds its key, once and for ever."""

    key: str
    owner: str

    def perform(self, edit: Edit) -> None:
        if edit.get(KEYS, self.key) is not None or edit.get(REMOVED, self.key) is not None:
            raise NotPermittedError(f"{self.key} is there, or was")
        edit.put(KEYS, self.key, self.owner)


@attrs.frozen
class Remove:
    """Moves a key to the removed ones."""

    key: str
    owner: str

    def perform(self, edit: Edit) -> None:
        if not edit.delete(KEYS, self.key):
            raise NotPermittedError(f"{self.key} is not there")
        edit.put(REMOVED, self.key, self.owner)


@attrs.frozen
class Answered:
    """An operation that was answered as permitted."""

    operation: Admit | Remove
    offered: float
    answered: float


@attrs.define(eq=False)
class Answers:
    """All that owners of one run have heard."""

    permitted: list[Answered] = attrs.field(factory=list)
    refused: list[Admit | Remove] = attrs.field(factory=list)
    """Operations that have not happened: refused by the registry as it was."""


@attrs.define(eq=False)
class _SlowStorage(VirtualLogStorage):
    """A storage whose client stands still before it stages records."""

    random: random.Random = attrs.field(kw_only=True)
    seconds: float = attrs.field(kw_only=True)

    async def _change(self, command: Update | Stage) -> UpdateResult:
        if isinstance(command, Stage):
            await self._handle.clock.sleep(self.random.uniform(0, self.seconds))
        return await super()._change(command)


@attrs.define(eq=False, kw_only=True)
class RegistrarOwner:
    """One program, for a life of its process."""

    who: str
    clock: Clock
    random: random.Random
    answers: Answers
    now: Callable[[], float]
    """True time."""
    count: Callable[[str], None]
    object_to: Callable[[str], None]
    """Called with what is wrong."""
    stage_seconds: float = 0.0
    """Longest time to stand still before records of a packed value are staged."""
    handle: DatabaseHandle = attrs.field(init=False)
    _ready: trio.Event = attrs.field(factory=trio.Event, init=False)
    _acts: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.handle = DatabaseHandle(clock=self.clock, random=self.random)

    def ready(self) -> None:
        """The first life of the replica has begun."""
        self._ready.set()

    @property
    def is_ready(self) -> bool:
        """True once there is a database."""
        return self._ready.is_set()

    async def run(self) -> None:
        """Stand by and own in turn, until cancelled."""
        await self._ready.wait()
        storage = VirtualLogStorage(self.handle)
        if self.stage_seconds:
            storage = _SlowStorage(self.handle, random=self.random, seconds=self.stage_seconds)
        while True:
            try:
                if self.random.random() < 0.6:
                    await self._stand_by(storage)
                else:
                    self.count(LOADED)
                    await self._own(storage, None)
            except DeposedError:
                self.count(DEPOSED)
            except VirtualLogError:
                await self.clock.sleep(PAUSE_SECONDS)

    async def _stand_by(self, storage: VirtualLogStorage) -> None:
        async with open_follower(storage, NAME, tables=[KEYS, REMOVED], clock=self.clock) as follower:
            await self.clock.sleep(self.random.uniform(*STANDBY_SECONDS))
            await self._own(storage, follower)

    async def _own(self, storage: VirtualLogStorage, follower: Follower | None) -> None:
        settings = RegistrarSettings(fetch_seconds=ANSWER_SECONDS, store_seconds=ANSWER_SECONDS)
        async with open_registrar(
            storage, NAME, tables=[KEYS, REMOVED], owner=self.who, settings=settings, follower=follower, clock=self.clock,
            source=self.random,
        ) as registrar:  # fmt: skip
            await registrar.recover()
            if follower is not None:
                self.count(TAKEN)
                await self._compare(storage, registrar)
            async with trio.open_nursery() as nursery:
                for _ in range(self.random.randint(*ACTS)):
                    nursery.start_soon(self._act, registrar, self._draw(registrar.registry), nursery.cancel_scope)
                    if self.random.random() < 0.7:
                        await self.clock.sleep(self.random.expovariate(1 / PAUSE_SECONDS))

    async def _compare(self, storage: VirtualLogStorage, registrar: Registrar) -> None:
        """Compare the copy that was taken with what is stored."""
        loaded = await storage.load(NAME)
        if loaded is None or loaded.version != registrar.version:
            return
        self.count(COMPARED)
        stored = Registry.decode_untrusted(loaded.records, (KEYS, REMOVED, OWNERSHIP))
        for table in (KEYS, REMOVED):
            if [*stored.items(table)] != [*registrar.registry.items(table)]:
                self.object_to(f"{self.who} has taken over other {table.name} than are stored")

    def _draw(self, registry: Registry) -> Admit | Remove:
        present = [key for key, _ in registry.items(KEYS)]
        if present and self.random.random() < 0.3:
            return Remove(self.random.choice(present), self.who)
        if present and self.random.random() < 0.1:
            return Admit(self.random.choice(present), self.who)  # refused, unless it is removed meanwhile
        self._acts += 1
        return Admit(f"{self.who}/{self._acts}", self.who)

    async def _act(self, registrar: Registrar, operation: Admit | Remove, scope: trio.CancelScope) -> None:
        offered, result = self.now(), None
        with self.clock.timeout(ANSWER_SECONDS):
            try:
                result = await registrar.apply(operation)
            except DeposedError:
                self.count(DEPOSED)
                scope.cancel()
                return
        self._note(operation, offered, result)

    def _note(self, operation: Admit | Remove, offered: float, result: OperationResult | None) -> None:
        if result is None:
            self.count(LEFT)
        elif result.is_permitted:
            self.count(ADMITTED)
            self.answers.permitted.append(Answered(operation, offered, self.now()))
        else:
            self.count(REFUSED)
            self.answers.refused.append(operation)
