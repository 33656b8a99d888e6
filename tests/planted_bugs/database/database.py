"""Bugs of the database: in watches, snapshots, trims, and in how entries are applied."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, Final
from weakref import WeakKeyDictionary

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.ports import Done
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import view
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.keys import CURSOR
from virtuallog_database.engines.core.liveness_timers import LivenessTimers
from virtuallog_database.engines.lease import LeaseEngine
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.ports import StoreReader
from virtuallog_database.replica.database import Database
from virtuallog_database.snapshots.policy import name_of
from virtuallog_database.snapshots.snapshotter import AppliedProgress, Snapshotter
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import apply, keys, session_operations
from virtuallog_database.tree.commands import Operation
from virtuallog_database.tree.execution import Execution
from virtuallog_database.tree.results import Change, ChangeKind, Error, Result, Rights
from virtuallog_database.tree.watches import Watcher, Watches, WatchMode, WatchTable
from virtuallog_server.zookeeper.wire.pipeline import PendingReply, Pipeline
from virtuallog_simulation.world.options import Options

CALM: Final = Options(faults=())
"""These need no faults, and are found sooner without."""
MODEL: Final = ["results as the model has them", "reads as the model has them"]
WATCHES: Final = ["watches fire once and first"]

committed_in_one_step = StoreTransaction.commit
finished_as_it_should = apply._finish
took_as_it_should = Snapshotter.take
was_silent = LivenessTimers.silent
fired_as_it_should = Watches.fire
_applied: Final = count()
_late: Final[WeakKeyDictionary[Database, list[tuple[Change, Rights]]]] = WeakKeyDictionary()
PUBLISHED: Final = "specs: ZooKeeper, section 3.4"


# -- sessions -------------------------------------------------------------------------------------------------------


@mutant(session_operations._end, scenario="zelos", options=CALM, found_by=[*MODEL, *WATCHES, "commands once"])
def ephemerals_outlive_their_session(execution: Execution, id_: int) -> None:
    """The record goes, the znodes stay."""
    execution.transaction.delete(keys.session(id_))
    execution.counters().sessions -= 1
    execution.ended.append(id_)


@mutant(Pipeline.write, scenario="zelos", options=CALM, found_by=["sessions never go back"])
def writes_behind_a_read_are_not_held(
    self: Pipeline, start: Callable[[PendingReply], None], size: int, after: Callable[[], None] = lambda: None
) -> None:
    """Waiting reads are served when later writes have been applied."""
    turn = PendingReply(size, after=after)
    self.held_bytes += size
    self._turns.append(turn)
    start(turn)


# -- watches --------------------------------------------------------------------------------------------------------


@mutant(WatchTable.take, scenario="zelos", options=CALM, published=PUBLISHED, found_by=WATCHES)
def watches_fire_for_ever(self: WatchTable, path: str, kind: ChangeKind) -> dict[Watcher, None]:
    """A standard watch is not taken away when it fires."""
    told = [
        each
        for each in self._modes.get(path, {})
        if kind is not ChangeKind.CHILDREN_CHANGED
        or self.contains(path, each, WatchMode.STANDARD)
        or self.contains(path, each, WatchMode.PERSISTENT)
    ]
    above = self._above(path) if kind is not ChangeKind.CHILDREN_CHANGED else {}
    return {**dict.fromkeys(told), **above}


@mutant(Watches.fire, scenario="zelos", options=CALM, published=PUBLISHED, found_by=WATCHES)
def a_delete_is_not_told_to_who_watches_the_parent(self: Watches, change: Change, zxid: int, rights: Rights) -> None:
    """Creations are."""
    kind, path = change
    if kind is not ChangeKind.DELETED:
        fired_as_it_should(self, change, zxid, rights)
        return
    self._tell({**self.data.take(path, kind), **self.child.take(path, kind)}, kind, path, zxid, rights[0])


@mutant(Database.post_apply, scenario="zelos", options=CALM, published=PUBLISHED, found_by=WATCHES)
def only_the_last_change_of_a_transaction_is_told(
    self: Database, entry: Entry, position: LogPosition, result: Any
) -> None:
    """A multi, or the end of a session, has several."""
    assert isinstance(result, Result)
    self.tree.applied(result.zxid)
    for change, rights in list(zip(result.changes, result.rights, strict=True))[-1:]:
        self.watches.fire(change, result.zxid, rights)
    self.expiry.applied(result)


@mutant(Database.post_apply, scenario="zelos", options=CALM, published="SOSP'21, section 3", found_by=WATCHES)
def events_come_one_command_late(self: Database, entry: Entry, position: LogPosition, result: Any) -> None:
    """Behind the answer to the command that they are about."""
    assert isinstance(result, Result)
    self.tree.applied(result.zxid)
    for change, rights in _late.get(self, []):
        self.watches.fire(change, result.zxid, rights)
    _late[self] = list(zip(result.changes, result.rights, strict=True))
    self.expiry.applied(result)


@mutant(
    Database._set_watch,
    scenario="zelos",
    options=CALM,
    published=PUBLISHED,
    found_by=["watches that come back", *WATCHES],
)
def what_was_missed_is_not_told(
    self: Database, watcher: Watcher, path: str, relative_zxid: int, awaited: ChangeKind
) -> None:
    """A client that comes back gets its watches, and hears of nothing that happened before."""
    table = self.watches.child if awaited is ChangeKind.CHILDREN_CHANGED else self.watches.data
    table.add(path, watcher)


# -- snapshots ------------------------------------------------------------------------------------------------------


@mutant(Snapshotter.take, scenario="zelos", found_by=["snapshots are durable before they are told"])
async def snapshots_are_told_before_they_are_durable(self: Snapshotter, replica: AppliedProgress) -> LogPosition:
    """The position goes out first, the flush follows."""
    replica.snapshotted(replica.cursor)
    return await took_as_it_should(self, replica)


@mutant(
    Snapshotter.take,
    scenario="zelos",
    found_by=["snapshots are durable before they are told"],
    published="specs: Delos, section 8.4, design traps",
)
async def what_is_applied_counts_as_durable(self: Snapshotter, replica: AppliedProgress) -> LogPosition:
    """The replica reports the cursor in memory, and not that of the snapshot."""
    position = replica.cursor
    if position > self.newest:
        await self.checkpoints.take(name_of(position))
        self._schedule.took(position, replica.applied_bytes, self._clock.monotonic())
        await self._clock.sleep(0.5)
        replica.snapshotted(replica.cursor)
    return self.newest


# -- trims ----------------------------------------------------------------------------------------------------------


@mutant(view.allowed, scenario="zelos", options=CALM, found_by=["trims leave what is needed"])
def trims_to_the_newest_snapshot(state: StoreReader) -> LogPosition:
    """The newest snapshot of any replica counts, not the oldest of all."""
    needed = [member.durable for member in view.members(state).values()]
    return max(needed, default=LogPosition(0))


@mutant(ViewTrackingEngine._hand_down, scenario="zelos", options=CALM, found_by=["trims leave what is needed"])
def trims_to_its_own_snapshot(self: ViewTrackingEngine) -> None:
    """The needs of the other replicas are ignored."""
    self.below.set_trim_prefix(min(self._above, self._durable))


@mutant(
    view.allowed,
    scenario="zelos",
    options=Options(faults=("lost database", "kill")),
    published="specs: Delos, section 8.4, design traps",
    found_by=["trims leave what is needed", "progress"],
)
def holds_hold_nothing(state: StoreReader) -> LogPosition:
    """Holds are ignored: a replica that restores a snapshot finds that the log has been trimmed meanwhile."""
    return min((member.durable for member in view.members(state).values()), default=LogPosition(0))


# -- the lease, timers ----------------------------------------------------------------------------------------------


@mutant(LeaseEngine._complete, scenario="leased", found_by=["linearizable reads"])
def writes_of_others_do_not_wait_for_the_holder(self: LeaseEngine, done: Done, result: Any) -> None:
    """They are completed, and the holder has not applied them."""
    done(result)


@mutant(LeaseEngine._tell_waiting, scenario="zelos", options=CALM, found_by=[*MODEL, *WATCHES])
def who_waited_for_the_holder_is_told_in_between(self: LeaseEngine) -> None:
    """The store shows what lies behind, and watches were not told of that."""
    grant = self._grant
    while self._waiting and (grant is None or self._is_ours or grant.applied >= self._waiting[0][0]):
        _, done, result = self._waiting.popleft()
        done(result)


@mutant(LivenessTimers.silent, scenario="zelos", options=CALM, found_by=["timers fire"])
def silence_lasts_half_as_long(self: LivenessTimers, name: str, seconds: float, now: float) -> bool:
    """Timers run out before their time."""
    return was_silent(self, name, seconds / 2, now)


# -- applying -------------------------------------------------------------------------------------------------------


@mutant(
    StoreTransaction.commit,
    scenario="zelos",
    options=CALM,
    published="SOSP'21, section 3.2",
    found_by=["effects and cursor move together"],
)
def cursor_outside_of_the_transaction(self: StoreTransaction) -> None:
    """It is written right behind the effects."""
    cursor = self._changes.pop(CURSOR, None)
    committed_in_one_step(self)
    if cursor is not None:
        self._store.write({CURSOR: cursor})


@mutant(
    apply._finish,
    scenario="zelos",
    options=CALM,
    published="specs: Delos, section 8.2",
    found_by=["equal cursors have equal states"],
)
def apply_counts_what_this_process_has_applied(
    execution: Execution, operation: Operation, error: Error, value: Any
) -> Result:
    """Something that is no function of the log gets into the state."""
    execution.counters().data_bytes += next(_applied) % 7
    return finished_as_it_should(execution, operation, error, value)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
