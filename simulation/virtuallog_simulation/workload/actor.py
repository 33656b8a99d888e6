"""Base of client acts: a client of the log that records all it does, and the state shared by the
clients of a run.

It records and judges nothing; the checks judge the run.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final, Protocol, TypeAlias, TypeVar

import attrs
import trio

from virtuallog.client.appender import Appender
from virtuallog.client.reader import records
from virtuallog.client.scan import scan
from virtuallog.contract.chain import Chain
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.register import Register
from virtuallog.contract.types import Gap, LogPosition, Record
from virtuallog.testing.checker.actions import (
    LogAppend,
    LogCheckTail,
    LogFindTrimPoint,
    LogFollow,
    LogRead,
    LogTrim,
    Reconfigure,
    RequestedChange,
)
from virtuallog.testing.checker.history import Recorder
from virtuallog.testing.weak_seal_provider import WeakSealProvider
from virtuallog_loglets.archive.provider import ArchiveProvider
from virtuallog_simulation.workload.plan import WorkloadPlan
from virtuallog_simulation.workload.required_shapes import count
from virtuallog_simulation.world.cluster import Client, Cluster

Act: TypeAlias = Callable[["Actor"], Awaitable[None]]
Acts: TypeAlias = Sequence[tuple[float, Act]]
"""Each with its weight."""
ItemT = TypeVar("ItemT")

READ_BYTES: Final = (1, 200, 1 << 20)
"""Small ones make a read end early, in the middle of everything."""
SCAN_SECONDS: Final = 1.0
"""Less than the patience of any client, so some give up by themselves."""
BOUNDARIES_KEPT: Final = 4
"""Interesting are the newest: behind the older ones all has been trimmed, or is quiet."""


class Follower(Protocol):
    """A tailing reader that never ends."""

    where: str
    position: LogPosition
    """First position not yet read."""


@attrs.define(eq=False)
class WorkloadContext:
    """State shared by all clients of a run. It only makes positions interesting; correctness never
    depends on it."""

    cluster: Cluster
    plan: WorkloadPlan
    nursery: trio.Nursery
    """Outlives the workload: parked readers run here."""
    copies: WeakSealProvider | None = None
    """Provider for copies of segments; None if there is none."""
    swaps: Sequence[str] = ()
    """Kinds of loglets that operators put in each other's place, if there are several."""
    archives: Callable[[], ArchiveProvider] | None = None
    """Provider for archives of closed segments; None if there is none."""
    tail: int = 0
    """The highest one that any client has seen."""
    parked: list[Follower] = attrs.field(factory=list)
    """Blocked readers; by the end of the run they must have reached the tail."""
    boundaries: list[int] = attrs.field(factory=list)
    """Positions where segments begin or began, the newest last."""
    _version: int = 0

    def saw_tail(self, tail: int) -> None:
        self.tail = max(self.tail, tail)

    def saw_chain(self, chain: Chain) -> None:
        if chain.version <= self._version:
            return
        self._version = chain.version
        for segment in chain.segments:
            if segment.start not in self.boundaries:
                self.boundaries.append(segment.start)
        del self.boundaries[:-BOUNDARIES_KEPT]


