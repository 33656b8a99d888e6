"""Registrar: one owner's operations on durable tables, in batches, fenced against former owners.

    async with open_registrar(storage, "registry", tables=[AGENTS], owner="master-1") as registrar:
        await registrar.recover()
        result = await registrar.apply(Admit(agent))         result.is_permitted, result.is_changed
        registrar.registry.get(AGENTS, "a1")                 as last stored

Two registrars of one name may exist at any time: the one that recovered last owns the registry, and every store of the
other is refused (DeposedError). Safety needs no election; elect an owner so that one works while the other waits.

Source: Mesos, `src/master/registrar.cpp`. The protocol is `core/machine.py`; docs/concepts/state.md compares.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from functools import partial
from typing import Any, Final, TypeVar

import attrs
import outcome
import trio

from virtuallog.contract.errors import (
    InvalidSettingError,
    RetryableError,
    StorageError,
    TooLargeError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Clock
from virtuallog.runtime import log
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.nurseries import unwrapped_errors
from virtuallog_database.registrar.core.batch import OperationResult
from virtuallog_database.registrar.core.edit import Operation
from virtuallog_database.registrar.core.machine import (
    Committed,
    Effect,
    EmptyPolicy,
    Load,
    MachineState,
    Recovered,
    RegistrarMachine,
    Resolve,
    Store,
)
from virtuallog_database.registrar.core.ownership import OWNER_BYTES_MAX, OWNERSHIP, Ownership
from virtuallog_database.registrar.core.tables import RecordTable, Registry, Slot
from virtuallog_database.registrar.errors import RegistrarAbortedError
from virtuallog_database.registrar.follower import Follower
from virtuallog_database.registrar.loaded_registry import decode_registry
from virtuallog_database.registrar.metrics import RegistrarMetrics
from virtuallog_database.state.records import RecordStorage
from virtuallog_database.state.variable import VERSION_BYTES, encode_name

ResultT = TypeVar("ResultT")

RETRY_SECONDS: Final = 0.1
"""Pause before a load or a store that got no answer is repeated."""
TURN_SECONDS: Final = 0.01
"""Time for which operations run in one turn. One that is slower delays all tasks of its program."""
CHANGES_MAX: Final = 1024
"""Batches that may wait for a reader of `changes`."""


@attrs.frozen(kw_only=True)
class RegistrarSettings:
    """Settings of a registrar. Times in seconds.

    Raises:
        InvalidSettingError: when made, if a time is not positive, or the capabilities are no texts.
    """

    empty: EmptyPolicy = EmptyPolicy.INITIALIZE
    capabilities: Collection[str] = ()
    """Capabilities of this program. A registry that needs another one is refused."""
    fetch_seconds: float = 60.0
    """Time for the load of a recovery; Mesos' `registry_fetch_timeout`."""
    store_seconds: float = 20.0
    """Time for a store; Mesos' `registry_store_timeout`. Its outcome is unknown then, and `aborts` says what follows."""
    aborts: bool = False
    """True: a store without an answer in time ends the registrar, as in Mesos. False: the same store is repeated until it has an answer, which
    settles it; callers wait as long as they like."""

    def __attrs_post_init__(self) -> None:
        if not (self.fetch_seconds > 0 and self.store_seconds > 0):
            raise InvalidSettingError("seconds", "must be positive")
        if isinstance(self.capabilities, str):
            raise InvalidSettingError("capabilities", "is one text, and no collection of texts")
        Slot.of(OWNERSHIP, 0, Ownership("", 0, tuple(self.capabilities)))


@attrs.frozen
class RegistryChange:
    """One stored batch."""

    changes: Mapping[tuple[str, str], Slot | None]
    """Changed records by table and key, None where deleted."""
    version: bytes
    """Version of the registry behind it."""


