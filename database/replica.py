"""A replica: a local store, the stack of engines above the log, and the task that plays the log into the store.

The same for a node that serves clients, for a program that embeds a database, and in the simulator.
"""

from __future__ import annotations

import attrs
import trio

from database.engines.api import Application
from database.engines.entry import Entry
from database.engines.stack import Recipe, Stack, StackSettings, zelos
from database.identity import ReplicaIdentity
from database.ports import LocalStore
from virtuallog.metrics import Family
from virtuallog.ports import Done, Environment
from virtuallog.types import LogPosition
from virtuallog.virtual_log import VirtualLog


@attrs.frozen(kw_only=True)
class ReplicaSettings:
    """How a replica behaves."""

    stack: StackSettings = attrs.field(factory=StackSettings)
    recipe: Recipe = zelos
    """Which engines there are."""


@attrs.frozen(kw_only=True)
class ReplicaStatistics:
    """What a replica has done since it was made."""

    cursor: LogPosition
    """First position that is not applied."""
    entries: int
    """Applied since the start."""


class Replica:
    """Makes one store follow the log. Once `run` has ended, however, it is of no use any more."""

    def __init__(
        self,
        log: VirtualLog,
        store: LocalStore,
        environment: Environment,
        identity: ReplicaIdentity,
        application: Application,
        settings: ReplicaSettings | None = None,
    ) -> None:
        """Builds the stack and attaches the application; makes no call yet. Closes neither the log nor the store."""
        self.identity = identity
        self.stack: Stack

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Play the log until cancelled. Started once the soft state has been made from the store: from then on `propose` may be
        called; the store may still be far behind the log.

        Raises:
            SnapshotNeededError: the log has been trimmed past the cursor.
            MalformedError: what is in the log is no entry of a database of this version.
            Exception: one of `failures.NONDETERMINISTIC`: this replica can no longer be trusted.
        """

    def propose(self, payload: bytes, done: Done) -> None:
        """See `Engine.propose`."""
        self.stack.top.propose(Entry(payload), done)

    async def sync(self) -> None:
        """See `Engine.sync`."""
        await self.stack.top.sync()

    @property
    def cursor(self) -> LogPosition:
        """First position that is not applied."""
        raise NotImplementedError

    @property
    def applied(self) -> int:
        """Entries that were applied since the start."""
        raise NotImplementedError

    async def wait_applied(self, position: LogPosition) -> None:
        """Return once everything below `position` is applied here."""

    def snapshotted(self, position: LogPosition) -> None:
        """There is a durable snapshot of the store in which everything below `position` is applied: of all that comes before
        it the log is no longer needed by this replica."""

    def set_trim_prefix(self, position: LogPosition) -> None:
        """The application needs nothing of the log below `position` any more."""
        self.stack.top.set_trim_prefix(position)

    def statistics(self) -> ReplicaStatistics:
        """As of now."""
        raise NotImplementedError

    def metrics(self) -> list[Family]:
        """The figures of all layers."""
        raise NotImplementedError