@attrs.define(eq=False)
class Actor:
    """One client during one act."""

    stage: WorkloadContext
    client: Client
    random: random.Random
    """Randomness of this act alone, so that an act is the same whatever became of those before it."""
    name: str
    """Short name of this act, unique in the run."""
    _payloads: int = attrs.field(default=0, init=False)

    def did(self, shape: str) -> None:
        """Count a shape that has been reached."""
        count(self.stage.cluster.world.counts, shape)

    def payloads(self, count: int, size: int) -> tuple[bytes, ...]:
        """New ones, never used before."""
        first = self._payloads
        self._payloads += count
        return tuple(f"{self.name}.{number}".encode() + b"." * size for number in range(first, first + count))

    @property
    def chain(self) -> Chain:
        """Newest chain that the client knows; it must have seen one."""
        register = self.client.log.view.cached
        assert register is not None
        return register.chain

    # -- recorded operations --------------------------------------------------------------------------------------

    async def append(self, count: int = 1, size: int = 0, appender: Appender | None = None) -> range:
        payloads = self.payloads(count, size)
        with self.record(LogAppend(payloads)) as returned:
            if appender is not None:
                positions = await appender.append(list(payloads))
            elif count == 1:
                position = await self.client.log.append(payloads[0])
                positions = range(position, position + 1)
            else:
                positions = await self.client.log.append_many(payloads)
            self.stage.saw_tail(positions[-1] + 1)
            returned(positions)
        return positions

    async def append_if_tail(self, expected: int) -> None:
        payloads = self.payloads(1, 0)
        with self.record(LogAppend(payloads, expected)) as returned:
            position = await self.client.log.append_if_tail(payloads[0], LogPosition(expected))
            self.stage.saw_tail(position + 1)
            returned(range(position, position + 1))

    async def check_tail(self) -> int:
        with self.record(LogCheckTail()) as returned:
            tail = await self.client.log.check_tail()
            self.stage.saw_tail(tail.tail)
            returned(tail)
        return tail.tail

    async def read(self, start: int, stop: int, max_bytes: int) -> int:
        """One call; returns where it got to."""
        with self.record(LogRead(start, stop)) as returned:
            placed = await self.client.log.read(LogPosition(start), LogPosition(stop), max_bytes)
            found: list[Record] = [record for item in placed for record in records(item)]
            returned(found)
        return placed[-1].stop

    async def scan(self, start: int, stop: int, max_bytes: int) -> int:
        """A range as one read, which is many calls; returns how many pieces it came in."""
        with self.record(LogRead(start, stop)) as returned:
            found = scan(
                self.client.log, LogPosition(start), LogPosition(stop), patience=SCAN_SECONDS, piece_bytes=max_bytes
            )
            pieces = [[record for item in piece for record in records(item)] async for piece in found]
            returned([record for piece in pieces for record in piece])
        return len(pieces)

    @contextmanager
    def following(self, start: int) -> Iterator[None]:
        """Record a tailing reader that reads from `start` on, for the length of the block. The
        reader ends by itself at the end of a closed log."""
        with self.record(LogFollow(start)) as returned:
            yield
            returned(None)

    def observed(self, placed: Placed) -> None:
        """A tailing reader has been handed this."""
        world = self.stage.cluster.world
        world.history.observed(self.client.name, LogRead(placed.start, placed.stop), list(records(placed)))

    def observed_record(self, record: Record) -> None:
        """Record observed entries one by one."""
        start, stop = (record.start, record.stop) if isinstance(record, Gap) else (record.position, record.position + 1)
        self.stage.cluster.world.history.observed(self.client.name, LogRead(start, stop), [record])

    async def trim(self, position: int) -> int:
        with self.record(LogTrim(position)) as returned:
            effective = await self.client.log.prefix_trim(LogPosition(position))
            returned(effective)
        return effective

    async def find_trim_point(self) -> int:
        with self.record(LogFindTrimPoint()) as returned:
            found = await self.client.log.find_trim_point()
            returned(found)
        return found

    async def change(self, asked: RequestedChange, work: Awaitable[Register]) -> Register:
        """A change of the register."""
        with self.record(Reconfigure(asked)) as returned:
            register = await work
            self.stage.saw_chain(register.chain)
            returned(register.version)
        return register

    def record(
        self, action: LogAppend | LogCheckTail | LogRead | LogFollow | LogTrim | LogFindTrimPoint | Reconfigure
    ) -> AbstractContextManager[Recorder]:
        return self.stage.cluster.world.history.record(self.client.name, action)

    # -- choices --------------------------------------------------------------------------------------------------

    def position(self) -> int:
        """A position of interest: near the tail, at the edge of a segment, or anywhere."""
        dice = self.random.random()
        if dice < 0.4:
            return max(0, self.stage.tail - self.random.randrange(6))
        if dice < 0.7:
            return max(0, self.boundary() + self.random.choice((-1, 0, 1)))
        return self.random.randint(0, self.stage.tail)

    def boundary(self) -> int:
        """Draw a position where a segment begins."""
        return self.random.choice(self.stage.boundaries or [0])


def choose(source: random.Random, acts: Acts) -> Act:
    """Draw one item, by weight."""
    (chosen,) = source.choices([act for _, act in acts], [weight for weight, _ in acts])
    return chosen


async def attempt(work: Awaitable[object]) -> bool:
    """Await an act; returns True if it succeeded. Errors are in the history."""
    with suppress(VirtualLogError):
        await work
        return True
    return False
