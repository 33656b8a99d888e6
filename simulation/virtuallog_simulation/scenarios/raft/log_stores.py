"""Parts of stories about a raft log used by itself: stores on machines, clients, and what these clients may hear.

A store is a machine. All are formatted before the faults begin; the first one founds the log, the others have joined none
until an operator adds them. One that was removed stays where it is, and may turn up again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import TrimmedError, VirtualLogError
from virtuallog.contract.ports import NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog_loglets.raft.drivers.replica_service import RaftService
from virtuallog_loglets.raft.standalone.client import LogClient
from virtuallog_loglets.raft.standalone.log import ReplicatedLog, format_store
from virtuallog_loglets.raft.standalone.store import StoreIdentity
from virtuallog_loglets.wal import WalSettings
from virtuallog_simulation.checks.cluster.raft_watch import RaftWatch
from virtuallog_simulation.world.machine import Machine, MachinePorts
from virtuallog_simulation.world.role import no_segments
from virtuallog_simulation.world.world import World

ONE_ENTRY: Final = "an offset of a log has one entry"
ONCE: Final = "an entry is in a log once"
SEEN: Final = "a linearizable read has what was acknowledged"
PROGRESS: Final = "progress"
READ: Final = "looked: linearizable reads of a raft log"

FOUNDER: Final = NodeId(1)
_WAL: Final = WalSettings(
    segment_bytes=48 << 10, record_bytes_max=24 << 10, group_bytes_max=28 << 10, queue_bytes_max=1 << 20,
    headroom_bytes=6 << 10,
)  # fmt: skip
"""Small segments, so that a run rolls over and drops some."""


@attrs.define(eq=False)
class LogStores:
    """One log, its stores, and what its clients have heard."""

    world: World
    machines: dict[NodeId, Machine] = attrs.field(factory=dict, init=False)
    logs: dict[NodeId, ReplicatedLog] = attrs.field(factory=dict, init=False)
    """Log of the present, or last, life of each machine."""
    watch: RaftWatch = attrs.field(init=False)
    entries: dict[int, bytes] = attrs.field(factory=dict, init=False)
    """Entries by offset, acknowledged or read."""
    acknowledged: set[int] = attrs.field(factory=set, init=False)
    """Offsets that some client was told."""
    trimmed: int = attrs.field(default=0, init=False)
    """Everything below may be gone."""
    _formatted: set[NodeId] = attrs.field(factory=set, init=False)
    _offsets: dict[bytes, int] = attrs.field(factory=dict, init=False)
    _clients: int = attrs.field(default=1000, init=False)

    def __attrs_post_init__(self) -> None:
        self.watch = RaftWatch(self.world, self.machines, self.services)

    async def found(self, stores: int, voters: int) -> None:
        """Start the machines of so many stores, and found a log of which the first ones are voters."""
        for number in range(1, stores + 1):
            node = NodeId(number)
            self.machines[node] = Machine(self.world, node, self._program)
            self.machines[node].start()
        while len(self.logs) < stores:
            await trio.sleep(0.01)
        async with self.world.client(self._next_client()) as environment:
            client = LogClient(environment, _learn, (FOUNDER,))
            for number in range(2, voters + 1):
                await client.add(NodeId(number), address_of(NodeId(number)))
                while not self._votes(NodeId(number)):
                    await trio.sleep(0.05)

    def services(self) -> Mapping[NodeId, RaftService | None]:
        """The replicas of each machine's present life; none of a log that has ended, as its disk is behind for good."""
        return {node: log.service for node, log in self.logs.items() if log.failure is None}

    @property
    def members(self) -> Mapping[NodeId, ReplicatedLog]:
        """Logs of the stores that are members by the newest committed configuration."""
        newest = max((log.driver.replica.state for log in self.logs.values()), key=lambda state: state.commit)
        configuration = newest.log.configuration_at(newest.commit)
        return {node: self.logs[node] for node in configuration.members}

    def _votes(self, node: NodeId) -> bool:
        state = self.logs[FOUNDER].driver.replica.state
        configuration = state.log.configuration
        return configuration.index <= state.commit and configuration.is_voter(node)

    async def _program(self, ports: MachinePorts) -> None:
        process, world = ports.process, self.world
        async with trio.open_nursery() as nursery:
            environment = NodeEnvironment(
                services=ports.services, clock=ports.clock, random=world.random(f"store {process.node}.{process.boot}"),
                nursery=nursery, node=process.node, boot=0, storage=ports.storage, key_values=ports.key_values,
                segment_config=no_segments, fail=lambda _: None,
            )  # fmt: skip
            identity = StoreIdentity(store=process.node, log="log", address=address_of(process.node))
            if process.node not in self._formatted:
                async with trio.open_nursery() as formatting:
                    formatted = attrs.evolve(environment, nursery=formatting)
                    await format_store(formatted, identity, _WAL, founds=process.node == FOUNDER)
                    formatting.cancel_scope.cancel()
                self._formatted.add(process.node)
            log = self.logs[process.node] = await ReplicatedLog.start(environment, identity, _WAL, _learn)
            ports.listen(log.handlers)
            failure = await log.ended()
            nursery.cancel_scope.cancel()
        raise failure

    # -- clients --------------------------------------------------------------------------------------------------

    async def act(self, act: Callable[[LogClient], Awaitable[None]], asked: Iterable[NodeId] = ()) -> None:
        """Let a client do this, as far as it gets. It asks these stores, or all, who the members are."""
        async with self.world.client(self._next_client()) as environment:
            with suppress(VirtualLogError):
                await act(LogClient(environment, _learn, tuple(asked) or tuple(self.machines)))

    async def append(self, client: LogClient, payload: bytes) -> None:
        """Append an entry that no other one equals. Raises like `LogClient.append`."""
        offset = await client.append(payload)
        self._note(offset, payload)
        self.acknowledged.add(offset)

    async def read(self, client: LogClient) -> None:
        """Read all entries as of now, and compare them with what was heard before. Raises like `LogClient.read`."""
        due, start = set(self.acknowledged), self.trimmed
        found = None
        while found is None:
            try:
                found = await client.read(start, linearizable=True)
            except TrimmedError as error:
                start = error.first
        self.world.counts[READ] += 1
        for entry in found:
            self._note(entry.offset, entry.data)
        missing = {offset for offset in due if offset >= max(start, self.trimmed)} - {entry.offset for entry in found}
        if missing:
            self.object(
                SEEN, f"a read from {start} on has {len(found)} entries, and not those at {sorted(missing)[:5]}"
            )

    async def trim(self, client: LogClient, share: float) -> None:
        """Trim a share of the entries. Raises like `LogClient.trim`."""
        offset = int(await client.check_tail() * share)
        self.trimmed = max(self.trimmed, offset)  # before any store knows of it
        await client.trim(offset)

    def _next_client(self) -> NodeId:
        self._clients += 1
        return NodeId(self._clients)

    def _note(self, offset: int, payload: bytes) -> None:
        if self.entries.setdefault(offset, payload) != payload:
            self.object(ONE_ENTRY, f"at {offset} are {self.entries[offset]!r} and {payload!r}")
        if self._offsets.setdefault(payload, offset) != offset:
            self.object(ONCE, f"{payload!r} is at {self._offsets[payload]} and at {offset}")

    # -- the end --------------------------------------------------------------------------------------------------

    async def finish(self, append_seconds: float, converge_seconds: float) -> None:
        """Demand, without faults, an append, a read of everything, and logs that are equal; then look at everything."""
        world, began = self.world, self.world.now()

        async def last(client: LogClient) -> None:
            await self.append(client, b"the last one")
            await self.read(client)

        with trio.move_on_after(append_seconds):
            while b"the last one" not in self._offsets:
                await self.act(last)
        world.demanded("append", world.now() - began)
        if b"the last one" not in self._offsets:
            self.object(PROGRESS, f"no append within {append_seconds:g} s after the faults stopped")
            return
        with trio.move_on_after(converge_seconds):
            while len(self._ends()) != 1:
                await trio.sleep(0.1)
        if len(self._ends()) != 1:
            self.object(PROGRESS, f"{converge_seconds:g} s later members have (commit, last index) {self._ends()}")
        self.watch.look()

    def _ends(self) -> set[tuple[int, int]]:
        states = [log.driver.replica.state for log in self.members.values()]
        return {(state.commit, state.log.last_index) for state in states}

    def object(self, check: str, message: str) -> None:
        """Note a violation."""
        self.world.violations.append(Violation(check, message, (len(self.world.history.events) - 1,)))


def address_of(store: NodeId) -> str:
    """Address of a store; the simulated network needs none."""
    return f"host:{store}"


def _learn(_store: NodeId, _address: str) -> None:
    """The simulated network knows a store by its number."""
