"""Replicas over memory loglets, and an application whose state is the list of what it was given."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import trio

from tests.virtuallog.client.world import World
from virtuallog.client.appender import AppenderSettings
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import StorageError, UnavailableError, VirtualLogError
from virtuallog.contract.loglet import Loglet, Placed
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId, Tail
from virtuallog.testing.sim.process import CrashedError
from virtuallog_database.engines.base.base_engine import BaseSettings
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.layers.contract import Engine
from virtuallog_database.engines.layers.layer import Layer, LayerContext
from virtuallog_database.engines.layers.replicated_call import propose_and_wait
from virtuallog_database.engines.session_order import SessionOrderSettings
from virtuallog_database.engines.stack import Recipe, StackSettings, database_recipe
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_database.ports import LocalStore, StoreReader
from virtuallog_database.replica.replica import Replica, ReplicaSettings
from virtuallog_database.testing.memory_store import MemoryDisk
from virtuallog_database.transaction import StoreTransaction
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider

ITEMS = (b"item/", b"item0")


@attrs.define(eq=False)
class ListApplication:
    """Appends each command to a list in the store. Some commands go wrong: those that start with

    "refuse": after having written, with an error that every replica meets; "disk": with one that only this replica meets. Those that start with
    "heavy" count as a hundred operations.
    """

    engine: Engine = attrs.field(init=False)
    store: LocalStore = attrs.field(init=False)
    seen: list[tuple[LogPosition, bytes]] = attrs.field(factory=list)
    """Calls of `post_apply`."""
    loads: int = 0

    def attach(self, engine: Engine, store: LocalStore) -> None:
        self.engine, self.store = engine, store

    def load(self) -> None:
        self.loads += 1

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> int:
        number = len(items_of(transaction))
        transaction.operations += 100 if entry.payload.startswith(b"heavy") else 1
        transaction.put(ITEMS[0] + number.to_bytes(8, "big"), entry.payload)
        if entry.payload.startswith(b"refuse"):
            raise ValueError(entry.payload)
        if entry.payload.startswith(b"disk"):
            raise StorageError("the disk of this replica")
        return number

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        self.seen.append((position, entry.payload))

    @property
    def items(self) -> list[bytes]:
        """The list, as it is in the store."""
        return items_of(self.store)


def items_of(store: StoreReader | StoreTransaction) -> list[bytes]:
    """The list of a `ListApplication`."""
    return [value for _, value in store.scan(ITEMS, 1 << 20)]


@attrs.define
class MoodyLoglet:
    """A memory loglet that appends, and answers, as its provider is in the mood for."""

    inner: MemoryLoglet
    provider: MoodyProvider

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        self.provider.appends += 1
        if self.provider.deaf:
            raise UnavailableError("lost on the way there")
        places = await self.inner.append(batch, opens=opens, expected_tail=expected_tail)
        while self.provider.slow:
            await trio.sleep(0.01)
        if self.provider.mute:
            raise UnavailableError("lost on the way back")
        return places

    async def check_tail(self) -> Tail:
        self.provider.tail_checks += 1
        tail = await self.inner.check_tail()
        await trio.sleep(self.provider.tail_seconds)
        return tail

    async def wait_tail(self, past: LogletOffset) -> Tail:
        if self.provider.secretive:
            await trio.sleep_forever()
        return await self.inner.wait_tail(past)

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        self.provider.reads += 1
        while self.provider.blind:
            await trio.sleep(0.01)
        return await self.inner.read(start, stop, max_bytes)

    async def seal(self) -> None:
        await self.inner.seal()

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        self.provider.trims.append(offset)
        if self.provider.trim_refusal is not None:
            raise self.provider.trim_refusal
        return await self.inner.prefix_trim(offset)


@attrs.define
class MoodyProvider(MemoryProvider):
    """Counts what is asked for."""

    deaf: bool = False
    """Appends do nothing, and their callers hear nothing."""
    mute: bool = False
    """Appends are done, and their callers hear nothing."""
    slow: bool = False
    """Appends are done, their callers hear so later."""
    secretive: bool = False
    """Replicas cannot learn by waiting that the log has grown."""
    blind: bool = False
    """Reads of the log's content block."""
    trim_refusal: VirtualLogError | None = None
    """Why nothing can be trimmed."""
    tail_seconds: float = 0.0
    appends: int = 0
    reads: int = 0
    tail_checks: int = 0
    trims: list[int] = attrs.field(factory=list)

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:  # type: ignore[override]
        return MoodyLoglet(MemoryProvider.open(self, segment, config, environment), self)


