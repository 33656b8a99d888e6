"""A program that holds a replica of the database in the process of a server: it reads linearizably,
and calls the engines as operators do.

Reads go through the Python API (`virtuallog_database.client`). Holds and timers go to the engines
themselves; tests/server/database covers what an RPC adds to them. A life of the process has one of
these; with the process its holds are forgotten, and end by themselves.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition
from virtuallog.testing.checker.history import History
from virtuallog_database.client import DatabaseClient, DatabaseHandle, Node, NoNodeError
from virtuallog_database.engines.lease import LeaseEngine
from virtuallog_database.engines.time_engine import TimeEngine
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.replica.host import ReplicaIncarnation
from virtuallog_simulation.workload.database.operations import INNER, PARENTS, PLAIN

HOLD_SECONDS: Final = (0.5, 2.0)
TIMER_SECONDS: Final = (0.2, 2.0)
TIMER: Final = "story"
"""First part of the names of timers; see `TimeEngine.on_fired`."""
STRONG_READS: Final = "linearizable reads"
READS_OF_A_HOLDER: Final = "linearizable reads under a lease"
READS_BESIDE_A_HOLDER: Final = "linearizable reads beside a lease"
HELD: Final = "holds placed"
RELEASED: Final = "holds released"
TIMERS: Final = "timers set"
INSIDE: Final = (STRONG_READS, READS_OF_A_HOLDER, READS_BESIDE_A_HOLDER, HELD, RELEASED, TIMERS)
"""Names of shapes that are counted and demanded of a set of seeds."""


@attrs.frozen(kw_only=True)
class EmbeddedClientPace:
    """Frequency of a program's acts."""

    pause_seconds: float = 0.3
    """Mean, between two acts."""
    patience_seconds: float = 5.0
    """Seconds that one act may take."""
    weights: tuple[float, float, float] = (10, 1, 1)
    """Weights of reads, holds and timers."""
    paths: tuple[str, ...] = (*PLAIN, *PLAIN, *PARENTS, *INNER)
    """Paths that are read."""


@attrs.frozen
class StrongRead:
    """A linearizable read. Result: `Node`, or None where there is no such znode."""

    path: str


@attrs.frozen
class Hold:
    """Result: from where on the log stays, for so long or until it is released."""

    name: str
    position: LogPosition
    seconds: float


@attrs.frozen
class Release:
    """Ends a hold."""

    name: str


@attrs.frozen
class SetTimer:
    """Result: where in the log it was set."""

    timer: str
    seconds: float


@attrs.define(eq=False)
class EmbeddedClient:
    """A client inside the process of a replica."""

    who: str
    history: History
    clock: Clock
    random: random.Random
    count: Callable[[str], None]
    number: Callable[[], int]
    """Makes names of holds and timers."""
    manner: EmbeddedClientPace = attrs.field(factory=EmbeddedClientPace)
    _life: ReplicaIncarnation | None = attrs.field(default=None, init=False)
    _access: DatabaseHandle = attrs.field(init=False)
    _held: str = attrs.field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        self._access = DatabaseHandle(clock=self.clock, random=self.random)

    def begin(self, life: ReplicaIncarnation) -> None:
        """Called with each life of the replica."""
        self._life = life
        self._access.begin(life.database)

    async def run(self) -> None:
        """Act until cancelled."""
        while True:
            await self.clock.sleep(self.random.expovariate(1 / self.manner.pause_seconds))
            if self._life is not None:
                act = self.random.choices((self._read, self._hold, self._set_timer), self.manner.weights)[0]
                with trio.move_on_after(self.manner.patience_seconds), suppress(VirtualLogError):
                    await act(self._life)

    async def _read(self, life: ReplicaIncarnation) -> None:
        path = self.random.choice(self.manner.paths)
        lease = life.replica.stack.find(LeaseEngine)
        assert lease is not None
        under, beside = lease.is_held, lease.holder is not None and not lease.is_held
        with self.history.record(self.who, StrongRead(path)) as returned:
            returned(await self._seen(path))
        self.count(STRONG_READS)
        if under or beside:
            self.count(READS_OF_A_HOLDER if under else READS_BESIDE_A_HOLDER)

    async def _seen(self, path: str) -> Node | None:
        try:
            return await DatabaseClient(self._access).get(path, linearizable=True)
        except NoNodeError:
            return None

    async def _hold(self, life: ReplicaIncarnation) -> None:
        """Place one, or release the one that there is."""
        view = life.replica.stack.find(ViewTrackingEngine)
        assert view is not None
        if self._held:
            name, self._held = self._held, ""
            with self.history.record(self.who, Release(name)):
                await view.release(name)
            self.count(RELEASED)
            return
        self._held = f"hold {self.number()}"
        wanted = Hold(self._held, life.replica.cursor, self.random.choice(HOLD_SECONDS))
        with self.history.record(self.who, wanted) as returned:
            returned(await view.hold(wanted.name, wanted.position, wanted.seconds))
        self.count(HELD)

    async def _set_timer(self, life: ReplicaIncarnation) -> None:
        time = life.replica.stack.find(TimeEngine)
        assert time is not None
        wanted = SetTimer(f"{TIMER}/{self.number()}", self.random.choice(TIMER_SECONDS))
        with self.history.record(self.who, wanted) as returned:
            returned(await time.set(wanted.timer, wanted.seconds))
        self.count(TIMERS)
