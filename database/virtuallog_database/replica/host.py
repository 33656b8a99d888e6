"""Host that keeps a replica running in a directory, and installs another store under it when
needed.

    restoring     the log lacks what the store needs: a peer's snapshot or a compaction is installed
    catching up   the log is played up to its tail of that moment
    serving       the replica follows, and may be used
       |
       |--- the log was trimmed past the cursor (this process stood still for too long): again
       |    from the top
       '--- a retryable error has ended a task of the replica: the same, after a pause

Snapshots are installed by `virtuallog_database.snapshots.restorer`; pauses are those of
`virtuallog.runtime.restart_backoff`.

The span from the first state to the last is one *incarnation* (`ReplicaIncarnation`, `Host.life`):
a store, a replica, a database, watches. The next one has new objects, and their users (connections
of clients, say) start anew as well. The same host serves a node, a program that embeds a replica,
and the simulator.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import NodeId
from virtuallog.runtime import log
from virtuallog.runtime.restart_backoff import RestartBackoff, is_bug, retryable_cause
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.errors import SnapshotNeededError
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_database.ports import LocalStore, StoreDirectory
from virtuallog_database.replica.database import Database, UpkeepSettings
from virtuallog_database.replica.replica import Replica, ReplicaSettings
from virtuallog_database.snapshots.compaction_store import CompactionStore
from virtuallog_database.snapshots.metrics import SnapshotMetrics
from virtuallog_database.snapshots.policy import SnapshotSettings
from virtuallog_database.snapshots.restorer import Restorer, release_own_hold
from virtuallog_database.snapshots.snapshotter import Snapshotter

RETRY_SECONDS: Final = 0.5
"""Pause between two attempts to learn the tail while the log does not answer."""


class HostState(enum.Enum):
    """Progress of a host; see the module's docstring."""

    OPENING = "opening"
    RESTORING = "restoring"
    CATCHING_UP = "catching up"
    SERVING = "serving"


@attrs.frozen(kw_only=True)
class HostSettings:
    """Settings of a replica, its snapshots and its database."""

    replica: ReplicaSettings = attrs.field(factory=ReplicaSettings)
    snapshots: SnapshotSettings = attrs.field(factory=SnapshotSettings)
    upkeep: UpkeepSettings = attrs.field(factory=UpkeepSettings)
    places: Sequence[CompactionStore] = ()
    """Locations of compactions that a store can start from, besides the snapshots of peers."""


@attrs.frozen(kw_only=True, eq=False)
class ReplicaIncarnation:
    """Everything that exists between two installed snapshots."""

    store: LocalStore
    replica: Replica
    database: Database
    snapshots: Snapshotter
    environment: Environment
    """Environment whose nursery ends with this incarnation."""


