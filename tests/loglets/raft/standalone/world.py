"""Stores of a log used by itself, on simulated disks and a simulated network.

async with playing() as world:
    one, two, three = await world.found(3)      a log of three voters; the first one leads
    await one.log.append(b"a")
    world.crash(two)
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio

from tests.loglets.native.cluster import SMALL_WAL
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Done, Environment, Handler, Handlers, NodeEnvironment, Request, Services, Storage
from virtuallog.contract.types import NodeId
from virtuallog.runtime.nurseries import unwrapped_errors
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.disk import Disk
from virtuallog.testing.sim.disk_faults import DiskFaults
from virtuallog.testing.sim.network import SimulatedNetwork
from virtuallog.testing.sim.process import Process
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_loglets.raft.core.transitions import RaftRole
from virtuallog_loglets.raft.messages import LogMembership
from virtuallog_loglets.raft.standalone import store as stores
from virtuallog_loglets.raft.standalone.client import LogClient
from virtuallog_loglets.raft.standalone.log import ReplicatedLog, format_store
from virtuallog_loglets.raft.standalone.store import StoreIdentity

CLIENT = 100
"""First number of a client; stores have larger ones, nearly surely."""
WAIT_SECONDS = 60.0
"""Simulated time after which what is waited for will not come."""


@attrs.define(eq=False)
class Machine:
    """One directory and the process on it, if one runs."""

    identity: StoreIdentity
    disks: dict[str, Disk]
    process: Process | None = None
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    opened: ReplicatedLog | None = None
    services: Services | None = None

    @property
    def store(self) -> NodeId:
        return self.identity.store

    @property
    def log(self) -> ReplicatedLog:
        assert self.opened is not None
        return self.opened

    @property
    def role(self) -> RaftRole:
        return self.log.driver.replica.role

    @property
    def local(self) -> LogMembership:
        return self.log.local

    async def entries(self, *, linearizable: bool = False, start: int = 0) -> list[bytes]:
        """Entries that this store's replica gives."""
        return [entry.data for entry in await self.log.read(start, linearizable=linearizable)]


