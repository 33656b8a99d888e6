"""A replica: a local store, the stack of engines above the log, and the task that plays the log
into the store.

The same for a node that serves clients, for a program that embeds a database, and in the simulator.
"""

from __future__ import annotations

from typing import Final

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Done, Environment
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.base.base_engine import BaseEngine
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.layers.contract import Application
from virtuallog_database.engines.layers.layer import LayerContext
from virtuallog_database.engines.stack import Recipe, StackSettings, build, database_recipe
from virtuallog_database.identity import ReplicaIdentity
from virtuallog_database.ports import LocalStore


@attrs.frozen(kw_only=True)
class ReplicaSettings:
    """Settings of a replica."""

    stack: StackSettings = attrs.field(factory=StackSettings)
    recipe: Recipe = database_recipe
    """Factory of the stack's engines."""
    passive: bool = False
    """True to only follow: join no view, so that the log is not kept for this replica, and propose
    only what its user submits. SOSP'21 (figure 6) has another stack for that. Here the engines are
    the same, as each has a part of the state."""


@attrs.frozen(kw_only=True)
class ReplicaStatistics:
    """Work of a replica since it was made."""

    cursor: LogPosition
    """First position that is not applied."""
    entries: int
    """Entries applied since the start."""
    payload_bytes: int
    """Payload bytes of these entries."""


class Replica:
    """Makes one store follow the log. Runs once: after installing another snapshot, make another
    replica."""

    def __init__(
        self,
        log: VirtualLog,
        store: LocalStore,
        environment: Environment,
        identity: ReplicaIdentity,
        application: Application,
        settings: ReplicaSettings | None = None,
    ) -> None:
        """Build the stack and attach the application, without any call yet. Closes neither the log
        nor the store."""
        settings = settings or ReplicaSettings()
        context = LayerContext(
            identity=identity, environment=environment, log=log, store=store, passive=settings.passive
        )
        self.identity: Final = identity
        self._base: Final = BaseEngine(context, settings.stack.base)
        self.stack: Final = build(self._base, settings.recipe(context, settings.stack), application)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Play the log until cancelled. Started once the soft state has been made from the store.
        From then on `propose` may be called, though the store may be far behind the log. When the
        task ends, all pending callers get UnavailableError.

        Raises:
            SnapshotNeededError: the log has been trimmed past the cursor.
            BinaryTooOldError: the log or the store has content of a later version of this program.
            Exception: one of `layer.NONDETERMINISTIC`: this replica can no longer be trusted.
        """
        base = self._base
        try:
            self.stack.load()
            async with trio.open_nursery() as nursery:
                base.open()
                for layer in self.stack.layers:
                    nursery.start_soon(base.guard, layer.run)
                task_status.started()
                await base.failed.wait()
                nursery.cancel_scope.cancel()
        finally:
            base.close()
            self.stack.stop(
                UnavailableError(f"unknown outcome: the replica has stopped: {base.failure or 'cancelled'}")
            )
        if base.failure is not None:
            raise base.failure

    def propose(self, payload: bytes, done: Done) -> None:
        """See `Engine.propose`."""
        self.stack.top.propose(Entry(payload), done)

    async def sync(self) -> None:
        """See `Engine.sync`."""
        await self.stack.top.sync()

    @property
    def cursor(self) -> LogPosition:
        """First position that is not applied."""
        return self._base.cursor

    @property
    def applied(self) -> int:
        """Entries applied since the start."""
        return self._base.meter.entries

    @property
    def applied_bytes(self) -> int:
        """Payload bytes of these entries."""
        return self._base.meter.bytes

    async def wait_applied(self, position: LogPosition) -> None:
        """Return once everything below `position` is applied here.

        Raises:
            UnavailableError: the replica has stopped.
        """
        await self._base.wait_applied(position)

    def snapshotted(self, position: LogPosition) -> None:
        """Report a durable snapshot with everything below `position` applied: this replica needs no
        earlier part of the log."""
        self.stack.snapshotted(position)

    def set_trim_prefix(self, position: LogPosition) -> None:
        """Report that the application needs nothing of the log below `position`."""
        self.stack.top.set_trim_prefix(position)

    def statistics(self) -> ReplicaStatistics:
        """Statistics as of now."""
        return ReplicaStatistics(cursor=self.cursor, entries=self.applied, payload_bytes=self.applied_bytes)

    def metrics(self) -> list[MetricFamily]:
        """Metrics of all layers."""
        return self.stack.metrics()