@attrs.define(eq=False)
class Registrar:
    """A registrar that runs; made by `open_registrar`."""

    name: str
    settings: RegistrarSettings
    _machine: RegistrarMachine
    _storage: RecordStorage
    _clock: Clock
    _nursery: trio.Nursery
    _follower: Follower | None = None
    _meter: RegistrarMetrics = attrs.field(init=False)
    _recovered: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set at the end of the recovery, also if it has failed."""
    _ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    _work: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set if operations wait."""
    _readers: set[trio.MemorySendChannel[RegistryChange]] = attrs.field(factory=set, init=False)

    def __attrs_post_init__(self) -> None:
        self._meter = RegistrarMetrics(self.name)

    # -- for users ------------------------------------------------------------------------------------------------------

    async def recover(self) -> Registry:
        """Load the registry, and fence all former owners. Later calls wait for the same recovery, also when it has failed. A cancelled caller
        only stops waiting.

        Returns:
            The registry, as stored with this owner.

        Raises:
            EmptyRegistryError, MissingCapabilitiesError: nothing was written.
            CorruptionError, BinaryTooOldError: it cannot be read; nothing was written.
            DeposedError: another owner was faster.
            RegistrarAbortedError: no answer in time, or the storage has failed.
        """
        for effect in self._machine.recover():
            self._nursery.start_soon(self._run, effect)
        await self._recovered.wait()
        if self._machine.error is not None:
            raise copy(self._machine.error)
        return self._machine.registry

    async def apply(self, operation: Operation) -> OperationResult:
        """Run an operation, and wait until it is stored. Operations run in the order of these calls; those of a batch are answered in one turn. The
        operation of a cancelled caller may still happen. During the recovery it waits.

        Raises:
            NotRecoveredError: `recover` was not called; nothing has been done.
            OverloadedError, TooLargeError: nothing has been done.
            DeposedError: another owner has taken over; the operation has not happened, unless an earlier attempt to store it got no answer.
            RegistrarAbortedError: unknown outcome.
            Exception: raised by the operation; nothing has been done.
        """
        answered = trio.Event()
        answers: list[OperationResult | Exception] = []

        def answer(found: OperationResult | Exception) -> None:
            answers.append(found)
            answered.set()

        self._machine.offer(answer, operation)
        self._work.set()
        await answered.wait()
        found = answers[0]
        return found if isinstance(found, OperationResult) else outcome.Error(found).unwrap()

    @property
    def registry(self) -> Registry:
        """All tables, as last stored; empty before the recovery. It changes with each stored batch."""
        return self._machine.registry

    @property
    def version(self) -> bytes:
        """Version of `registry`; empty before the recovery."""
        return self._machine.version

    @property
    def was_empty(self) -> bool:
        """True if the recovery has begun an empty registry."""
        return self._machine.was_empty

    @property
    def is_upgrading(self) -> bool:
        """True with EmptyPolicy.UPGRADE: its user admits all that report, also to a registry that was there."""
        return self.settings.empty is EmptyPolicy.UPGRADE

    @property
    def tables(self) -> Sequence[RecordTable[Any]]:
        """All tables of its user."""
        return self._machine.tables

    def metrics(self) -> list[MetricFamily]:
        """Metrics as of now."""
        machine = self._machine
        is_recovered = bool(machine.version) and machine.state is not MachineState.FENCING
        return self._meter.families(
            machine.queued, machine.registry.size if is_recovered else None, aborted=self.error is not None
        )

    @property
    def queued(self) -> int:
        """Operations without an answer."""
        return self._machine.queued

    @property
    def error(self) -> Exception | None:
        """Reason of its end; None while it works."""
        return self._machine.error

    async def ended(self) -> Exception:
        """Wait until the registrar can write nothing any more, and return the reason. A deposed owner learns of it by its next store."""
        await self._ended.wait()
        assert self._machine.error is not None
        return self._machine.error

    @contextmanager
    def changes(self) -> Iterator[trio.MemoryReceiveChannel[RegistryChange]]:
        """Stream of the batches that are stored from now on. It ends with the registrar, and for a reader that is CHANGES_MAX batches behind: the
        version of the last batch that it has got is not that of the registry then."""
        sender, receiver = trio.open_memory_channel[RegistryChange](CHANGES_MAX)
        self._readers.add(sender)
        try:
            yield receiver
        finally:
            self._readers.discard(sender)
            sender.close()
            receiver.close()

    # -- the driver -----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run batches until cancelled."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._machine.can_begin:
                until = self._clock.monotonic() + TURN_SECONDS
                for effect in self._machine.begin(partial(self._is_past, until)):
                    await self._run(effect)
                await trio.lowlevel.checkpoint()

    def _is_past(self, time: float) -> bool:
        return self._clock.monotonic() >= time

    def end(self) -> None:
        """End the registrar: waiting callers get an error."""
        self._tell(self._machine.failed(RegistrarAbortedError(self.name, "it was closed")))
        self._finish()

    async def _run(self, effect: Effect) -> None:
        """Carry out one effect. If cancelled, a store under way may still happen; the registrar ends with it."""
        match effect:
            case Load():
                await self._load()
            case Store():
                await self._store(effect)
            case _:
                self._tell([effect])

    async def _load(self) -> None:
        began = self._clock.monotonic()
        try:
            copied = await self._repeated(self._copy, self.settings.fetch_seconds)
        except VirtualLogError as error:
            effects = self._machine.failed(self._given_up(error))
        else:
            self._meter.fetches.observe(1000 * (self._clock.monotonic() - began))
            effects = self._machine.copied(*copied)
        await self._go_on(effects)

    async def _copy(self) -> tuple[Registry, bytes]:
        """The registry and its version: the follower's, if it has the present one."""
        if self._follower is not None and (copied := await self._follower.copy()) is not None:
            return copied
        found = await self._storage.load(self.name)
        return (
            (Registry(), b"") if found is None else (await decode_registry(found, self._machine.tables), found.version)
        )

    async def _store(self, store: Store) -> None:
        began, operations = self._clock.monotonic(), self._machine.storing
        update = partial(self._storage.update, self.name, store.expected, store.changes, may_create=store.may_create)
        try:
            is_done = await self._repeated(update, self.settings.store_seconds if self._gives_up else None)
        except TooLargeError as error:
            effects = self._machine.too_large(error)
        except VirtualLogError as error:
            effects = self._machine.failed(self._given_up(error))
        else:
            self._meter.stores.observe(1000 * (self._clock.monotonic() - began))
            self._meter.batches.observe(operations)
            effects = self._machine.stored(is_done=is_done)
        await self._go_on(effects)

    @property
    def _gives_up(self) -> bool:
        return self.settings.aborts or self._machine.state is MachineState.FENCING

    async def _go_on(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Load | Store):
                await self._run(effect)
            else:
                self._tell([effect])
        if self._machine.error is not None:
            self._finish()
        self._work.set()

    def _finish(self) -> None:
        """Tell all who wait that the registrar has ended."""
        for sender in self._readers:
            sender.close()
        self._readers.clear()
        self._recovered.set()
        self._ended.set()

    def _tell(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case Resolve(answer, found):
                    answer(found)
                case Recovered():
                    if self.is_upgrading and not self.was_empty:
                        log.warning("EmptyPolicy.UPGRADE on a registry that is there", name=self.name)
                    self._recovered.set()
                case Committed(changes, version):
                    self._publish(RegistryChange(changes, version))

    def _publish(self, change: RegistryChange) -> None:
        for sender in list(self._readers):
            try:
                sender.send_nowait(change)
            except (trio.WouldBlock, trio.BrokenResourceError):
                self._readers.discard(sender)
                sender.close()

    def _given_up(self, error: VirtualLogError) -> VirtualLogError:
        """The end of this registrar, after a failed load or store."""
        if isinstance(error, UnavailableError | StorageError):
            return RegistrarAbortedError(self.name, str(error))
        return error

    async def _repeated(self, call: Callable[[], Awaitable[ResultT]], seconds: float | None) -> ResultT:
        """Repeat a call that gets no answer, or finds a full disk: loads and stores are idempotent.

        Raises:
            UnavailableError: not done within `seconds`, where that is given.
        """
        reason = "no answer"
        with trio.CancelScope() if seconds is None else self._clock.timeout(seconds):
            while True:
                try:
                    return await call()
                except RetryableError as error:
                    if reason != (reason := str(error)):
                        log.warning("a registrar waits for its storage", name=self.name, reason=reason)
                await self._clock.sleep(RETRY_SECONDS)
        raise UnavailableError(f"not done within {seconds:g} s: {reason}")


@asynccontextmanager
async def open_registrar(
    storage: RecordStorage,
    name: str,
    *,
    tables: Sequence[RecordTable[Any]],
    owner: str,
    settings: RegistrarSettings | None = None,
    follower: Follower | None = None,
    clock: Clock | None = None,
    source: random.Random | None = None,
) -> AsyncIterator[Registrar]:
    """Run a registrar while the block runs. It writes nothing before `recover`.

    Args:
        storage: of the records; `PackedRecords` makes one of any `StateStorage`.
        name: of the registry.
        tables: all tables; a record of another one is refused as corrupt.
        owner: name of this owner, for operators.
        settings: see there.
        follower: a copy to recover from, so that nothing has to be loaded.
        clock, source: the system's, if None.

    Raises:
        InvalidSettingError: not a name of a registry or an owner, two tables have one name, or the follower follows another registry.
    """
    encode_name(name)
    if len(Slot.of(OWNERSHIP, 0, Ownership(owner, 0)).encoded) > OWNER_BYTES_MAX:
        raise InvalidSettingError("owner", f"is longer than {OWNER_BYTES_MAX} bytes")
    if follower is not None and follower.name != name:
        raise InvalidSettingError("follower", f"it follows '{follower.name}', and not '{name}'")
    if len({table.name for table in tables} | {OWNERSHIP.name}) != len(tables) + 1:
        raise InvalidSettingError("tables", "two tables have the same name")
    settings, chance = settings or RegistrarSettings(), source or random.SystemRandom()
    machine = RegistrarMachine(
        name, tables, owner, partial(chance.randbytes, VERSION_BYTES), settings.capabilities, settings.empty,
        storage.changes_bytes_max,
    )  # fmt: skip
    with unwrapped_errors():
        async with trio.open_nursery() as nursery:
            registrar = Registrar(name, settings, machine, storage, clock or SystemClock(), nursery, follower)
            nursery.start_soon(registrar.run)
            try:
                yield registrar
            finally:
                registrar.end()
                nursery.cancel_scope.cancel()
