"""What clients do to the log while the nemesis does its worst. It records, and judges nothing.

A client is a process: it lives for a while, may be killed in the middle of anything, and another one takes its place.
Any operation may be cancelled at any await. Payloads are unique, so that checkers can tell entries apart.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Final, TypeAlias

import attrs
import trio

from simulation.history import Append, CheckTail, Read, Reconfigure, Trim
from simulation.world.cluster import Client, Cluster
from virtuallog.appender import Appender
from virtuallog.errors import VirtualLogError
from virtuallog.reader import records
from virtuallog.register import Register
from virtuallog.types import LogPosition, Record

Act: TypeAlias = Callable[["Workload", Client], Awaitable[None]]
SettingsMaker: TypeAlias = Callable[[str, random.Random], Mapping[str, str]]

READ_BYTES: Final = (1, 200, 1 << 20)
"""Small ones make a read end early, in the middle of everything."""


@attrs.frozen(kw_only=True)
class WorkloadPlan:
    """How much of what. Each client's operations come one after the other, with pauses."""

    appenders: int
    readers: int
    tailers: int
    operators: int
    operations: int
    """Of each appender and reader."""
    changes: int
    """Of each operator."""
    pause_seconds: float
    cancel: float
    """Share of the operations that are cancelled half-way."""
    lifetime_seconds: float | None
    """Mean life of a client process; None: as long as its work takes."""
    close: bool
    """Whether operators also close the log on purpose, and reopen it."""

    @classmethod
    def draw(cls, source: random.Random) -> WorkloadPlan:
        return cls(
            appenders=source.randint(1, 3),
            readers=source.randint(1, 2),
            tailers=source.randint(0, 2),
            operators=source.randint(0, 2),
            operations=source.randint(10, 30),
            changes=source.randint(1, 6),
            pause_seconds=source.choice((0.02, 0.1, 0.4)),
            cancel=source.choice((0.0, 0.05, 0.3)),
            lifetime_seconds=source.choice((None, 3.0, 10.0)),
            close=source.random() < 0.3,
        )


@attrs.define(eq=False)
class Workload:
    """Runs a plan against a cluster."""

    cluster: Cluster
    plan: WorkloadPlan
    settings: SettingsMaker
    """Settings for a loglet of a kind: another server set, another sequencer."""
    _payloads: int = attrs.field(default=0, init=False)
    _tail: int = attrs.field(default=0, init=False)
    """The highest tail that any client has seen: where interesting positions are."""

    async def run(self) -> None:
        """Return when all clients but the tailing readers, which never end by themselves, have done their part."""
        plan = self.plan
        async with trio.open_nursery() as tailers:
            for _ in range(plan.tailers):
                tailers.start_soon(self._repeat, "tailer", _tail, 1 << 30)
            async with trio.open_nursery() as nursery:
                for _ in range(plan.appenders):
                    nursery.start_soon(self._repeat, "appender", _append, plan.operations)
                for _ in range(plan.readers):
                    nursery.start_soon(self._repeat, "reader", _read, plan.operations)
                for _ in range(plan.operators):
                    nursery.start_soon(self._repeat, "operator", _operate, plan.changes)
            tailers.cancel_scope.cancel()

    async def _repeat(self, name: str, act: Act, times: int) -> None:
        """Do it so many times, in as many lives as it takes."""
        done = 0
        source = self.cluster.world.random(f"lives of {name}")
        while done < times:
            mean = self.plan.lifetime_seconds
            lifetime = None if mean is None else source.expovariate(1.0 / mean)
            async with self.cluster.client(name, lifetime) as client:
                while done < times:
                    done += 1
                    await trio.sleep(client.random.expovariate(1.0 / self._pause(name)))
                    await self._attempt(act, client)

    def _pause(self, name: str) -> float:
        return self.plan.pause_seconds * (5 if name == "operator" else 1)

    async def _attempt(self, act: Act, client: Client) -> None:
        """Errors are in the history; cancelled operations too."""
        cancelled = client.random.random() < self.plan.cancel
        with trio.CancelScope() as scope:
            if cancelled:
                scope.deadline = trio.current_time() + client.random.expovariate(1.0 / 0.02)
            with suppress(VirtualLogError):
                await act(self, client)

    # -- single operations ----------------------------------------------------------------------------------------

    def payloads(self, count: int, size: int) -> tuple[bytes, ...]:
        """New ones, never used before."""
        first = self._payloads
        self._payloads += count
        return tuple(b"%d" % number + b"." * size for number in range(first, first + count))

    async def append(self, client: Client, appender: Appender | None = None) -> None:
        count = client.random.choice((1, 1, 1, 2, 5))
        payloads = self.payloads(count, client.random.choice((0, 0, 10, 1000)))
        with self.cluster.world.history.record(client.name, Append(payloads)) as returned:
            if appender is not None:
                positions = await appender.append(list(payloads))
            elif count == 1:
                position = await client.log.append(payloads[0])
                positions = range(position, position + 1)
            else:
                positions = await client.log.append_many(payloads)
            self.saw(positions[-1] + 1)
            returned(positions)

    async def check_tail(self, client: Client) -> int:
        with self.cluster.world.history.record(client.name, CheckTail()) as returned:
            tail = await client.log.check_tail()
            self.saw(tail.tail)
            returned(tail)
        return tail.tail

    async def read(self, client: Client, start: int, stop: int) -> int:
        """One call; returns where it got to."""
        with self.cluster.world.history.record(client.name, Read(start, stop)) as returned:
            limit = client.random.choice(READ_BYTES)
            placed = await client.log.read(LogPosition(start), LogPosition(stop), limit)
            found: list[Record] = [record for item in placed for record in records(item)]
            returned(found)
        return placed[-1].stop

    async def change(self, client: Client, what: str, work: Awaitable[Register]) -> None:
        with self.cluster.world.history.record(client.name, Reconfigure(what)) as returned:
            returned((await work).version)

    def saw(self, tail: int) -> None:
        self._tail = max(self._tail, tail)

    def position(self, source: random.Random) -> int:
        """A position of interest: often near the tail, sometimes anywhere."""
        if source.random() < 0.5:
            return max(0, self._tail - source.randint(0, 5))
        return source.randint(0, self._tail)


