"""Striped loglets in tests: over logs in memory, whose steps a test can hold back, and over clusters of native and of raft loglets."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeVar

import attrs
import trio

from tests.loglets.cluster import SEGMENT, Writer
from tests.loglets.conformance import ClusterFixture
from tests.loglets.native import cluster as native
from tests.loglets.native.cluster import SMALL_WAL
from tests.loglets.raft import cluster as raft
from tests.simulation.conformance.fixtures import NoServices
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.loglet import Loglet, Placed
from virtuallog.contract.ports import Clock, Environment
from virtuallog.contract.provider import compose
from virtuallog.contract.types import LogletOffset, NodeId, PlacedBatch, Tail
from virtuallog.testing.model import LogModel
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider, SharedLog
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.raft import RaftProvider
from virtuallog_loglets.striped import StripedProvider
from virtuallog_loglets.striped.config import StripedConfig
from virtuallog_loglets.striped.loglet import StripedLoglet

AnswerT = TypeVar("AnswerT")

Cluster = native.Cluster | raft.Cluster

__all__ = [
    "CLUSTERS", "Board", "Cluster", "MemoryStripes", "ReplicatedStripes", "Stripe", "append_on", "board", "open_striped", "payloads",
    "session_on", "striped", "striped_provider",
]  # fmt: skip


def session_on(stripe: int, stripes: int, name: bytes = b"w") -> SessionId:
    """A session that appends to this stripe."""
    return SessionId(stripe.to_bytes(8) + name.ljust(8, b".")) if stripe < stripes else session_on(0, stripes, name)


# -- over logs in memory ------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Stripe:
    """One client's way to one log in memory. What it asks passes a gate on its way there, and another one on its way back."""

    _loglet: Loglet
    gates: dict[str, trio.Event] = attrs.field(factory=dict)
    """Held back, by name: a call ('check_tail'), or its answer ('append answer')."""
    asked: list[str] = attrs.field(factory=list)
    """The names of all calls."""
    dead: Exception | None = None
    """Error that every call raises; None if calls work."""
    meddle: Callable[[str], None] = lambda name: None
    """Told of each call before it arrives."""

    def hold(self, *names: str) -> None:
        for name in names:
            self.gates[name] = trio.Event()

    def let_go(self, name: str) -> None:
        self.gates.pop(name).set()

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        what = "append" if batch.payloads[0] else "fill"
        return await self._pass(what, lambda: self._loglet.append(batch, opens=opens, expected_tail=expected_tail))

    async def check_tail(self) -> Tail:
        return await self._pass("check_tail", self._loglet.check_tail)

    async def wait_tail(self, past: LogletOffset) -> Tail:
        return await self._pass("wait_tail", lambda: self._loglet.wait_tail(past))

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        return await self._pass("read", lambda: self._loglet.read(start, stop, max_bytes))

    async def seal(self) -> None:
        await self._pass("seal", self._loglet.seal)

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        return await self._pass("prefix_trim", lambda: self._loglet.prefix_trim(offset))

    async def _pass(self, name: str, call: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        self.asked.append(name)
        self.meddle(name)
        await self._gate(name)
        if self.dead is not None:
            raise self.dead
        answer = await call()
        await self._gate(f"{name} answer")
        return answer

    async def _gate(self, name: str) -> None:
        if name in self.gates:
            await self.gates[name].wait()


@attrs.define(eq=False)
class Board:
    """Some logs in memory, and clients that see them as one."""

    environment: Environment
    logs: list[SharedLog]

    @property
    def models(self) -> list[LogModel]:
        return [log.model for log in self.logs]

    def client(self) -> tuple[StripedLoglet, list[Stripe]]:
        """One more, and its ways to the stripes."""
        stripes = [Stripe(MemoryLoglet(log, self.environment.clock)) for log in self.logs]
        return StripedLoglet(stripes, self.environment), stripes

    def writer(self, loglet: StripedLoglet, stripe: int, name: bytes = b"w") -> Writer[StripedLoglet]:
        return Writer(loglet, session_on(stripe, len(self.models), name))


@asynccontextmanager
async def board(stripes: int = 2) -> AsyncIterator[Board]:
    async with trio.open_nursery() as nursery:
        clock = SimulatedClock(Process(NodeId(1)))
        environment = Environment(services=NoServices(), clock=clock, random=random.Random(7), nursery=nursery)
        yield Board(environment, [SharedLog(LogModel()) for _ in range(stripes)])
        nursery.cancel_scope.cancel()


@attrs.define
class MemoryStripes:
    """Fresh loglets for the conformance suite."""

    environment: Environment
    stripes: int
    provider: StripedProvider = attrs.field(factory=StripedProvider)
    contiguous: bool = False
    versions: itertools.count[int] = attrs.field(factory=lambda: itertools.count(1))

    def __attrs_post_init__(self) -> None:
        compose({"memory": MemoryProvider(), "striped": self.provider})

    @property
    def clock(self) -> Clock:
        return self.environment.clock

    @property
    def random(self) -> random.Random:
        return self.environment.random

    async def fresh(self) -> Callable[[], Loglet]:
        segment, config = SegmentId(next(self.versions), 1), StripedConfig(of="memory", stripes=(b"",) * self.stripes)
        return lambda: self.provider.open(segment, config.encode(), self.environment)


# -- over replicated loglets --------------------------------------------------------------------------------------------

CLUSTERS: Final[Mapping[str, Callable[..., AbstractAsyncContextManager[Cluster]]]] = {
    "native": native.running_cluster,
    "raft": raft.running_cluster,
}
"""By the kind of the stripes: what makes a cluster whose nodes serve them."""


def striped(cluster: Cluster, stripes: int, segment: SegmentId = SEGMENT, *, is_sharded: bool = False) -> StripedConfig:
    """Put the stripes into the chain of the cluster: on the same three servers, ordered by one after the other, or on three each."""
    parts = StripedConfig(of="", stripes=(b"",) * stripes).parts(segment)
    for number, part in enumerate(parts):
        first = 3 * number + 1 if is_sharded else 1
        cluster.create(3, first if is_sharded else number % 3 + 1, part, first)
    (of, _), *_ = configs = [cluster.segment_config(part) for part in parts]
    return StripedConfig(of=of, stripes=tuple(config for _, config in configs))


def striped_provider() -> StripedProvider:
    """A provider that knows the kinds of the clusters."""
    provider = StripedProvider()
    compose({"native": NativeProvider(SMALL_WAL), "raft": RaftProvider(SMALL_WAL), "striped": provider})
    return provider


def open_striped(cluster: Cluster, config: StripedConfig, segment: SegmentId = SEGMENT) -> Loglet:
    """A client in a process of its own."""
    return striped_provider().open(segment, config.encode(), cluster.environment())


async def append_on(loglet: Loglet, stripe: int, number: int) -> range:
    """Append the entry of this number to one of two stripes."""
    return await loglet.append(
        Batch.build(session_on(stripe, 2), number, [b"%d.%d" % (stripe, number)]), opens=number == 0
    )


async def payloads(loglet: Loglet, start: int, stop: int) -> list[bytes]:
    """First payloads of the batches in [start, stop)."""
    found: list[bytes] = []
    while start < stop:
        items = await loglet.read(LogletOffset(start), LogletOffset(stop), 1 << 20)
        found += [item.batch.payloads[0] for item in items if isinstance(item, PlacedBatch)]
        start = items[-1].stop
    return found


@attrs.define
class ReplicatedStripes(ClusterFixture[Cluster]):
    """Fresh striped loglets of a cluster that serves their stripes."""

    stripes: int = attrs.field(kw_only=True)

    async def fresh(self) -> Callable[[], Loglet]:
        segment = SegmentId(next(self.versions), 1)
        config = striped(self.cluster, self.stripes, segment)
        return lambda: open_striped(self.cluster, config, segment)
