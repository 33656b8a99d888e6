"""A simulated machine: disks that survive, and one process at a time that may not.

start    a process begins: its ports are new, its boot number is one higher
crash    the ports die first (any use raises), the disks lose what was not synced, then the tasks are cancelled;
         no `finally` and no shielded scope of the old life can touch the world any more
kill     the same, but the operating system lives: what was written stays, synced or not
pause    the process neither hears nor says anything, until `resume`
wipe     the disks are replaced by empty ones; only while the process is down
lose     the directory of one store is deleted; the rest of the machine keeps what it has
rot      a durable bit of some disk changes

Faults of the disks that take effect are counted in `World.counts`. A program, or a part of it, may stop because of
them, and for no other reason.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Protocol, TypeAlias

import attrs
import trio

from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog.contract.ports import Clock, DurableMap, Handlers, Services, Storage
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol.node import Identity
from virtuallog.rpc.security.permissions import AppendPermission, allow
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.disk import Disk, DiskFaults
from virtuallog.testing.sim.key_values import SimulatedKeyValuesDisk
from virtuallog.testing.sim.process import CrashedError, Process
from virtuallog_database.ports import StoreDirectory
from virtuallog_server.storage.stores import FILES, REPLICAS, VALUES
from virtuallog_simulation.world.stop_reasons import (
    BEGAN_ANEW,
    STORE_LOST,
    began_anew_for_a_reason,
    refuses_rot,
    stopped_for_a_reason,
)
from virtuallog_simulation.world.store_disk import SimulatedDirectory, StoreDisk
from virtuallog_simulation.world.world import World


class Listen(Protocol):
    """`identity`: who the node says it is, to those who ask. `guard` decides about appends of clients."""

    def __call__(
        self, handlers: Handlers, identity: Callable[[], Identity] | None = None, guard: AppendPermission = allow
    ) -> None: ...


@attrs.frozen(kw_only=True)
class MachinePorts:
    """Ports that a program on a machine receives."""

    process: Process
    services: Services
    clock: Clock
    storage: Callable[[str], Awaitable[Storage]]
    key_values: Callable[[str], Awaitable[DurableMap]]
    local_store: Callable[[str], Awaitable[StoreDirectory]]
    listen: Listen
    """Calls from other machines reach these handlers from now on."""
    learn: Callable[[Register], None]
    """Called with each newer register, to learn the addresses and identities of nodes."""
    stores_present: Collection[tuple[str, str]]
    """Stores that have any content on the disks now, by folder and role."""
    who_is_at: Callable[[tuple[str, ...]], Awaitable[Identity]]
    """Returns the identity of the process at these addresses."""
    watch_connections: Callable[[Callable[[NodeId], None]], None]
    """Names a function to call with each node to which a connection has ended."""


Program: TypeAlias = Callable[[MachinePorts], Awaitable[None]]
"""Runs until it is cancelled."""


@attrs.frozen(eq=False)
class Disks:
    """All disks of a machine."""

    files: dict[str, Disk]
    key_values: dict[str, SimulatedKeyValuesDisk]
    stores: dict[str, StoreDisk]


@attrs.define(eq=False)
class Machine:
    """One simulated machine. `program` is what its process runs."""

    world: World
    node: NodeId
    program: Program
    faults: DiskFaults = attrs.field(factory=DiskFaults)
    """Shared by all its disks; may be changed while they are in use."""
    process: Process | None = attrs.field(default=None, init=False)
    wiped: bool = attrs.field(default=False, init=False)
    """Its disks have been replaced at some time: it must never serve again as the same node."""
    gone: set[str] = attrs.field(factory=set, init=False)
    """Stores that were deleted alone."""
    failure: str = attrs.field(default="", init=False)
    """Why the program ended by itself, if it did."""
    on_start: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    """Called when a life begins, before anything of it runs."""
    on_end: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    """Called when a life ends, before anything of it dies."""
    counts: Tally = attrs.field(init=False)
    """Faults of its disks that took effect."""
    _told: set[tuple[int, str]] = attrs.field(factory=set, init=False)
    """Parts that have stopped, by the life."""
    _boots: int = attrs.field(default=0, init=False)
    """Boot number of the last life. Never set back, not even when disks are replaced: it also names
    sources of randomness, and is in the history."""
    _scope: trio.CancelScope | None = attrs.field(default=None, init=False)
    _disks: dict[str, Disk] = attrs.field(factory=dict, init=False)
    _key_values: dict[str, SimulatedKeyValuesDisk] = attrs.field(factory=dict, init=False)
    _stores: dict[str, StoreDisk] = attrs.field(factory=dict, init=False)
    _clock: SimulatedClock | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.counts = Tally(self.world.counts)
        self.faults.prompt = self.world.prompt_writes

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.alive

    def start(self) -> None:
        """Begin the next life."""
        assert not self.running
        self._boots += 1
        self.on_start()
        self.process = process = Process(
            self.node, self._boots, lambda power: self.crash(power=power), flushes=self.faults.prompt > 0
        )
        self._scope = trio.CancelScope()
        self._clock = self.world.clock(process)
        self.world.transport.start(self.node)
        self.world.nursery.start_soon(self._live, process, self._clock, self._scope)

    def crash(self, *, power: bool = True) -> None:
        """End this life: with the power (unsynced bytes are lost or torn), or only the process."""
        process, scope = self.process, self._scope
        assert process is not None and scope is not None
        if process.alive:
            self.on_end()
        process.crash()
        self.world.transport.end(process, power=power)
        for name in sorted(self._disks):
            disk = self._disks[name]
            disk.crash() if power else disk.kill()
        for name in sorted(self._key_values):
            self._key_values[name].crash()
        for name in sorted(self._stores):
            self._stores[name].crash()
        scope.cancel()

    def pause(self) -> None:
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        if self.process is not None:
            self.process.resume()

    def wipe(self) -> None:
        """Replace all disks by empty ones."""
        assert not self.running
        self.wiped = True
        for name in sorted(self._disks):
            self._disks[name].wipe()
        for name in sorted(self._key_values):
            self._key_values[name].wipe()
            self.world.on_lost(self.node, name)
        for name in sorted(self._stores):
            self._stores[name].wipe()

    def lose(self, store: str) -> bool:
        """Delete the directory of a store; False: there is nothing in it. Only while the process is down."""
        assert not self.running
        if not self.has(store):
            return False
        if store in self._stores:
            self._stores[store].wipe()
        elif store in self._disks:
            self._disks[store].clear()
        else:
            self._key_values[store].wipe()
            self.world.on_lost(self.node, store)
        self.counts[STORE_LOST] += 1
        self.gone.add(store)
        return True

    def has(self, store: str) -> bool:
        """True if a store has any content."""
        if store in self._stores:
            return bool(self._stores[store].content.pairs)
        if store in self._disks:
            return bool(self._disks[store].files)
        disk = self._key_values.get(store)
        return disk is not None and bool(disk.pairs)

    @property
    def present(self) -> Collection[tuple[str, str]]:
        """Stores of which anything is on the disks, as `virtuallog_server.storage.data_directory` finds them."""
        files = {(FILES, name) for name, disk in self._disks.items() if disk.files}
        values = {(VALUES, name) for name, disk in self._key_values.items() if disk.is_made}
        return files | values | {(REPLICAS, name) for name, disk in self._stores.items() if disk.content.pairs}

    def swap(self, others: Disks | None = None) -> Disks:
        """Put other disks in, empty ones if none are given; returns those that were there, which keep what they hold."""
        assert not self.running
        self.wiped = True
        self.counts["wiped"] += 1
        self.gone.clear()
        former = Disks(self._disks, self._key_values, self._stores)
        new = others or Disks({}, {}, {})
        self._disks, self._key_values, self._stores = new.files, new.key_values, new.stores
        return former

    def copied(self, source: random.Random) -> Disks:
        """Copies of what is durable on its disks, for another machine; it may run meanwhile."""
        files = {name: Disk(random.Random(source.random()), self.faults, fired=self.counts) for name in self._disks}
        values = {
            name: SimulatedKeyValuesDisk(random.Random(source.random()), faults=self.faults, fired=self.counts)
            for name in self._key_values
        }
        for name, disk in self._disks.items():
            for file in disk.files:
                files[name].overwrite(file, 0, disk.peek(file))
        for name, store in self._key_values.items():
            values[name].pairs.update(store.pairs)
        return Disks(files, values, {})

    def rot(self, source: random.Random) -> str:
        """Flip a bit of something durable, running or not; returns where it was, nothing if there is nothing."""
        stores: list[tuple[str, Disk | SimulatedKeyValuesDisk | StoreDisk]] = [
            *sorted(self._disks.items()),
            *sorted(self._key_values.items()),
            *sorted(self._stores.items()),
        ]
        source.shuffle(stores)
        for name, disk in stores:
            place = disk.rot()
            if place is not None:
                return f"{name} {place!r}"
        return ""

    def stopped(self, part: str, error: BaseException) -> None:
        """A part of its program has stopped for good in this life: judge the reason, once."""
        if (self._boots, part) in self._told:
            return
        self._told.add((self._boots, part))
        who = f"{part} of {self.node}.{self._boots}"
        if refuses_rot(error, self.counts):
            self.world.fault("rot refused", f"by {who}: {error}")
        self.world.violations.extend(stopped_for_a_reason(self.world.history, who, error, self.counts))

    def began_anew(self, part: str, error: RetryableError) -> None:
        """A part of its program has begun anew after an error: judge the reason, once."""
        if (self._boots, f"{part}: {error}") not in self._told:
            self._told.add((self._boots, f"{part}: {error}"))
            self.world.counts[BEGAN_ANEW] += 1
            who = f"{part} of {self.node}.{self._boots}"
            self.world.violations.extend(began_anew_for_a_reason(self.world.history, who, error, self.counts))

    def disk(self, name: str) -> Disk | None:
        """Disk of this name, for inspection; None if no process ever opened it."""
        return self._disks.get(name)

    def key_values(self, name: str) -> SimulatedKeyValuesDisk | None:
        return self._key_values.get(name)

    def store(self, name: str) -> StoreDisk | None:
        return self._stores.get(name)

    async def _live(self, process: Process, clock: SimulatedClock, scope: trio.CancelScope) -> None:
        try:
            with scope, process.acting():
                await self._run(process, clock)
        except BaseException as error:
            if not process.alive and _explained(error, CrashedError, trio.Cancelled, VirtualLogError):
                return  # dead ports raise, disks without a process too
            if process.alive and _explained(error, trio.Cancelled):
                raise  # the world ends
            if not process.alive or not _explained(error, trio.Cancelled, VirtualLogError):
                raise  # a bug of the program
            self._stopped_on_purpose(error)

    async def _run(self, process: Process, clock: SimulatedClock) -> None:
        transport = self.world.transport
        async with transport.attach(process, clock, self.world.random(f"rpc {self.node}.{process.boot}")) as services:
            await self.program(
                MachinePorts(
                    process=process,
                    services=services,
                    clock=clock,
                    storage=partial(self._open_storage, process),
                    key_values=partial(self._open_key_values, process, clock),
                    local_store=partial(self._open_store, process, clock),
                    listen=partial(transport.listen, process),
                    learn=partial(transport.learn, self.node),
                    stores_present=self.present,
                    who_is_at=partial(transport.who_is_at, self.node),
                    watch_connections=partial(transport.watch_connections, process),
                )
            )

    def _stopped_on_purpose(self, error: BaseException) -> None:
        """A program may give up, saying why: the process is gone, the machine stays."""
        reason = _reason(error)
        self.failure = str(reason)
        self.world.fault("program stopped", f"{self.node}: {self.failure}")
        self.stopped("program", reason)
        self.crash(power=False)

    async def _open_storage(self, process: Process, name: str) -> Storage:
        process.check()  # a life that is over takes no disk from the next one
        if name not in self._disks:
            source = self.world.random(f"disk {self.node} {name}")
            self._disks[name] = Disk(source, self.faults, _MachineClock(self), self.counts)
            self._disks[name].watch = self.world.disk_watch(self.node, name)
        # A role that begins anew in the same life goes on with what this process has mounted.
        return self._disks[name].mounted or self._disks[name].mount()

    async def _open_key_values(self, process: Process, clock: SimulatedClock, name: str) -> DurableMap:
        process.check()
        if name not in self._key_values:
            source = self.world.random(f"key values {self.node} {name}")
            self._key_values[name] = SimulatedKeyValuesDisk(source, faults=self.faults, fired=self.counts)
            self._key_values[name].watch = self.world.disk_watch(self.node, name)
            self._key_values[name].stored = partial(self.world.stored, self.node, name)
        return self._key_values[name].open(process, clock)

    async def _open_store(self, process: Process, clock: SimulatedClock, name: str) -> StoreDirectory:
        process.check()
        if name not in self._stores:
            source = self.world.random(f"store {self.node} {name}")
            self._stores[name] = StoreDisk(random=source, faults=self.faults, fired=self.counts)
            self._stores[name].on_open = partial(self.world.on_store_open, self.node)
            self._stores[name].on_write = partial(self.world.on_store_write, self.node)
        return SimulatedDirectory.of(self._stores[name], process, clock)

    @property
    def clock(self) -> SimulatedClock:
        """Clock of the present life."""
        assert self._clock is not None
        return self._clock


@attrs.frozen
class _MachineClock:
    """The clock that a disk uses: always that of the present process."""

    _machine: Machine

    def wall(self) -> float:
        return self._machine.clock.wall()

    def monotonic(self) -> float:
        return self._machine.clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._machine.clock.sleep(seconds)

    def timeout(self, seconds: float) -> trio.CancelScope:
        return self._machine.clock.timeout(seconds)


def _explained(error: BaseException, *classes: type[BaseException]) -> bool:
    """True if the error, or every leaf of an exception group, is of these classes."""
    if isinstance(error, BaseExceptionGroup):
        return all(_explained(inner, *classes) for inner in error.exceptions)
    return isinstance(error, classes)


def _reason(error: BaseException) -> BaseException:
    """The error, or the first of a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


class Tally(Counter[str]):
    """Counts of one machine that also count for its world.

    Use `tally[name] += 1` or `tally += counter`; `update` bypasses the counts of the world.
    """

    def __init__(self, whole: Counter[str]) -> None:
        super().__init__()
        self._whole = whole

    def __setitem__(self, name: str, count: int) -> None:
        self._whole[name] += count - self[name]
        super().__setitem__(name, count)
