"""The database as a replicated service, used by the server of ZooKeeper's protocol and by programs
that embed a replica.

    database = Database(clock=..., random=...)
    replica = Replica(log, store, environment, identity, application=database)
    ... replica.run
    await nursery.start(database.run)       # expiry, touches, reaping

It is the application on top of a stack of engines. Applied commands become visible in order, and
each in three steps: its watches fire; servers of sessions that have ended or moved are notified;
then, at its proposer, `done` is called (command_proposals.py).

Reaping removes containers that have become empty and znodes past their time to live. Every replica
may propose it, and looks about once a minute at a moment of its own, so usually one of them finds
all. The condition is checked again where the proposal is applied (`session_operations.reap`), so
two proposals do no harm.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import (
    OverloadedError,
    SealedError,
    StorageError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.metrics import MetricFamily, gauge
from virtuallog.contract.ports import Clock, Outcome
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import view
from virtuallog_database.engines.core.enabled_engines import STATE, TABLE, is_enabled
from virtuallog_database.engines.core.entry import Entry, HeavyEntry
from virtuallog_database.engines.layers.contract import Engine
from virtuallog_database.engines.layers.replicated_call import propose_and_wait
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.ports import LocalStore
from virtuallog_database.replica.command_proposals import SERVER, CommandProposals
from virtuallog_database.replica.session_expiry import SessionExpiry
from virtuallog_database.state.core import variable_commands, variables
from virtuallog_database.state.core.variable_commands import Stage, Update, is_variable_command
from virtuallog_database.state.core.variables import UpdateResult, Variables
from virtuallog_database.table.core import commands as table_commands
from virtuallog_database.table.core import execution
from virtuallog_database.table.core.commands import Commit, is_table_command
from virtuallog_database.table.core.execution import CommitResult
from virtuallog_database.table.core.table_state import TableState
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import acl, apply, bounds, command_codec
from virtuallog_database.tree.commands import ExpireSessions, Reap, Touch
from virtuallog_database.tree.results import ChangeKind, RefusedError, Result
from virtuallog_database.tree.session_operations import is_reapable
from virtuallog_database.tree.tree import Tree
from virtuallog_database.tree.watches import Watcher, Watches, WatchMode

REAP_PAGE_COUNT: Final = 256
"""Znodes checked in one scheduler turn (some 2 ms), and the most in one command."""


JOIN_SECONDS: Final = 15.0
"""Time that the first write of a variable or a row by a passive replica waits for a server to join the view: a new server announces itself
behind its first 5 s (`ViewSettings.announce_seconds`)."""
JOIN_POLL_SECONDS: Final = 0.1
"""Interval of looking for it."""


@attrs.frozen(kw_only=True)
class UpkeepSettings:
    """Intervals of a replica's maintenance."""

    reap_seconds: float = 60.0
    """Approximate seconds between two looks for containers and TTL znodes to reap; ZooKeeper's
    `znode.container.checkIntervalMs`."""