@attrs.define(eq=False, kw_only=True)
class Host:
    """Runs one incarnation of a replica after the other.

    Args:
        log: the log to play. Not closed here.
        directory: directory of the store. Not closed here.
        environment: clock, services and nursery to run in.
        identity: identity of the replica.
        cluster: id of the log's cluster; needed as soon as `run` is called.
        peers: nodes that may have a snapshot.
        settings: settings of the host.
    """

    log: VirtualLog
    directory: StoreDirectory
    environment: Environment
    identity: ReplicaIdentity
    cluster: bytes
    peers: Callable[[], Sequence[NodeId]]
    settings: HostSettings = attrs.field(factory=HostSettings)
    state: HostState = attrs.field(default=HostState.OPENING, init=False)
    life: ReplicaIncarnation | None = attrs.field(default=None, init=False)
    """The current incarnation, from `catching up` on. None while there is no replica."""
    meter: SnapshotMetrics = attrs.field(factory=SnapshotMetrics, init=False)
    """Metrics of snapshots taken and restored, over all incarnations."""
    setbacks: RestartBackoff = attrs.field(factory=RestartBackoff, init=False)
    """Causes of restarts, with the backoff between them."""
    _lives: int = attrs.field(default=0, init=False)
    """Incarnations so far, over all calls of `run`."""
    _restorer: Restorer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._restorer = Restorer(
            directory=self.directory,
            services=self.environment.services,
            clock=self.environment.clock,
            random=self.environment.random,
            cluster=self.cluster,
            replica=self.identity.name,
            peers=self.peers,
            trim_point=self.log.find_trim_point,
            meter=self.meter,
            places=self.settings.places,
        )

    @property
    def waiting_for(self) -> str:
        """Obstacle to restoring a snapshot; empty if there is none."""
        return self._restorer.waiting_for

    async def run(self, attend: Callable[[ReplicaIncarnation], Awaitable[None]]) -> None:
        """Keep a replica running until cancelled, or until it can no longer be trusted. May be
        called again once it has ended.

        Args:
            attend: called for each incarnation once it serves, and cancelled when that ends. An
                error that it raises ends the incarnation, and the host as well unless it is
                retryable.

        Raises (within exception groups):
            VirtualLogError: this replica must stop; the error gives the reason. Never a
                RetryableError alone.
        """
        while True:
            self.state = HostState.RESTORING
            try:
                await self._live_once(attend)
            except (VirtualLogError, BaseExceptionGroup) as error:
                setback = retryable_cause(error)
                if setback is None:
                    raise
                pause = self.setbacks.met(setback, self.environment.clock.monotonic())
                tell = log.error if is_bug(setback) else log.warning
                tell("the replica begins anew", reason=str(setback), seconds=pause, is_bug=is_bug(setback))
                await self.environment.clock.sleep(pause)

    async def _live_once(self, attend: Callable[[ReplicaIncarnation], Awaitable[None]]) -> None:
        async with self._open_store() as store:
            number, self._lives = self._lives, self._lives + 1
            try:
                await self._live(store, number, attend)
            except* SnapshotNeededError as group:
                log.warning("a snapshot is needed", reason=str(group.exceptions[0]))
            finally:
                self.life = None

    @asynccontextmanager
    async def _open_store(self) -> AsyncIterator[LocalStore]:
        store = await self._restorer.open_store()
        try:
            yield store
        finally:
            # Shielded: a process that shuts down flushes, so that the next one need not replay what
            # this one has applied. It takes
            # as long as the disk does, since a write cannot be recalled. An operator in a hurry may
            # kill the process and loses nothing.
            with trio.CancelScope(shield=True):
                await _flush(store)
                await store.close()

    async def _live(
        self, store: LocalStore, number: int, attend: Callable[[ReplicaIncarnation], Awaitable[None]]
    ) -> None:
        async with trio.open_nursery() as nursery:
            environment = attrs.evolve(self.environment, nursery=nursery)
            database = Database(clock=environment.clock, random=environment.random, settings=self.settings.upkeep)
            identity = attrs.evolve(self.identity, life=number)
            replica = Replica(self.log, store, environment, identity, database, self.settings.replica)
            database.rollout = replica.stack.find(RolloutEngine)
            database.membership = replica.stack.find(ViewTrackingEngine)
            snapshots = await Snapshotter.open(
                self.directory.checkpoints, environment.clock, self.settings.snapshots, self.meter
            )
            life = ReplicaIncarnation(
                store=store, replica=replica, database=database, snapshots=snapshots, environment=environment
            )  # fmt: skip
            self.state = HostState.CATCHING_UP
            await nursery.start(replica.run)
            self.life = life
            nursery.start_soon(snapshots.run, replica)
            nursery.start_soon(database.run)
            await self._catch_up(replica)
            if (view := replica.stack.find(ViewTrackingEngine)) is not None:
                nursery.start_soon(release_own_hold, identity.name, view, environment.clock)
            self.state = HostState.SERVING
            await attend(life)
            await trio.sleep_forever()

    async def _catch_up(self, replica: Replica) -> None:
        while True:
            try:
                await replica.sync()
            except RetryableError as error:
                log.info("the log cannot be played yet", reason=str(error))
                await self.environment.clock.sleep(RETRY_SECONDS)
            else:
                return


async def _flush(store: LocalStore) -> None:
    try:
        await store.flush()
    except VirtualLogError as error:
        log.warning("the store was not flushed in the end", reason=str(error))
