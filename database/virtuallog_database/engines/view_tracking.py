"""ViewTrackingEngine: trims the log to what every replica has made durable, and every hold allows
(SOSP'21, section 4).

Each replica announces the position of its newest durable snapshot: in a header of its usual
proposals, else in an entry of its own. The first announcement makes it a member of the view. A
silent member is ejected by a command, which any replica may propose and which names the last
announcement: if there was a later one, the command does nothing. So the view, and what may be
trimmed, is a function of the log; clocks only decide when a replica proposes to eject.

An ejected replica that comes back joins again with its next announcement. If the log has been
trimmed past its cursor by then, the base finds that when it plays, and the replica needs a peer's
snapshot.

Rules:
* A position is announced once the snapshot is durable, never when it is only applied: an unflushed
  store falls back in a crash.
* A member that a newer store of the same node replaces is gone: its disk was wiped, and no replica
  waits for it.
* The log is trimmed only to what is in the snapshots of several members, so that the state survives
  what the log survives. A lone replica, as the first one is for a while, could lose with its disk
  what three log servers had kept.
* Before ejecting, a replica makes sure that it was not absent itself. It plays all of the log
  (sync), leaves time in which the others can be heard, and ejects only a member that is still
  silent.

Departures: the header is there once in a while and when it says something new, not on every entry,
since only then does it change the state; holds, the floor (`core/view.py`) and the copies are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.metrics import MetricFamily, MetricKind, Sample
from virtuallog.contract.ports import Clock, Done
from virtuallog.contract.types import POSITION_MAX, LogPosition
from virtuallog_database.engines.core import holds, view
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.holds import DropHold, PlaceExactly, PlaceHold
from virtuallog_database.engines.core.liveness_timers import LivenessTimers
from virtuallog_database.engines.core.view import MEMBERS_MAX, Hold, Member
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.engines.layers.command_layer import CommandLayer
from virtuallog_database.identity import node_of
from virtuallog_database.transaction import StoreTransaction

_SECOND_LOOK: Final = 3
"""Announcements that every live replica could have made before one is ejected. Any two may be lost."""
_ANNOUNCEMENTS_MIN: Final = 6
"""Fewest announcements within the time to ejection: those of the second look, and as many again for
a slow log."""


@attrs.frozen(kw_only=True)
class ViewSettings:
    """Settings of the view. Times in seconds."""

    announce_seconds: float = 5.0
    """Interval of a replica's announcements. Costs one small entry if it has nothing else to
    propose."""
    eject_seconds: float = 300.0
    """Silence after which a replica holds back trims no longer. Longer than a restart or a short
    repair takes: an ejected replica has to copy a snapshot if the log is trimmed meanwhile. Shorter
    than it takes to fill the disks of the log. At least six times `announce_seconds`: with less,
    live replicas eject each other, and the log is trimmed past what they need."""

    copies: int | None = None
    """Members whose disks must hold a state before the log is trimmed to it. None: one more than
    the lost disks that the log survives, with one log server on each node: 2 of 3, 3 of 5. If fewer
    nodes have a database, the log grows until this is set."""

    def __attrs_post_init__(self) -> None:
        if self.copies is not None and self.copies < 1:
            raise InvalidSettingError("copies", f"must be at least 1, not {self.copies}")
        if not self.eject_seconds >= _ANNOUNCEMENTS_MIN * self.announce_seconds > 0:
            reason = f"must be at least {_ANNOUNCEMENTS_MIN} times the {self.announce_seconds} s between announcements"
            raise InvalidSettingError("eject_seconds", reason)


@attrs.frozen
class Announce:
    """Announcement in the header of another entry."""

    replica: str
    durable: LogPosition
    engines: tuple[str, ...]


@attrs.frozen
class Heartbeat:
    """Announcement as an entry of its own."""

    replica: str
    durable: LogPosition
    engines: tuple[str, ...]


@attrs.frozen
class Eject:
    """Command: remove a replica from the view, if it has not announced itself after `heard`."""

    replica: str
    heard: int
    """Position of the last announcement, or `holds.ANY`: an operator knows that the replica does
    not come back."""


def announce(transaction: StoreTransaction, said: Announce | Heartbeat, position: LogPosition) -> None:
    """Apply an announcement to the state."""
    present = view.members(transaction)
    if said.replica not in present:
        for former in present:
            if node_of(former) == node_of(said.replica):
                view.change_member(transaction, former, None)
        if len(present) >= MEMBERS_MAX:
            return
    view.change_member(transaction, said.replica, Member(said.durable, position, said.engines))
    view.raise_floor(transaction)


def eject(transaction: StoreTransaction, command: Eject) -> bool:
    """Apply an ejection; returns True if the replica was ejected."""
    present = view.members(transaction).get(command.replica)
    if present is None or command.heard not in {present.heard, holds.ANY}:
        return False
    view.change_member(transaction, command.replica, None)
    view.raise_floor(transaction)
    return True


@attrs.define(eq=False)
class ViewTrackingEngine(CommandLayer):
    """Tracks the view and the holds, and limits trims accordingly."""

    name: ClassVar[str] = view.NAME
    vocabulary: ClassVar[Vocabulary] = Vocabulary((Announce, Heartbeat, Eject, PlaceHold, PlaceExactly, DropHold))

    settings: ViewSettings = attrs.field(factory=ViewSettings, kw_only=True)
    known: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    """Names of this stack's engines."""
    _durable: LogPosition = attrs.field(default=LogPosition(0), init=False)
    """Position of this replica's newest durable snapshot."""
    _announced: tuple[LogPosition, float] | None = attrs.field(default=None, init=False)
    """Last announced position and its time. None before the first announcement."""
    _above: LogPosition = attrs.field(default=LogPosition(POSITION_MAX), init=False)
    """Position up to which the layers above allow trims."""
    _members: LivenessTimers = attrs.field(factory=LivenessTimers, init=False)
    _holds: LivenessTimers = attrs.field(factory=LivenessTimers, init=False)

    # -- what may be asked ----------------------------------------------------------------------------------------

    def members(self) -> Mapping[str, Member]:
        """The view as of the applied state, by names of replicas."""
        return view.members(self.context.store)

    def holds(self) -> Mapping[str, Hold]:
        """The holds as of the applied state."""
        return view.holds(self.context.store)

    def floor(self) -> LogPosition:
        """Position up to which view and holds allow trims, as of the applied state: nothing below
        is needed."""
        return view.floor(self.context.store)

    def trimmable(self) -> LogPosition:
        """Position up to which this replica trims the log: unneeded, and with its effects on enough
        disks."""
        return min(self.floor(), view.kept(self.context.store, self.copies))

    @property
    def copies(self) -> int:
        """Members that must have a state in a durable snapshot before the log is trimmed to it."""
        if self.context.passive:
            return 1  # a passive replica trims nothing
        if self.settings.copies is not None:
            return self.settings.copies
        register = self.context.log.view.cached
        if register is None:
            return MEMBERS_MAX  # until the number of nodes is known, nothing is trimmed
        nodes = sum(bool(entry.roles) for entry in register.nodes.values())
        return max(1, (nodes + 1) // 2)

    async def hold(self, holder: str, position: LogPosition, seconds: float = 0) -> LogPosition:
        """Keep the log from `position` on, for `seconds` unless renewed by another call, or until
        released.

        Returns:
            Position from which on it is kept for certain: `position`, or more if some of it may
                have been trimmed already.

        Raises:
            OverloadedError: there are too many holds; nothing was done.
            UnavailableError: unknown outcome.
        """
        granted: LogPosition = await self.command(PlaceHold(holder, position, int(seconds * 1000)))
        return granted

    async def hold_exactly(self, holder: str, position: LogPosition, seconds: float = 0) -> None:
        """Keep the log from exactly `position` on, for callers with no use for less. A refused call
        leaves an existing hold of this name.

        Raises:
            TrimmedError: some of it may have been trimmed already; nothing was done.
            OverloadedError: there are too many holds; nothing was done.
            UnavailableError: unknown outcome.
        """
        await self.command(PlaceExactly(holder, position, int(seconds * 1000)))

    async def release(self, holder: str) -> bool:
        """Drop a hold; returns True if there was one. Raises UnavailableError: unknown outcome."""
        dropped: bool = await self.command(DropHold(holder, holds.ANY))
        return dropped

    async def eject(self, replica: str) -> bool:
        """Remove a replica that certainly does not come back from the view. Returns True if it was
        there. Raises UnavailableError: unknown outcome."""
        ejected: bool = await self.command(Eject(replica, holds.ANY))
        return ejected

    # -- as a layer -----------------------------------------------------------------------------------------------

    def load(self) -> None:
        own = self.members().get(self._replica)
        if own is not None:
            # The store has what was durable when this was announced: a snapshot is taken after a
            # flush.
            self._durable = max(self._durable, own.durable)
        self._learn()
        self._hand_down()

    def snapshotted(self, position: LogPosition) -> None:
        self._durable = max(self._durable, position)

    def propose(self, entry: Entry, done: Done) -> None:
        if self._is_due:
            entry = entry.with_header(self.name, self.vocabulary.encode(Announce(*self._announcement())))
        self.below.propose(entry, done)

    def set_trim_prefix(self, position: LogPosition) -> None:
        self._above = position
        self._hand_down()

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        header = entry.headers.get(self.name)
        if header is None:
            return self.apply_above(transaction, entry, position)
        said = self.vocabulary.parse_untrusted(header)
        if not isinstance(said, Announce):
            return self.apply_command(transaction, said, position)
        announce(transaction, said, position)
        return self.apply_above(transaction, entry, position)

    def apply_command(self, transaction: StoreTransaction, command: Any, position: LogPosition) -> Any:
        match command:
            case Heartbeat():
                return announce(transaction, command, position)
            case Eject():
                return eject(transaction, command)
            case PlaceHold():
                return holds.place(transaction, command, position)
            case PlaceExactly():
                return holds.place_exactly(transaction, command, position)
            case _:
                return holds.drop(transaction, command)

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        header = entry.headers.get(self.name)
        if header is None:
            self.post_apply_above(entry, position, result)
            return
        said = self.vocabulary.parse_untrusted(header)
        self.post_command(said, position, result)
        if isinstance(said, Announce):
            self.post_apply_above(entry, position, result)

    def post_command(self, command: Any, position: LogPosition, result: Any) -> None:
        self._learn()
        self._hand_down()

    # -- now and then ---------------------------------------------------------------------------------------------

    @property
    def tick_seconds(self) -> float:
        return self.settings.announce_seconds

    async def tick(self) -> None:
        await self.announce()
        if self._silent():
            await self._eject_silent()

    async def announce(self) -> None:
        """Announce this replica, if that is due and it is a server: the first time it joins the view.

        Raises:
            UnavailableError: unknown outcome.
        """
        if self._is_due:
            await self.command(Heartbeat(*self._announcement()))

    async def _eject_silent(self) -> None:
        """Eject silent members and drop silent holds, unless this replica itself was not listening.
        Others may do so meanwhile."""
        await self.below.sync()
        for _ in range(_SECOND_LOOK):
            await self._clock.sleep(self.settings.announce_seconds)
            await self.announce()
        await self.below.sync()
        for command in self._silent():
            await self.command(command)

    def _silent(self) -> list[Eject | DropHold]:
        now = self._clock.monotonic()
        found: list[Eject | DropHold] = [
            Eject(name, self._members.last(name))
            for name in self.members()
            if name != self._replica and self._members.silent(name, self.settings.eject_seconds, now)
        ]
        for name, hold in self.holds().items():
            if hold.milliseconds and self._holds.silent(name, hold.milliseconds / 1000, now):
                found.append(DropHold(name, self._holds.last(name)))
        return found

    def _learn(self) -> None:
        now = self._clock.monotonic()
        self._members.learn({name: member.heard for name, member in self.members().items()}, now)
        self._holds.learn({name: hold.placed for name, hold in self.holds().items()}, now)

    def _hand_down(self) -> None:
        self.below.set_trim_prefix(min(self._above, self.trimmable()))

    @property
    def _is_due(self) -> bool:
        if self.context.passive:
            return False
        if self._announced is None:
            return True
        durable, when = self._announced
        return durable != self._durable or self._clock.monotonic() - when >= self.settings.announce_seconds

    def _announcement(self) -> tuple[str, LogPosition, tuple[str, ...]]:
        self._announced = self._durable, self._clock.monotonic()
        return self._replica, self._durable, self.known

    @property
    def _replica(self) -> str:
        return self.context.identity.name

    @property
    def _clock(self) -> Clock:
        return self.context.environment.clock

    def metrics(self) -> list[MetricFamily]:
        durable = tuple(Sample({"replica": name}, each.durable) for name, each in self.members().items())
        kept = tuple(Sample({"hold": name}, each.position) for name, each in self.holds().items())
        return [
            MetricFamily("virtuallog_database_view_durable_position", MetricKind.GAUGE,
                   "Position of the newest durable snapshot of each replica of the view.", durable),
            MetricFamily("virtuallog_database_hold_position", MetricKind.GAUGE, "From where on the log is held.", kept),
            MetricFamily("virtuallog_database_floor_position", MetricKind.GAUGE,
                   "Up to where view and holds allow to trim the log.", (Sample({}, self.floor()),)),
        ]  # fmt: skip