SETTINGS = StackSettings(
    base=BaseSettings(appender=AppenderSettings(give_up=1.0)), session_order=SessionOrderSettings(give_up=8.0)
)


def only_base(_: LayerContext, __: StackSettings) -> Sequence[Layer]:
    """The application directly on the base."""
    return []


@attrs.define(eq=False)
class Running:
    """A replica that plays."""

    replica: Replica
    application: Any
    """A ListApplication, unless another one was asked for."""
    disk: MemoryDisk
    log: VirtualLog
    scope: trio.CancelScope
    ended: trio.Event = attrs.field(factory=trio.Event)
    failure: VirtualLogError | None = None
    """Why it ended."""

    async def propose(self, payload: bytes) -> Any:
        """Results of `apply` here."""
        return await propose_and_wait(self.application.engine, Entry(payload))

    async def crash(self, chance: random.Random | None = None) -> None:
        """The process ends abruptly; its disk falls back to some moment, or with no `chance` keeps all."""
        self.log.view.environment.clock._process.crash()  # type: ignore[attr-defined]
        self.scope.cancel()
        await self.ended.wait()
        if chance is not None:
            self.disk.crash(chance)


@attrs.define
class Replicas:
    """Starts replicas of one log."""

    world: World
    provider: MoodyProvider
    nursery: trio.Nursery
    make_application: Callable[[Environment], Any] = lambda _: ListApplication()
    boots: int = 0

    async def start(
        self,
        node: int = 1,
        disk: MemoryDisk | None = None,
        recipe: Recipe = database_recipe,
        settings: StackSettings = SETTINGS,
        store: str = "",
        rate: float = 1.0,
    ) -> Running:
        """One more, on this disk, which is called `store`; its clock has another `rate` than true time."""
        self.boots += 1
        disk = disk or MemoryDisk()
        made: list[Running] = []
        identity = ReplicaIdentity(node=NodeId(node), store=store.encode() or b"%16d" % node, boot=self.boots)
        replica_settings = ReplicaSettings(stack=settings, recipe=recipe)
        await self.nursery.start(self._run, identity, disk, replica_settings, rate, made)
        return made[0]

    async def _run(
        self,
        identity: ReplicaIdentity,
        disk: MemoryDisk,
        settings: ReplicaSettings,
        rate: float,
        made: list[Running],
        task_status: trio.TaskStatus[None],
    ) -> None:
        try:
            await self._live(identity, disk, settings, rate, made, task_status)
        except* CrashedError:
            pass  # what tasks of a dead process still tried
        finally:
            made[0].ended.set()

    async def _live(
        self,
        identity: ReplicaIdentity,
        disk: MemoryDisk,
        settings: ReplicaSettings,
        rate: float,
        made: list[Running],
        task_status: trio.TaskStatus[None],
    ) -> None:
        async with trio.open_nursery() as nursery:
            log = self.world.client(nursery)
            environment = log.view.environment
            application = self.make_application(environment)
            environment.clock.rate = rate  # type: ignore[attr-defined]
            store = disk.open(environment.clock._process)  # type: ignore[attr-defined]
            replica = Replica(log, store, environment, identity, application, settings)
            made.append(Running(replica, application, disk, log, nursery.cancel_scope))
            try:
                await replica.run(task_status=task_status)
            except VirtualLogError as error:
                made[0].failure = error
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def replicas() -> AsyncIterator[Replicas]:
    """A log without replicas yet."""
    provider = MoodyProvider()
    async with trio.open_nursery() as nursery:
        world = World(nursery, providers={"memory": provider, "sparse": MemoryProvider("sparse", 4)}, roles=frozenset())
        yield Replicas(world, provider, nursery)
        nursery.cancel_scope.cancel()


async def caught_up(*all_of_them: Running) -> None:
    """Return once each of them has applied all that is in the log now."""
    for running in all_of_them:
        await running.replica.sync()
