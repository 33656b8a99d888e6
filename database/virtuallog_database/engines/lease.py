"""Lease: the replica that has it reads without a tail check, and still reads every completed write
(SOSP'21, section 4).

Its `prepare_read` returns at once, as long as by its own clock it may rely on the lease. That is
linearizable for these reasons:

1. While a lease is in force, a write that another replica has proposed completes there only once
the *holder* has applied it. The holder says so through the log (`Confirm`), once per round trip. No
write is refused; those of other replicas take two round trips. So every completed write is in the
holder's store, and the holder need not ask the log.
2. The holder relies on the lease until `duration * (1 - drift)` after it has *proposed* the newest
renewal that was applied. Others propose to end the lease `duration * (1 + drift)` after they have
*applied* the newest renewal. The command names the number of renewals, and does nothing if there
was another one. An entry is proposed before it is applied. So when the lease ends in the log, the
holder has stopped relying on it, as long as no clock runs wrong by more than `drift`.
3. A strong read at another replica shows what is applied there, which may be more than the holder
has applied. Its client gets the result only after `confirm`: once the holder has applied what was
read. Otherwise a later read at the holder could show an older state.

The full argument, with the order of events, is in docs/internals/protocols/engines.md. Off until enabled.
Disabling it while a lease is in force only ends renewals; the lease itself ends as ever.

Rejected: a `sync` that returns at once, too. Clients of ZooKeeper tell each other what they have
read anywhere, and a client that syncs after that must see no less. A plain read elsewhere shows
writes that are not completed, which the holder need not know yet.

Rejected: an `apply` that refuses entries of others during a lease. The sessions of clients at all
other servers would expire, as their touches are entries, too; and it does not give 3.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any, ClassVar

import attrs
import trio

from virtuallog.contract.errors import InvalidSettingError, UnavailableError, VirtualLogError
from virtuallog.contract.metrics import MetricFamily, MetricKind, Sample
from virtuallog.contract.ports import Clock, Done
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import lease_state
from virtuallog_database.engines.core.enabled_engines import is_enabled
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.core.lease_state import Acquire, Confirm, Expire, Grant, Release, Renew
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.engines.layers.command_layer import CommandLayer
from virtuallog_database.transaction import StoreTransaction


@attrs.frozen(kw_only=True)
class LeaseSettings:
    """Settings of the lease. Times in seconds.

    Raises:
        InvalidSettingError: when made, if a lease would be over before it can be renewed.
    """

    wanted: bool = False
    """True if this replica tries to have the lease."""
    duration_seconds: float = 4.0
    """Time after a renewal that the holder relies on the lease. If the holder dies, writes
    everywhere wait for so long."""
    drift: float = 0.05
    """Largest share by which a clock may run too fast or too slow. Clocks of machines are a
    thousand times better; this is for virtual ones that stand still for a moment."""

    def __attrs_post_init__(self) -> None:
        if self.duration_seconds < 0.1 or not 0 <= self.drift < 0.5:
            raise InvalidSettingError("lease", "needs a duration of at least 0.1 s, and a drift below a half")


@attrs.define
class _Reliance:
    """Time that the holder may rely on its lease, by its own two clocks. The smaller one counts:
    the monotonic clock stands still while a virtual machine is suspended, and the wall clock can be
    set back."""

    lease: LogPosition
    monotonic: float
    wall: float

    def is_over(self, clock: Clock) -> bool:
        return clock.monotonic() >= self.monotonic or clock.wall() >= self.wall


@attrs.define(eq=False)
class LeaseEngine(CommandLayer):
    """Grants local reads to one replica. Stands above SessionOrderEngine, which completes proposals
    by itself."""

    name: ClassVar[str] = lease_state.NAME
    vocabulary: ClassVar[Vocabulary] = Vocabulary((Acquire, Renew, Confirm, Release, Expire))

    settings: LeaseSettings = attrs.field(factory=LeaseSettings, kw_only=True)
    _grant: Grant | None = attrs.field(default=None, init=False)
    """The lease in force, as of the applied state. None if there is none."""
    _renewed: float = attrs.field(default=0.0, init=False)
    """Time at which this replica applied the newest renewal."""
    _reliance: _Reliance | None = attrs.field(default=None, init=False)
    _applied: LogPosition = attrs.field(default=LogPosition(0), init=False)
    """Everything below that concerns this layer is applied here."""
    _shown: LogPosition = attrs.field(default=LogPosition(0), init=False)
    """The same, for what layers above can see."""
    _waiting: deque[tuple[LogPosition, Done, Any]] = attrs.field(factory=deque, init=False)
    """Proposals and reads that may be ahead of the holder: the position that it has to apply, the
    callback, and the result. Bounded by the proposals and reads in flight."""
    _is_confirming: bool = attrs.field(default=False, init=False)

    # -- what may be asked ----------------------------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """True if this replica may rely on the lease now."""
        grant, reliance = self._grant, self._reliance
        if grant is None or reliance is None or reliance.lease != grant.lease:
            return False
        return not reliance.is_over(self._clock)

    @property
    def holder(self) -> str | None:
        """Name of the replica whose lease is in force, as of the applied state. None if there is
        none."""
        return None if self._grant is None else self._grant.replica

    async def confirm(self) -> None:
        """See `Engine.confirm`. Returns once the holder, if it is another replica, has applied what
        is applied here."""
        if self.stopped is not None:
            raise UnavailableError("the replica has stopped")
        if not self._must_wait:
            return
        settled = trio.Event()
        failures: list[UnavailableError] = []

        def done(result: Any) -> None:
            if isinstance(result, UnavailableError):
                failures.append(result)
            settled.set()

        self._waiting.append((self._shown, done, None))
        await settled.wait()
        if failures:
            raise failures[0]

    async def release(self) -> None:
        """Release the lease, if this replica has it. A renewal in flight may let it be relied on
        once more, rightly, until the log has the release. Raises UnavailableError: unknown outcome."""
        self._reliance = None
        if self._grant is not None and self._is_ours:
            await self.command(Release(self._grant.lease))

    # -- as a layer -----------------------------------------------------------------------------------------------

    def load(self) -> None:
        self._applied = self._shown = read_cursor(self.context.store)
        self._look()
        self._tell_waiting()  # a raw write may have taken the lease away

    def propose(self, entry: Entry, done: Done) -> None:
        self.below.propose(entry, partial(self._complete, done))

    async def prepare_read(self) -> None:
        if self.is_held:
            await trio.lowlevel.checkpoint()
        else:
            await self.below.prepare_read()

    def apply_command(self, transaction: StoreTransaction, command: Any, position: LogPosition) -> bool:
        return lease_state.apply(transaction, command, position)

    def post_command(self, command: Any, position: LogPosition, result: Any) -> None:
        self._applied = LogPosition(position + 1)
        self._look()
        self._tell_waiting()

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        super().post_apply(entry, position, result)
        if self.name not in entry.headers:
            self._applied = self._shown = LogPosition(position + 1)
            if self._grant is not None and self._is_ours:
                self._confirm_soon()

    def stop(self, error: VirtualLogError) -> None:
        super().stop(error)
        while self._waiting:
            self._waiting.popleft()[1](UnavailableError(f"unknown outcome: {error}"))

    # -- writes of others, while a lease is held -------------------------------------------------------------------

    def _complete(self, done: Done, result: Any) -> None:
        """Complete an entry of this replica that is applied here."""
        if self._must_wait and not isinstance(result, UnavailableError):
            self._waiting.append((self._shown, done, result))
        else:
            done(result)

    @property
    def _must_wait(self) -> bool:
        """True if this replica may show something that the holder has not applied."""
        grant = self._grant
        return grant is not None and not self._is_ours and grant.applied < self._shown

    def _tell_waiting(self) -> None:
        grant = self._grant
        while self._waiting and (grant is None or self._is_ours or grant.applied >= self._waiting[0][0]):
            _, done, result = self._waiting.popleft()
            # Not here and now: the callback reads, and entries of the same transaction may lie
            # behind this one.
            self.context.completions.add(done, result)

    def _confirm_soon(self) -> None:
        """Confirm one at a time: what is applied until it is in the log is confirmed by the next
        one."""
        if not self._is_confirming and self._grant is not None:
            self._is_confirming = True
            self.below.propose(self.entry_of(Confirm(self._grant.lease, self._applied)), self._confirmed)

    def _confirmed(self, result: Any) -> None:
        self._is_confirming = False
        if isinstance(result, UnavailableError):
            return  # the next renewal confirms it
        if self._grant is not None and self._is_ours and self._grant.applied < self._shown:
            self._confirm_soon()

    # -- the lease itself -----------------------------------------------------------------------------------------

    @property
    def tick_seconds(self) -> float:
        return self.settings.duration_seconds / 4

    async def tick(self) -> None:
        grant, store = self._grant, self.context.store
        if grant is not None and not self._is_ours:
            if self._clock.monotonic() - self._renewed >= grant.milliseconds / 1000 * (1 + self.settings.drift):
                await self.command(Expire(grant.lease, grant.renewals))
        elif not self.settings.wanted or not is_enabled(store, self.name):
            await self.release()
        elif grant is not None:
            await self._rely_after(Renew(grant.lease, self._applied), grant.milliseconds)
        else:
            milliseconds = int(self.settings.duration_seconds * 1000)
            await self._rely_after(Acquire(self.context.identity.name, milliseconds), milliseconds)

    async def _rely_after(self, command: Acquire | Renew, milliseconds: int) -> None:
        # Read before it is proposed: others begin to wait after that, when they have applied it.
        monotonic, wall = self._clock.monotonic(), self._clock.wall()
        if await self.command(command) and self._grant is not None and self._is_ours:
            seconds = milliseconds / 1000 * (1 - self.settings.drift)
            self._reliance = _Reliance(self._grant.lease, monotonic + seconds, wall + seconds)

    def _look(self) -> None:
        grant, former = lease_state.current(self.context.store), self._grant
        if grant is not None and (former is None or (former.lease, former.renewals) != (grant.lease, grant.renewals)):
            self._renewed = self._clock.monotonic()
        self._grant = grant

    @property
    def _is_ours(self) -> bool:
        return self._grant is not None and self._grant.replica == self.context.identity.name

    @property
    def _clock(self) -> Clock:
        return self.context.environment.clock

    def metrics(self) -> list[MetricFamily]:
        return [
            MetricFamily("virtuallog_database_lease_held", MetricKind.GAUGE, "1: this replica reads without a tail check.",
                   (Sample({}, int(self.is_held)),)),
            MetricFamily("virtuallog_database_lease_waiting", MetricKind.GAUGE,
                   "Writes and strong reads that wait until the holder has applied them.", (Sample({}, len(self._waiting)),)),
        ]  # fmt: skip