@attrs.define(eq=False, kw_only=True)
class Database:
    """One replica's database. Implements `virtuallog_database.engines.layers.contract.Application`."""

    clock: Clock
    random: random.Random
    settings: UpkeepSettings = attrs.field(factory=UpkeepSettings)
    watches: Watches = attrs.field(factory=Watches, init=False)
    tree: Tree = attrs.field(init=False)
    """State of the tree. Set by `attach`."""
    variables: Variables = attrs.field(init=False)
    """Variables beside the tree (`virtuallog_database.state`). Set by `attach`."""
    tables: TableState = attrs.field(init=False)
    """Typed tables beside the tree (`virtuallog_database.table`). Set by `attach`."""
    rollout: RolloutEngine | None = attrs.field(default=None, init=False)
    """Engine that enables variables and tables when one is first written. Set by `virtuallog_database.replica.host`."""
    membership: ViewTrackingEngine | None = attrs.field(default=None, init=False)
    """Engine by which this replica joins the view. Set by `virtuallog_database.replica.host`."""
    expiry: SessionExpiry = attrs.field(init=False)
    """Expiry of sessions. Set by `attach`."""
    proposals: CommandProposals = attrs.field(init=False)
    """Commands of this replica on their way into the log. Set by `attach`."""
    _engine: Engine = attrs.field(init=False)
    _store: LocalStore = attrs.field(init=False)
    _watchers: dict[bytes, dict[object, Callable[[Update], None]]] = attrs.field(factory=dict, init=False)
    """Callbacks for updates of a variable, by its name."""
    _pause_scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    """Cancelled when the pause between two looks at the sessions has become shorter."""

    # -- for those who use it -------------------------------------------------------------------------------------------

    async def sync(self) -> None:
        """Wait until the tree shows everything that any replica had shown before the call,
        completed or not. Always asks the log.

        Raises:
            UnavailableError: the log cannot be asked now.
        """
        await self._engine.sync()

    async def prepare_read(self) -> None:
        """Begin a linearizable read, which `confirm` ends: see `Engine.prepare_read`.

        Raises:
            UnavailableError: the log has to be asked, and cannot be.
        """
        await self._engine.prepare_read()

    async def confirm(self) -> None:
        """End a linearizable read: on return its result may be given to the client (see
        `Engine.confirm`).

        Raises:
            UnavailableError: the replica has stopped.
        """
        await self._engine.confirm()

    async def change_variable(self, command: Update | Stage) -> UpdateResult:
        """Put a command on a variable into the log, and wait for its result. The command of a cancelled caller may still happen.

        Raises:
            UnsupportedError: variables are not enabled, and a server of the database does not know them; nothing was done.
            TooLargeError, InvalidSettingError: nothing was done.
            UnavailableError: unknown outcome.
        """
        entry = HeavyEntry(variable_commands.encode(command), operations=command.operations)
        result: UpdateResult = await self._change_beside_tree(STATE, entry)
        return result

    async def commit_tables(self, command: Commit) -> CommitResult:
        """Put the end of a transaction on tables into the log, and wait for its result. The command of a cancelled caller may still happen.

        Raises:
            UnsupportedError: tables are not enabled, and a server of the database does not know them; nothing was done.
            TooLargeError, InvalidSettingError: nothing was done.
            UnavailableError: unknown outcome.
        """
        entry = HeavyEntry(table_commands.encode(command), operations=command.operations)
        result: CommitResult = await self._change_beside_tree(TABLE, entry)
        return result

    async def _change_beside_tree(self, switch: str, entry: Entry) -> Any:
        try:
            if self.rollout is not None and not is_enabled(self._store, switch):
                await self._wait_for_a_member()
                await self.rollout.enable(switch)
            return await propose_and_wait(self._engine, entry)
        except SealedError as error:
            raise UnavailableError(f"the log takes nothing: {error}") from error
        except StorageError as error:  # the store is closed: another one is being installed
            raise UnavailableError(f"this replica has no state: {error}") from error

    async def _wait_for_a_member(self) -> None:
        """Have a server in the view: this replica, if it is one and none is there, or the first one that announces itself."""
        if self.membership is not None and not view.members(self._store):
            await self.membership.announce()
        with self.clock.timeout(JOIN_SECONDS):
            while not view.members(self._store):
                await self.clock.sleep(JOIN_POLL_SECONDS)
        if not view.members(self._store):
            raise UnavailableError("no server of the database has joined its view yet: nothing was done")

    def snapshot_variables(self) -> Variables:
        """Variables as they are now, for long reads while writes go on. Release it soon."""
        return Variables(self._store.snapshot())

    def snapshot_tables(self) -> TableState:
        """Tables as they are now, for a transaction while writes go on. Release it soon."""
        return TableState(self._store.snapshot())

    def watch_variable(self, name: bytes, changed: Callable[[Update], None]) -> Callable[[], None]:
        """Call `changed` for each update of a variable that is applied from now on; returns a function that ends that."""
        watchers = self._watchers.setdefault(name, {})
        token = object()
        watchers[token] = changed

        def end() -> None:
            del watchers[token]

        return end

    def set_watches(self, watcher: Watcher, relative_zxid: int, *, data: Sequence[str] = (), exist: Sequence[str] = (),
                    child: Sequence[str] = (), persistent: Sequence[str] = (), recursive: Sequence[str] = ()) -> None:  # fmt: skip
        """Set watches of a reconnected client that has seen everything up to `relative_zxid`.
        Watches whose change it has missed fire at once; the others are set. Each path counts once.

        Raises:
            OverloadedError: it has missed changes of znodes with long ACLs, and reading these is
                more work than a command of that size may do. Earlier paths are done.
        """
        missed = ((ChangeKind.DATA_CHANGED, data), (ChangeKind.CREATED, exist), (ChangeKind.CHILDREN_CHANGED, child))
        most = self.tree.looked_at_acls + bounds.allowance(sum(len(path) for _, asked in missed for path in asked))
        for awaited, asked in missed:
            for path in dict.fromkeys(asked):
                self._set_watch(watcher, path, relative_zxid, awaited)
                if self.tree.looked_at_acls > most:
                    raise OverloadedError("to restore these watches takes more work than a request of this size may do")
        for path in persistent:
            self.watches.add(path, watcher, WatchMode.PERSISTENT)
        for path in recursive:
            self.watches.add(path, watcher, WatchMode.PERSISTENT_RECURSIVE)

    def _set_watch(self, watcher: Watcher, path: str, relative_zxid: int, awaited: ChangeKind) -> None:
        """Set one watch, or fire it if its change was missed. `awaited` is the event to send;
        CREATED stands for an `exists` that found nothing. The event is sent only if the client may
        read the znode as it is now. A missing znode may be reported to any client, as by `exists`."""
        table = self.watches.child if awaited is ChangeKind.CHILDREN_CHANGED else self.watches.data
        try:
            stat = self.tree.exists(path)
        except RefusedError:
            if awaited is ChangeKind.CREATED:
                table.add(path, watcher)
            else:
                watcher.fire(ChangeKind.DELETED, path, self.tree.last_zxid)
            return
        changed = stat.pzxid if awaited is ChangeKind.CHILDREN_CHANGED else stat.mzxid
        if awaited is not ChangeKind.CREATED and changed <= relative_zxid:
            table.add(path, watcher)
        elif acl.allows(self.tree.look(path)[1], acl.READ, watcher.identities):
            watcher.fire(awaited, path, changed)

    def metrics(self) -> list[MetricFamily]:
        """Metrics as of now."""
        return database_families(self.tree, self.watches, self.expiry, self.proposals.outstanding)

    # -- for the stack --------------------------------------------------------------------------------------------------

    def attach(self, engine: Engine, store: LocalStore) -> None:
        """See `Application`."""
        self._engine = engine
        self._store = store
        self.variables = Variables(store)
        self.tables = TableState(store)
        self.proposals = CommandProposals(engine, self.clock)
        self.tree = Tree(store)
        self.expiry = SessionExpiry(self.tree, self.random, self._on_shorter_pause)

    def load(self) -> None:
        """See `Application`."""
        self.tree.load()
        self.expiry.load()

    def apply(
        self, transaction: StoreTransaction, entry: Entry, position: LogPosition
    ) -> Result | UpdateResult | CommitResult:
        """See `Applicator`. MalformedError for an unreadable command: all replicas refuse it."""
        if is_table_command(entry.payload):
            return execution.apply(transaction, table_commands.parse_untrusted(entry.payload))
        if is_variable_command(entry.payload):
            return variables.apply(transaction, variable_commands.parse_untrusted(entry.payload))
        return apply.apply(transaction, command_codec.parse_untrusted(entry.payload))

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        """See `Applicator`."""
        if isinstance(result, UpdateResult):
            self._changed(entry, result)
            return
        if isinstance(result, CommitResult):
            return
        assert isinstance(result, Result)
        self.tree.applied(result.zxid)
        for change, rights in zip(result.changes, result.rights, strict=True):
            self.watches.fire(change, result.zxid, rights)
        self.expiry.applied(result)

    def _changed(self, entry: Entry, result: UpdateResult) -> None:
        if not result.is_done or not self._watchers:
            return
        command = variable_commands.parse_untrusted(entry.payload)
        if isinstance(command, Update):
            for changed in list(self._watchers.get(command.name, {}).values()):
                changed(command)

    # -- upkeep ---------------------------------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Expire sessions, propose touches, and reap containers and TTL znodes until cancelled. May
        be started as soon as the replica runs; lost proposals are repeated."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keep_sessions)
            nursery.start_soon(self._reap)
            task_status.started()

    async def _keep_sessions(self) -> None:
        while True:
            await self._pause()
            try:
                await self.sync()
            except VirtualLogError:
                continue  # `SessionExpiry` detects the blind time by the clock; a fatal error ends the replica elsewhere
            now = self.clock.monotonic()
            for command in self.expiry.tick(now):
                self.proposals.submit(command, SERVER, partial(self._settled, command, now))

    def _on_shorter_pause(self) -> None:
        self._pause_scope.cancel()

    async def _pause(self) -> None:
        """Sleep until the next look. A session that begins meanwhile may need it earlier."""
        while True:
            with trio.CancelScope() as self._pause_scope:
                await self.clock.sleep(self.expiry.pause)
            if not self._pause_scope.cancelled_caught:
                return

    def _settled(self, command: Touch | ExpireSessions, proposed: float, outcome: Outcome[Result]) -> None:
        """Confirm a touch. Any other outcome is ignored: the next look repeats it if needed."""
        if isinstance(command, Touch) and isinstance(outcome, Result):
            self.expiry.confirm(command, proposed)

    async def _reap(self) -> None:
        while True:
            await self.clock.sleep(self.settings.reap_seconds * self.random.uniform(0.5, 1.5))
            async for command in reap_commands(self.tree, int(self.clock.wall() * 1000)):
                self.proposals.submit(command, SERVER, _ignore)