@attrs.define(eq=False)
class World:
    """Machines and clients."""

    nursery: trio.Nursery
    network: SimulatedNetwork
    source: random.Random
    faults: DiskFaults = attrs.field(factory=DiskFaults)
    gate: Callable[[Machine, object], bool] = lambda _machine, _request: True
    """Called with each request that arrives at a machine; False to lose it."""
    clients: int = 0
    numbers: list[int] = attrs.field(factory=list)
    """Numbers of the machines and clients so far."""

    def blank(self, address: str = "host:1") -> Machine:
        """A machine with an empty directory, and the identity that it is to have."""
        identity = StoreIdentity(store=stores.draw(self.source), log="log", address=address)
        self.numbers.append(identity.store)
        return Machine(identity, {})

    async def format(self, *, founds: bool = False, address: str = "host:1") -> Machine:
        """A machine with a new directory."""
        machine = self.blank(address)
        await self.format_directory(machine, founds=founds)
        return machine

    async def format_directory(self, machine: Machine, *, founds: bool = False) -> None:
        """Format the directory of a machine. Raises like `format_store`."""
        try:
            with unwrapped_errors():
                async with trio.open_nursery() as nursery:
                    environment = self._environment(machine, Process(machine.store), nursery)
                    await format_store(environment, machine.identity, SMALL_WAL, founds=founds)
                    nursery.cancel_scope.cancel()
        finally:
            for disk in machine.disks.values():
                if disk.mounted is not None:
                    disk.mounted.close()

    async def try_to_start(self, machine: Machine) -> None:
        """Begin a life that ends at once. Raises like `ReplicatedLog.start`."""
        with unwrapped_errors():
            async with trio.open_nursery() as nursery:
                environment = self._environment(machine, Process(machine.store), nursery)
                await ReplicatedLog.start(environment, machine.identity, SMALL_WAL, lambda _store, _address: None)
                nursery.cancel_scope.cancel()

    async def start(self, *machines: Machine) -> None:
        """Begin a life of each machine; returns when it serves."""
        for machine in machines:
            machine.process = Process(machine.store)
            machine.scope = trio.CancelScope()
            await self.nursery.start(self._live, machine, machine.process)

    def crash(self, *machines: Machine) -> None:
        """Cut the power of these machines."""
        for machine in machines:
            assert machine.process is not None
            machine.process.crash()
            for disk in machine.disks.values():
                disk.crash()
            machine.scope.cancel()
            machine.opened = None

    async def found(self, count: int = 1) -> list[Machine]:
        """A log of so many voters, led by the first one."""
        machines = [await self.format(founds=number == 0, address=f"host:{number + 1}") for number in range(count)]
        await self.start(*machines)
        first, *others = machines
        await first.log.running()
        for machine in others:
            await self.add(first, machine)
        return machines

    async def add(self, through: Machine, machine: Machine) -> None:
        """Add a machine, and wait until it votes."""
        await through.log.add(machine.store, machine.identity.address)
        await self.until(lambda: self.is_voter(through, machine))

    @staticmethod
    def is_voter(at: Machine, machine: Machine) -> bool:
        replica = at.log.driver.replica
        configuration = replica.state.log.configuration
        return configuration.index <= replica.state.commit and configuration.is_voter(machine.store)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds; it is looked at every few milliseconds."""
        with trio.fail_after(WAIT_SECONDS):  # noqa: TID251 -- simulated
            while not holds():
                await trio.sleep(0.005)  # noqa: TID251 -- simulated

    def client(self, *asked: Machine) -> LogClient:
        """A client in a process of its own, which knows these machines."""
        self.clients += 1
        process = Process(NodeId(CLIENT + self.clients))
        self.numbers.append(process.node)
        clock = SimulatedClock(process)
        services = self.network.services(process, clock)
        environment = Environment(services=services, clock=clock, random=self.source, nursery=self.nursery)
        return LogClient(environment, lambda _store, _address: None, tuple(machine.store for machine in asked))

    def isolate(self, machine: Machine, blocked: bool = True) -> None:
        """Cut a machine off from all others and from the clients, or heal it."""
        for other in self.numbers:
            if other != machine.store:
                self.network.link(machine.store, NodeId(other)).blocked = blocked
                self.network.link(NodeId(other), machine.store).blocked = blocked

    def send(self, request: Request[Any], to: Machine, through: Machine) -> Any:
        """Call a machine from another one."""
        assert through.services is not None
        return through.services.call(to.store, request, 5.0)

    async def _live(
        self, machine: Machine, process: Process, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        with machine.scope:
            async with trio.open_nursery() as nursery:
                environment = self._environment(machine, process, nursery)
                machine.services = environment.services
                identity = await stores.read_identity(await environment.storage(stores.DIRECTORY))
                assert identity is not None
                machine.opened = await ReplicatedLog.start(
                    environment, identity, SMALL_WAL, lambda _store, _address: None
                )
                handlers: Handlers = machine.opened.handlers
                gated = {request: partial(self._let_in, machine, step) for request, step in handlers.items()}
                self.network.listen(process, gated)
                task_status.started()
                await trio.sleep_forever()

    def _let_in(self, machine: Machine, handler: Handler, request: Any, done: Done) -> None:
        if self.gate(machine, request):
            handler(request, done)

    def _environment(self, machine: Machine, process: Process, nursery: trio.Nursery) -> NodeEnvironment:
        clock = SimulatedClock(process)

        async def storage(role: str) -> Storage:
            if role not in machine.disks:
                machine.disks[role] = Disk(random.Random(self.source.random()), self.faults, clock)
            return machine.disks[role].mount()

        async def no_chain(segment: object) -> tuple[str, bytes]:
            raise UnavailableError(f"there is no log {segment} here")

        return NodeEnvironment(
            services=self.network.services(process, clock), clock=clock, random=self.source, nursery=nursery,
            node=machine.store, boot=0, storage=storage, key_values=storage, segment_config=no_chain,  # type: ignore[arg-type]
            fail=lambda _: None,
        )  # fmt: skip


@asynccontextmanager
async def playing(seed: int = 1) -> AsyncIterator[World]:
    """A world without machines."""
    timeline, source = Timeline(), random.Random(seed)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timeline.run)
        yield World(nursery, SimulatedNetwork(timeline, random.Random(source.random())), source)
        nursery.cancel_scope.cancel()
