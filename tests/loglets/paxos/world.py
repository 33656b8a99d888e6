"""A replicated log on a few machines in one process. Network, disks and time are simulated; all else is the product.

    async with playing(replicas=3) as world:            three machines; none runs yet
        await world.start(1, 2)                         two of them, their replicas may vote from the beginning
        leader = world.coordinator(1)
        assert await leader.elect() == 0
        assert await leader.append(b"hello") == 1
        world.kill(2)                                   the machine stops; its disk survives, unless `wipe` is called
        lost = world.catch(Learn, to=3)                 from now on these messages do not arrive, until `lost.release()`

Machines act only on request: no replica recovers or repairs gaps before `world.keep` (a `Log` does by itself), and no
coordinator stands for election before `elect`. Acknowledged values are recorded, and in the end no two replicas may have
learned different values for one position.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, TypeAlias, cast

import attrs
import trio

from tests.loglets.paxos.core.leader_bench import Leader
from tests.loglets.paxos.interception import Caught, undecided
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Done, DurableMap, Handler, Handlers, NodeEnvironment, ReplyT, Request
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.key_values import SimulatedKeyValuesDisk
from virtuallog.testing.sim.links import LinkQuality
from virtuallog.testing.sim.network import SimulatedNetwork
from virtuallog.testing.sim.process import CrashedError, Process
from virtuallog.testing.sim.timeline import Timeline
from virtuallog_loglets.paxos.config import Ensemble
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.drivers.coordinator_driver import CoordinatorDriver
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.drivers.replica_maintenance import maintain_replica
from virtuallog_loglets.paxos.drivers.replica_service import ReplicaService
from virtuallog_loglets.paxos.messages import PaxosRecord, Standing, Status
from virtuallog_loglets.paxos.standalone.log import Log
from virtuallog_loglets.paxos.standalone.network import LogMember, LogNetwork

SEGMENT: Final = SegmentId(1, 7)
STRANGER: Final = NodeId(100)
"""Sends what a test wants to be sent."""
ASK_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 60.0
"""Simulated."""
READ_BYTES: Final = 1 << 20
CLUSTER: Final = b"the log of tests"

Serve: TypeAlias = Callable[[NodeEnvironment], Awaitable[tuple[LocalReplica, Handlers]]]
"""Starts what runs on a machine."""


@attrs.define(eq=False)
class Machine:
    """One life of a machine, with the parts that run on it."""

    process: Process
    environment: NodeEnvironment
    scope: trio.CancelScope
    replica: LocalReplica


@attrs.define(eq=False)
class World:
    """See the module."""

    nursery: trio.Nursery
    random: random.Random
    network: SimulatedNetwork
    members: tuple[NodeId, ...]
    """The ensemble, as all nodes know it; assign to change it."""
    quorum: int
    acknowledged: list[tuple[int, bytes]] = attrs.field(factory=list)
    """(position, payload) of each append that a coordinator said is decided."""
    failures: list[tuple[NodeId, BaseException]] = attrs.field(factory=list)
    """Errors that machines reported through `environment.fail`."""
    machines: dict[NodeId, Machine] = attrs.field(factory=dict)
    disks: dict[NodeId, SimulatedKeyValuesDisk] = attrs.field(factory=dict)
    unlearned: frozenset[int] = frozenset()
    """Replicas that get no decision, neither in a Learn nor with a Write; assign to change it."""
    requests: list[tuple[NodeId, Request[Any]]] = attrs.field(factory=list)
    """All that reached a replica: (which, what)."""
    open_store: Callable[[NodeId], AbstractAsyncContextManager[DurableMap]] | None = None
    """Real stores to use instead of simulated disks; then time must be real as well."""
    clock: SimulatedClock = attrs.field(factory=lambda: SimulatedClock(Process(STRANGER)))
    """Nursery of the test itself."""
    _boots: dict[NodeId, int] = attrs.field(factory=dict)
    _ended: dict[NodeId, trio.Event] = attrs.field(factory=dict)
    """Replicas of the last life of each machine: none of it runs any more, and its store is closed."""
    _caught: list[Caught] = attrs.field(factory=list)

    # -- machines -------------------------------------------------------------------------------------------------

    async def start(self, *nodes: int, status: Status = Status.VOTING) -> None:
        """Begin a life of these machines. `status` is that of a replica that is new in its store."""
        for node in nodes:
            await self._begin(node, partial(_serve_replica, self.ensemble, status))

    async def start_log(self, node: int, metrics_prefix: str = "", *, initialize: bool = True) -> Log:
        """Begin a life of a machine as those who use the log by itself do: with `Log.start`. `initialize`: its replica may vote from
        the beginning; else it recovers, at once. It knows the members of now."""
        if initialize and NodeId(node) not in self.disks:
            await self.start(node)
            self.kill(node)
        logs: list[Log] = []
        listed = tuple(LogMember(node=member, address=f"node-{member}:1") for member in self.members)
        network = LogNetwork(CLUSTER, self.quorum, listed)
        await self._begin(node, partial(_serve_log, logs, network, metrics_prefix))
        return logs[0]

    def kill(self, *nodes: int) -> None:
        """End the lives of these machines, abruptly."""
        for node in map(NodeId, nodes):
            machine = self.machines.pop(node)
            machine.process.crash()
            self.disks[node].crash()
            machine.scope.cancel()

    def wipe(self, node: int) -> None:
        """The disk of a dead machine is lost."""
        assert node not in self.machines
        self.disks[NodeId(node)].wipe()

    def separate(self, node: int, *others: int, blocked: bool = True) -> None:
        """Let nothing through between `node` and `others`, or mend that."""
        for other in others:
            self.network.link(NodeId(node), NodeId(other)).blocked = blocked
            self.network.link(NodeId(other), NodeId(node)).blocked = blocked

    def ensemble(self) -> Ensemble:
        return Ensemble(members=self.members, quorum=self.quorum)

    def replica(self, node: int) -> LocalReplica:
        return self.machines[NodeId(node)].replica

    def standing(self, node: int) -> Standing:
        return self.replica(node).core.standing()

    # -- what they do ---------------------------------------------------------------------------------------------

    def coordinator(self, node: int) -> Leader:
        """A new coordinator beside the replica of this machine; it lives as long as the machine."""
        machine = self.machines[NodeId(node)]
        running = CoordinatorDriver(machine.replica, machine.environment)
        machine.environment.nursery.start_soon(running.run)
        return Leader(NodeId(node), running, self.clock, self.acknowledged)

    def keep(self, *nodes: int, auto_initialize: bool = False) -> list[trio.CancelScope]:
        """Maintain these replicas from now on, as on a real machine, until the returned scope is cancelled."""
        return [self._keep(self.machines[NodeId(node)], auto_initialize) for node in nodes]

    async def recover(self, node: int) -> None:
        """Return once this replica votes. From then on it does nothing by itself."""
        (keeping,) = self.keep(node)
        await self.voting(node)
        keeping.cancel()

    async def voting(self, *nodes: int) -> None:
        """Return once all of these vote."""
        await self.until(lambda: all(self.standing(node).status is Status.VOTING for node in nodes))

    async def ask(self, node: int, request: Request[ReplyT]) -> ReplyT:
        """Send one request by hand, and wait for the answer."""
        services = self.network.services(Process(STRANGER), self.clock)
        return await services.call(NodeId(node), request, ASK_SECONDS)

    async def read(self, node: int, first: int, last: int) -> list[PaxosRecord]:
        """Records that a replica has learned from `first` through `last`, without a hole; empty if
        `first` is truncated or missing."""
        found: list[PaxosRecord] = []
        while first <= last:
            records = (await self.replica(node).read(first, last + 1, READ_BYTES)).records
            if not records:
                break
            found += records
            first = records[-1].position + 1
        return found

    async def payloads(self, node: int, first: int, last: int) -> list[bytes]:
        """The same, of appends alone."""
        records = await self.read(node, first, last)
        return [values.payload_of(r.value) for r in records if values.kind_of(r.value) is values.ValueKind.APPEND]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until it holds."""
        with self.within(PATIENCE_SECONDS):
            while not condition():
                await self.clock.sleep(0.001)

    @contextmanager
    def within(self, seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
        """Limit the time of the block."""
        with self.clock.timeout(seconds) as scope:
            yield
        assert not scope.cancelled_caught, f"not done in {seconds} simulated seconds"

    # -- messages -------------------------------------------------------------------------------------------------

    def catch(
        self,
        request: type[Request[Any]],
        to: int | None = None,
        sender: int | None = None,
        times: int | None = None,
        answers: bool = False,
    ) -> Caught:
        """Keep the requests of a class that go to a replica; or its answers, once it has done what was asked."""
        caught = Caught(request, _node(to), _node(sender), answers, times)
        self._caught.append(caught)
        return caught

    def count(self, request: type[Request[Any]], to: int | None = None) -> int:
        """Number of such messages that have reached replicas."""
        return sum(isinstance(found, request) and to in {None, node} for node, found in self.requests)

    # -- what must hold -------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """No position has two values, and no machine has given up."""
        assert self.failures == []
        decided = await self.decided()
        assert {position for position, found in decided.items() if len(found) > 1} == set()

    async def decided(self) -> dict[int, set[bytes]]:
        """Acknowledged or learned values at each position, of users and running replicas. A
        truncated position counts only with what users know."""
        found: dict[int, set[bytes]] = {}
        for position, payload in self.acknowledged:
            found.setdefault(position, set()).add(payload)
        for node in sorted(self.machines):
            for record in await self._learned(node):
                found.setdefault(record.position, set()).add(_payload(record))
        return found

    async def _learned(self, node: int) -> list[PaxosRecord]:
        """Everything that a replica has learned and kept."""
        found, core = list[PaxosRecord](), self.replica(node).core
        at = core.begin
        for hole in [*core.missing(core.begin, core.end + 1), range(core.end + 1, core.end + 1)]:
            found += await self.read(node, at, hole.start - 1)
            at = hole.stop
        return found

    # -- inside ---------------------------------------------------------------------------------------------------

    def _keep(self, machine: Machine, auto_initialize: bool) -> trio.CancelScope:
        scope = trio.CancelScope()

        async def run() -> None:
            with scope:
                await maintain_replica(
                    machine.replica, self.ensemble, machine.environment, auto_initialize=auto_initialize
                )

        machine.environment.nursery.start_soon(run)
        return scope

    async def _begin(self, number: int, serve: Serve) -> None:
        node = NodeId(number)
        assert node not in self.machines
        if node in self._ended:
            await self._ended[node].wait()
        self._ended[node] = trio.Event()
        self._boots[node] = self._boots.get(node, 0) + 1
        await self.nursery.start(self._live, Process(node, self._boots[node]), serve)

    async def _live(self, process: Process, serve: Serve, task_status: trio.TaskStatus[None]) -> None:
        try:
            with trio.CancelScope() as scope:
                async with AsyncExitStack() as stack, trio.open_nursery() as nursery:
                    environment = self._environment(process, nursery, stack)
                    replica, handlers = await serve(environment)
                    self.network.listen(process, self._watched(process.node, handlers))
                    self.machines[process.node] = Machine(process, environment, scope, replica)
                    task_status.started()
                    await trio.sleep_forever()
        except* CrashedError:
            assert not process.alive
        finally:
            self._ended[process.node].set()

    def _environment(self, process: Process, nursery: trio.Nursery, stack: AsyncExitStack) -> NodeEnvironment:
        clock = SimulatedClock(process)
        disk = self.disks.setdefault(process.node, SimulatedKeyValuesDisk(random.Random(self.random.random())))

        async def key_values(name: str) -> DurableMap:
            assert name == "paxos"
            if self.open_store is not None:
                return await stack.enter_async_context(self.open_store(process.node))
            return disk.open(process, clock)

        return NodeEnvironment(
            services=self.network.services(process, clock), clock=clock, random=random.Random(self.random.random()),
            nursery=nursery, node=process.node, boot=process.boot, storage=cast(Any, None), key_values=key_values,
            segment_config=cast(Any, None), fail=lambda error: self.failures.append((process.node, error)),
        )  # fmt: skip

    def _watched(self, node: NodeId, handlers: Handlers) -> Handlers:
        return {request: self._watch(node, handler) for request, handler in handlers.items()}

    def _watch(self, node: NodeId, handler: Handler) -> Handler:
        def handle(request: Any, done: Done) -> None:
            self.requests.append((node, request))
            handler(request, done)

        def arrive(request: Any, done: Done) -> None:
            caught = next((each for each in self._caught if each.wants(node, request)), None)
            if node in self.unlearned:
                request = undecided(request)
            if caught is None:
                handle(request, done)
            elif caught.answers:
                handle(request, lambda outcome: caught.kept.append(lambda: done(outcome)))
            else:
                caught.kept.append(lambda: handle(request, done))

        return arrive


async def _serve_replica(
    ensemble: Callable[[], Ensemble], status: Status, environment: NodeEnvironment
) -> tuple[LocalReplica, Handlers]:
    service = await ReplicaService.start(environment)
    replica = service.add(SEGMENT, ensemble, Status.EMPTY)
    if replica.core.status is Status.EMPTY and status is not Status.EMPTY:  # as `paxos-log initialize` does
        await replica.adopt(status)
    return replica, service.handlers


async def _serve_log(
    logs: list[Log], network: LogNetwork, metrics_prefix: str, environment: NodeEnvironment
) -> tuple[LocalReplica, Handlers]:
    log = await Log.start(environment, network, segment=SEGMENT, metrics_prefix=metrics_prefix)
    logs.append(log)
    return log.replica, log.handlers


def _node(number: int | None) -> NodeId | None:
    return None if number is None else NodeId(number)


def _payload(record: PaxosRecord) -> bytes:
    appended = values.kind_of(record.value) is values.ValueKind.APPEND
    return values.payload_of(record.value) if appended else record.value


@asynccontextmanager
async def playing(replicas: int = 3, quorum: int = 2, *, seed: int = 1, is_safe: bool = True) -> AsyncIterator[World]:
    """Machines 1 to `replicas`, none of which runs yet. If `is_safe`, no error may be reported in the end."""
    timeline, source = Timeline(), random.Random(seed)
    members = tuple(NodeId(number + 1) for number in range(replicas))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(timeline.run)
        network = SimulatedNetwork(timeline, random.Random(source.random()), LinkQuality(refuse=0.0))
        world = World(nursery, source, network, members, quorum)
        yield world
        if is_safe:
            await world.check()
        nursery.cancel_scope.cancel()