def _ignore(outcome: Outcome[Result]) -> None:
    """Ignore the outcome of a maintenance proposal: the next look repeats it if needed."""


def database_families(tree: Tree, watches: Watches, expiry: SessionExpiry, outstanding: int) -> list[MetricFamily]:
    """Metrics of the database as of now. The counters of the tree are part of the state, so nothing
    is counted for them."""
    meta = tree.meta
    return [
        gauge("virtuallog_database_zxid", "Number of the last command that this replica has applied.", meta.zxid),
        gauge("virtuallog_database_znodes", "Znodes in the tree.", meta.znodes),
        gauge("virtuallog_database_ephemerals", "Znodes that go with their sessions.", meta.ephemerals),
        gauge("virtuallog_database_sessions", "Sessions of all servers together.", meta.sessions),
        gauge("virtuallog_database_attached_sessions", "Sessions that this server serves.", expiry.attached),
        gauge("virtuallog_database_data_bytes", "Bytes of data in all znodes.", meta.data_bytes),
        gauge("virtuallog_database_watches", "Watches that clients of this server have set.", watches.count),
        gauge("virtuallog_database_outstanding_commands", "Proposed by this server, and not applied.", outstanding),
    ]


async def reap_commands(tree: Tree, now_ms: int) -> AsyncIterator[Reap]:
    """Commands to propose for the znodes that may be reaped at `now_ms`."""
    after = ""
    while page := tree.reapable(after, REAP_PAGE_COUNT):
        after = page[-1][0]
        found = tuple(path for path, znode in page if is_reapable(znode, now_ms))
        if found:
            yield Reap(found)
        await trio.lowlevel.checkpoint()
