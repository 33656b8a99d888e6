"""A node that serves replicas on a simulated disk, life after life, and requests to them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import attrs
import trio

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import SealedError, VirtualLogError
from virtuallog.contract.ports import DurableMap, NodeEnvironment, Request, Services, Storage
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.key_values import SimulatedKeyValuesDisk
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.paxos.config import PaxosConfig
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.drivers.local_replica import LocalReplica
from virtuallog_loglets.paxos.drivers.replica_service import ReplicaService
from virtuallog_loglets.paxos.messages import NOWHERE, Decided, Learn, PaxosRecord, PaxosWrite, Promise, ReadRecords

LOG, OLD, ALONE = SegmentId(7, 1), SegmentId(2, 1), SegmentId(1, 9)
NODE, LEADER = NodeId(1), NodeId(2)
THREE: Final = (NodeId(1), NodeId(2), NodeId(3))


@attrs.define(eq=False)
class Life:
    """One life of a node that serves replicas."""

    service: ReplicaService
    process: Process
    environment: NodeEnvironment
    made: list[LocalReplica]
    failures: list[BaseException]

    async def ask(self, request: Request[Any]) -> Any:
        """Answer that a remote caller would get; errors are answers."""
        return await self.soon(request)()

    def soon(self, request: Request[Any]) -> Callable[[], Awaitable[Any]]:
        """The same, sent now and waited for later."""
        outcomes: list[Any] = []
        answered = trio.Event()

        def done(outcome: Any) -> None:
            outcomes.append(outcome)
            answered.set()

        self.service.handlers[type(request)](request, done)

        async def wait() -> Any:
            await answered.wait()
            return outcomes[0]

        wait.outcomes = outcomes  # type: ignore[attr-defined]
        return wait


def answered(pending: Callable[[], Awaitable[Any]]) -> bool:
    return bool(pending.outcomes)  # type: ignore[attr-defined]


@attrs.define(eq=False)
class Node:
    """The state of a node that outlives a process."""

    disk: SimulatedKeyValuesDisk = attrs.field(factory=lambda: SimulatedKeyValuesDisk(random.Random(1)))
    chain: dict[SegmentId, PaxosConfig | VirtualLogError] = attrs.field(
        factory=lambda: {name: PaxosConfig(replicas=THREE, coordinator=LEADER) for name in (LOG, OLD)}
    )
    joined: int = 0
    boot: int = 1
    fresh: bool = True
    version: int | VirtualLogError = 0
    """Version of the register."""

    @asynccontextmanager
    async def life(self) -> AsyncIterator[Life]:
        process, made, failures = Process(NODE), list[LocalReplica](), list[BaseException]()
        clock = SimulatedClock(process)
        async with trio.open_nursery() as nursery:
            environment = NodeEnvironment(
                services=cast(Services, None),
                clock=clock,
                random=random.Random(1),
                nursery=nursery,
                node=NODE,
                boot=self.boot,
                storage=_no_files,
                key_values=lambda name: self._open(process, clock),
                segment_config=self._config,
                fail=failures.append,
                joined=self.joined,
                is_lost=lambda role: not self.fresh,
                register_version=self._version,
            )
            service = await ReplicaService.start(environment, made.append)
            yield Life(service, process, environment, made, failures)
            nursery.cancel_scope.cancel()
        process.crash()
        self.boot, self.fresh = self.boot + 1, False

    async def _open(self, process: Process, clock: SimulatedClock) -> DurableMap:
        return self.disk.open(process, clock)

    async def _config(self, segment: SegmentId) -> tuple[str, bytes]:
        await trio.lowlevel.checkpoint()
        config = self.chain.get(segment, SealedError(f"segment {segment} is not in the chain"))
        if isinstance(config, VirtualLogError):
            raise config
        return "paxos", config.encode()

    async def _version(self) -> int:
        await trio.lowlevel.checkpoint()
        if isinstance(self.version, VirtualLogError):
            raise self.version
        return self.version


async def _no_files(_: str) -> Storage:
    raise AssertionError("replicas keep no files")


def promise(number: int, first: int = NOWHERE, stop: int = NOWHERE, segment: SegmentId = LOG) -> Promise:
    return Promise(segment=segment, proposal=number, coordinator=LEADER, first=first, stop=stop)


def write(first: int, *payloads: bytes, number: int = 1, decided: int = 0, segment: SegmentId = LOG) -> PaxosWrite:
    """Write, and announce the decisions below `decided`."""
    made = tuple(values.append(payload, 1) for payload in payloads)
    known = Decided(proposal=number, first=0, stop=decided)
    return PaxosWrite(segment=segment, proposal=number, coordinator=LEADER, first=first, values=made, decided=known)


def decide(stop: int, number: int = 1, segment: SegmentId = LOG) -> Learn:
    return Learn(segment=segment, decided=Decided(proposal=number, first=0, stop=stop))


def learned(position: int, value: bytes) -> PaxosRecord:
    return PaxosRecord(position=position, promised=1, performed=1, value=value, learned=True)


def read(first: int, stop: int, max_bytes: int = 1 << 20) -> ReadRecords:
    return ReadRecords(segment=LOG, first=first, stop=stop, max_bytes=max_bytes)