async def _append(work: Workload, client: Client) -> None:
    """One append, or several at once that share batches, in the default session or in one of their own."""
    dice = client.random.random()
    if dice < 0.6:
        await work.append(client)
    elif dice < 0.8:
        async with trio.open_nursery() as nursery:
            for _ in range(client.random.randint(2, 6)):
                nursery.start_soon(_ignoring, work.append(client))
    else:
        with client.log.appender() as appender:
            for _ in range(client.random.randint(1, 4)):
                await work.append(client, appender)


async def _read(work: Workload, client: Client) -> None:
    """The tail, then all from somewhere to it; or a range without asking for the tail."""
    if client.random.random() < 0.3:
        start = work.position(client.random)
        stop = max(start + 1, work.position(client.random))
        await work.read(client, start, stop)
        return
    tail = await work.check_tail(client)
    at = min(work.position(client.random), tail)
    while at < tail:
        at = await work.read(client, at, tail)


async def _tail(work: Workload, client: Client) -> None:
    """Follow the log from somewhere on."""
    history = work.cluster.world.history
    start = LogPosition(work.position(client.random))
    async for placed in client.log.reader(start).batches():
        history.observed(client.name, Read(placed.start, placed.stop), list(records(placed)))


async def _operate(work: Workload, client: Client) -> None:
    """Change the chain, in one of the ways there are."""
    log, source = client.log, client.random
    dice = source.random()
    if dice < 0.5:
        await _extend(work, client)
    elif dice < 0.75:
        position = work.position(source)
        with work.cluster.world.history.record(client.name, Trim(position)) as returned:
            returned(await log.prefix_trim(LogPosition(position)))
    elif dice < 0.85:
        await work.change(client, "truncate", log.reconfig_truncate())
    elif work.plan.close:
        await work.change(client, "close", log.seal())
        await trio.sleep(source.expovariate(2.0))
        await _extend(work, client)


async def _extend(work: Workload, client: Client) -> None:
    kind = client.random.choice(sorted(client.log.view.providers))
    settings = work.settings(kind, client.random)
    spelled = " ".join(f"{name}={value}" for name, value in settings.items())
    await work.change(client, f"extend {kind} {spelled}".rstrip(), client.log.reconfig_extend(kind, settings))


async def _ignoring(work: Awaitable[None]) -> None:
    with suppress(VirtualLogError):
        await work
