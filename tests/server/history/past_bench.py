"""The past of a log that is drawn, with servers that give the snapshots of real stores, and may be down."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from tests.database.history.drawn_log import DrawnLog
from tests.virtuallog.client.world import SETTINGS, World, no_nodes, world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError, UnsupportedError, VirtualLogError
from virtuallog.contract.ports import Environment, Outcome, Request
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.control.messages import (
    SERVING,
    DatabaseStatus,
    Done,
    GetDatabaseStatus,
    PlaceHold,
    ReleaseHold,
)
from virtuallog_database.replica.replay import Replay
from virtuallog_database.rocks.directory import RocksDirectory, open_store_directory
from virtuallog_database.rocks.store import RocksStore
from virtuallog_database.snapshots.policy import SnapshotSettings
from virtuallog_database.snapshots.service import SnapshotService
from virtuallog_database.snapshots.snapshotter import Snapshotter
from virtuallog_loglets.archive.drivers.files import OpenDirectory
from virtuallog_server.backup.core.manifest import BackupManifest
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.saved_log import JoinedLog, LogPart
from virtuallog_server.history.core.reach import merged
from virtuallog_server.history.past_database import PastDatabase
from virtuallog_server.history.past_log import PastLog
from virtuallog_server.history.past_states import PastStates, ScratchSettings
from virtuallog_server.history.read_pace import ReadPace

CLUSTER = b"c" * 16


@attrs.define
class SkippingClock:
    """A clock that skips the time of a sleep. (Threads work on the stores, and a clock of trio would not wait for them.)"""

    system: SystemClock = attrs.field(factory=SystemClock)
    skipped: float = 0.0

    def wall(self) -> float:
        return self.system.wall()

    def monotonic(self) -> float:
        return self.system.monotonic() + self.skipped

    def timeout(self, seconds: float) -> trio.CancelScope:
        return self.system.timeout(seconds)

    async def sleep(self, seconds: float) -> None:
        self.skipped += max(0.0, seconds)
        await trio.lowlevel.checkpoint()


@attrs.define
class Progress:
    """A replica whose snapshot is asked for at a position, and which has gone on before it is taken."""

    cursor: LogPosition
    applied_bytes: int = 0

    def snapshotted(self, position: LogPosition) -> None:
        """Note nothing."""


@attrs.define(eq=False)
class Server:
    """A server: its store, and its snapshots."""

    directory: RocksDirectory
    store: RocksStore
    snapshotter: Snapshotter
    service: SnapshotService

    async def take(self, log: DrawnLog, position: int, content: int | None = None) -> None:
        """Take a snapshot at a position, with a content that may be newer."""
        replay = Replay(self.store)
        replay.apply(log.clipped(replay.cursor, position if content is None else content))
        await self.snapshotter.take(Progress(LogPosition(position)))


@attrs.define(eq=False)
class PastBench:
    """Servers by their numbers, and the log. Implements `Services`."""

    world: World
    clock: SkippingClock
    folder: Path
    stack: AsyncExitStack
    log: DrawnLog = attrs.field(factory=DrawnLog)
    trim_point: int = 0
    servers: dict[NodeId, Server] = attrs.field(factory=dict)
    down: set[NodeId] = attrs.field(factory=set)
    """Nodes that do not answer."""
    holds: dict[str, int] = attrs.field(factory=dict)

    async def server(self, number: int = 1) -> Server:
        """A new server with an empty store."""
        directory = await open_store_directory(self.folder / f"server-{number}")
        self.stack.push_async_callback(directory.close)
        store, settings = await directory.open(), SnapshotSettings(keep=9)
        snapshotter = await Snapshotter.open(directory.checkpoints, self.clock, settings)
        service = SnapshotService(snapshotter, CLUSTER, self.world.nursery, self._hold, self.clock)
        made = self.servers[NodeId(number)] = Server(directory, store, snapshotter, service)
        return made

    async def _hold(self, name: str, position: LogPosition, seconds: float) -> None:
        self.holds[name] = position

    def post(self, node: NodeId, request: Request[Any], done: Callable[[Any], None], timeout_seconds: float) -> None:
        async def call() -> None:
            try:
                done(await self.call(node, request, timeout_seconds))
            except VirtualLogError as error:
                done(error)

        self.world.nursery.start_soon(call)

    async def call(self, node: NodeId, request: Request[Any], timeout_seconds: float) -> Any:
        await trio.lowlevel.checkpoint()
        server = self.servers.get(node)
        if node in self.down:
            raise UnavailableError(f"node {node} is down")
        if server is None:
            raise UnsupportedError(f"node {node} is no server of the database")
        match request:
            case GetDatabaseStatus():
                return DatabaseStatus(state=SERVING)
            case PlaceHold(name=name, position=position):
                self.holds[name] = position
                return Done()
            case ReleaseHold(name=name):
                self.holds.pop(name, None)
                return Done()
        answers = list[Outcome[Any]]()
        answered = trio.Event()

        def answer(outcome: Outcome[Any]) -> None:
            answers.append(outcome)
            answered.set()

        server.service.handlers[type(request)](request, answer)
        await answered.wait()
        (outcome,) = answers
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def past(
        self,
        backups: Sequence[BackupManifest] = (),
        parts: Sequence[LogPart] = (),
        open_files: OpenDirectory | None = None,
        **settings: Any,
    ) -> PastDatabase:
        """The past of the log from its trim point on, and of saved parts."""
        environment = Environment(
            services=self, clock=self.clock, random=random.Random(1), nursery=self.world.nursery
        )  # fmt: skip
        client = VirtualLog(
            self.world.metastore, self.world.providers, environment, planner=no_nodes, settings=SETTINGS
        )
        found = [LogPart(self.trim_point, self.log.tail, self.log), *parts]
        past = PastLog(
            source=JoinedLog(found), spans=merged((part.start, part.stop) for part in found),
            tail=LogPosition(self.log.tail), trim_point=LogPosition(self.trim_point), backups=backups,
        )  # fmt: skip
        (self.folder / "scratch").mkdir(exist_ok=True)
        states = PastStates(
            log=client, past=past, place=None if open_files is None else BackupPlace("memory://backups", open_files),
            pace=ReadPace(self.clock, 1e12), settings=ScratchSettings(folder=self.folder / "scratch", **settings),
            tell=lambda step, position: None,
        )  # fmt: skip
        return PastDatabase(states)


@asynccontextmanager
async def past_bench(folder: Path) -> AsyncIterator[PastBench]:
    """Servers on one log; the register says that a database is on it."""
    async with world() as w, AsyncExitStack() as stack:
        w.metastore.values[-1] = attrs.evolve(w.register, database=True).encode()
        yield PastBench(w, SkippingClock(), folder, stack)
