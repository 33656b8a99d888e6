"""The base engine: proposals into the log, the log into the store (SOSP'21, section 3).

    propose -> appender -> log ... acknowledged at p ---.
                                                        v
    sync ---> tail check (shared) ------------------> player --> apply, commit, post_apply, then the callbacks
                                                        ^
    other replicas' entries: wait for the tail, read ---'

Rules:
* The cursor moves in the same transaction as the effects. Several entries may share a transaction.
  No proposer gets a result before all of these entries are in the store and have been through
  `post_apply`.
* A token in an entry's header identifies its proposal. So a proposal is completed when its entry is
  *applied*, independent of the acknowledgement, which may come before, after, or never.
* If the next entry is an own one and has just been acknowledged, it is applied within that
  callback. No task is woken, unless a task's worth of operations has been applied like that before.
* Before each transaction the store is asked if it is behind. Proposers wait then; reads and
  heartbeats do not.
* The store is not flushed here; the `Snapshotter` does that. What a crash takes is played again.

Departures from the paper: this base also plays when no caller waits, so that watches fire and a sync
finds little to do: at once, or up to 25 ms behind in a stream of writes (`poll_pacer`).
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count
from typing import Any, ClassVar, Final

import attrs
import trio

from virtuallog.client.appender import Appender, AppenderSettings
from virtuallog.contract.errors import RetryableError, UnavailableError, VirtualLogError
from virtuallog.contract.metrics import COUNTS, Counter, Histogram, MetricFamily, gauge
from virtuallog.contract.ports import Done
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.base.log_trimmer import LogTrimmer
from virtuallog_database.engines.base.tail_checks import TailChecks
from virtuallog_database.engines.core.entry import PROPOSER, TOKEN_BYTES, Entry
from virtuallog_database.engines.core.keys import CURSOR, read_cursor
from virtuallog_database.engines.core.player import Item, Player, items
from virtuallog_database.engines.core.poll_pacer import PollPacer
from virtuallog_database.engines.layers.layer import Layer
from virtuallog_database.transaction import StoreTransaction


@attrs.define(eq=False)
class BaseMetrics:
    """Metrics of one base engine. Updated once per transaction."""

    transaction_entries: Histogram = attrs.field(
        factory=lambda: Histogram(
            "virtuallog_database_transaction_entries", "Log entries applied in one transaction of the store.", COUNTS
        )
    )
    strays: Counter = attrs.field(
        factory=lambda: Counter(
            "virtuallog_database_stray_entries_total", "Log entries passed over that are none of a database."
        )
    )
    entries: int = attrs.field(default=0, init=False)
    """Entries applied."""
    bytes: int = attrs.field(default=0, init=False)
    """Bytes of their payloads."""

    def played(self, entries: int, size: int) -> None:
        """Record one transaction in the store."""
        self.entries += entries
        self.bytes += size
        self.transaction_entries.observe(entries)

    def metrics(self, cursor: int, committed: int, waiting: int) -> list[MetricFamily]:
        """Metrics as of now."""
        return [
            self.transaction_entries.family(),
            self.strays.family(),
            gauge("virtuallog_database_cursor", "First position of the log that is not applied.", cursor),
            gauge("virtuallog_database_lag_positions", "Committed positions that are not applied.", committed - cursor),
            gauge("virtuallog_database_proposals_under_way", "Entries proposed here and not applied.", waiting),
        ]


_OWN_BYTES: Final = TOKEN_BYTES // 2
"""Bytes of each half of a token: random ones for each replica object, then a counter."""


@attrs.frozen(kw_only=True)
class BaseSettings:
    """Settings of play. Sizes in bytes, times in seconds."""

    appender: AppenderSettings = attrs.field(factory=lambda: AppenderSettings(give_up=10.0))
    """Settings of the appender. `give_up` is shorter than by default: SessionOrderEngine proposes
    again what is not known to be in the log."""
    transaction_entries: int = 256
    """Most entries in one transaction of the store. Each may be a group of commands."""
    transaction_bytes: int = 1 << 20
    """Most payload bytes in one transaction. All other tasks wait while it is played."""
    transaction_operations: int = 512
    """Operations after which a transaction takes no further entry. Bytes do not bound the work:
    twenty of them may be an operation of a multi, some 20 us. The same amount is played in
    callbacks before other tasks get a turn."""
    fetch_bytes: int = 1 << 20
    """Bytes of one read."""
    follow_pause_seconds: float = 0.025
    """Pause between two looks for entries of other replicas in a stream of writes; see `poll_pacer`.
    No reply waits for a look: a sync does not."""
    follow_burst: int = 32
    """Looks that are saved up while no write comes, and then made without a pause."""
    acknowledge_seconds: float = 0.001
    """Pause before a look reads, if own proposals are under way. The news may be of these: then their
    acknowledgement is due, brings them from memory, and nothing is read."""
    behind_pause_seconds: float = 0.005
    """Pause between two checks of a disk that is behind: some flush ends every 100 ms then."""
    retry_pause_seconds: float = 0.05
    """Pause before a failed read is repeated."""
    closed_pause_seconds: float = 1.0
    """Pause between two checks of a deliberately closed log: each asks a majority of the MetaStore."""
    trim_pause_seconds: float = 1.0
    """Pause between two trims of the log: each is a call to all servers, and the allowance moves
    with every snapshot only."""


@attrs.define(eq=False)
class BaseEngine(Layer):
    """The lowest engine. All its methods are called on the event loop, `run` once."""

    name: ClassVar[str] = PROPOSER

    settings: BaseSettings
    meter: BaseMetrics = attrs.field(factory=BaseMetrics, init=False)
    cursor: LogPosition = attrs.field(default=LogPosition(0), init=False)
    """First position that is not in the store."""
    failure: Exception | None = attrs.field(default=None, init=False)
    """Reason why this replica cannot go on. None if it can."""
    failed: trio.Event = attrs.field(factory=trio.Event, init=False)
    _player: Player = attrs.field(factory=lambda: Player.at(LogPosition(0)), init=False)
    _appender: Appender | None = attrs.field(default=None, init=False)
    """The appender. None unless the engine runs."""
    _waiting: dict[bytes, Done] = attrs.field(factory=dict, init=False)
    """Callbacks of proposals that are not applied, by token, oldest first."""
    _tokens: Iterator[bytes] = attrs.field(init=False)
    _checks: TailChecks = attrs.field(init=False)
    _watchers: list[tuple[LogPosition, int, trio.Event]] = attrs.field(factory=list, init=False)
    """Heap of waiters for the cursor: position, tie-breaker, event."""
    _numbers: Iterator[int] = attrs.field(factory=count, init=False)
    _stretch: int = attrs.field(default=0, init=False)
    """Known operations applied in callbacks since other tasks had a turn."""
    _applied: int = attrs.field(default=0, init=False)
    """Operations applied since the last look for entries of others."""
    _work: trio.Event = attrs.field(factory=trio.Event, init=False)
    """Set if there is something to read, or more to play than fits in a callback."""
    _trimming: LogTrimmer = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        log, environment = self.context.log, self.context.environment
        own = environment.random.randbytes(_OWN_BYTES)
        self._tokens = (own + number.to_bytes(_OWN_BYTES, "big") for number in count())
        self._checks = TailChecks(log.check_tail)
        self._trimming = LogTrimmer(log.prefix_trim, environment.clock, self.settings.trim_pause_seconds)

    def load(self) -> None:
        self.cursor = read_cursor(self.context.store)
        self._player = Player.at(self.cursor)

    # -- what is above asks ---------------------------------------------------------------------------------------

    def propose(self, entry: Entry, done: Done) -> None:
        if self._appender is None or self.failure is not None:
            done(UnavailableError("the replica does not run: nothing was done"))
            return
        token = next(self._tokens)
        stamped = entry.with_header(self.name, token)
        self._waiting[token] = done
        try:
            self._appender.post(stamped.encode(), partial(self._settled, token, stamped))
        except VirtualLogError as error:
            self._complete(token, error)

    async def sync(self) -> None:
        tail = await self._checks.check()
        self._player.commit(tail)
        self._work.set()
        await self.wait_applied(tail)

    async def prepare_read(self) -> None:
        await self.sync()

    async def confirm(self) -> None:
        """Returns at once: every `prepare_read` asks the log, so no later read shows less."""

    def set_trim_prefix(self, position: LogPosition) -> None:
        self._trimming.allow(position)

    async def wait_applied(self, position: LogPosition) -> None:
        """Return once everything below `position` is in the store.

        Raises:
            UnavailableError: the replica has stopped.
        """
        if position > self.cursor and self.failure is None:
            reached = trio.Event()
            heapq.heappush(self._watchers, (position, next(self._numbers), reached))
            await reached.wait()
        if position > self.cursor:
            raise UnavailableError("the replica has stopped")

    # -- the log answers ------------------------------------------------------------------------------------------

    def _settled(self, token: bytes, entry: Entry, outcome: range | VirtualLogError) -> None:
        if isinstance(outcome, VirtualLogError):
            self._complete(token, outcome)
            return
        self._player.acknowledge(LogPosition(outcome.start), entry)
        if self.failure is not None:
            return
        operations_max = self.settings.transaction_operations
        if self._player.can_play and self._stretch < operations_max and not self.context.store.is_behind:
            self._play()
        if self._player.can_play or self._player.missing or self._stretch >= operations_max:
            self._work.set()

    def _complete(self, token: bytes, outcome: Any) -> None:
        done = self._waiting.pop(token, None)
        if done is not None:  # None if its entry was applied before the log has acknowledged it
            done(outcome)

    # -- playing --------------------------------------------------------------------------------------------------

    def _play(self) -> None:
        """Apply one transaction, or several if an engine needs the store at one exact position."""
        settings = self.settings
        try:
            self._player.give_back(
                self._apply(self._player.take(settings.transaction_entries, settings.transaction_bytes))
            )
        except Exception as error:
            self.fail(error)

    def _apply(self, todo: list[Item]) -> list[Item]:
        """Apply items; returns those left for the next turn."""
        operations_max = self.settings.transaction_operations
        while todo and self._stretch < operations_max:
            todo = todo[self._apply_once(todo, operations_max - self._stretch) :]
        return todo

    def _apply_once(self, todo: list[Item], operations_max: int) -> int:
        """Apply one transaction. Returns the number of items in it: all, unless an engine ends it
        early, or they are too much work."""
        transaction = StoreTransaction(self.context.store)
        played: list[tuple[LogPosition, Entry, Any]] = []
        taken = 0
        while taken < len(todo) and not transaction.ends_here and transaction.operations < operations_max:
            position, entry = todo[taken]
            taken += 1
            if entry is not None:
                played.append((position, entry, self.apply_above(transaction, entry, position)))
        cursor = LogPosition(todo[taken - 1][0] + 1)
        transaction.put(CURSOR, cursor.to_bytes(8, "big"))
        self._stretch += transaction.operations
        self._applied += transaction.operations
        transaction.commit()
        self.cursor = cursor
        self._tell(played)
        return taken

    def _tell(self, played: list[tuple[LogPosition, Entry, Any]]) -> None:
        self.meter.played(len(played), sum(len(entry.payload) for _, entry, _ in played))
        for position, entry, result in played:
            self.post_apply_above(entry, position, result)
            done = self._waiting.pop(entry.headers.get(self.name, b""), None)
            if done is not None:
                self.context.completions.add(done, result)
        self.context.completions.run()
        while self._watchers and self._watchers[0][0] <= self.cursor:
            heapq.heappop(self._watchers)[2].set()

    async def _play_on(self) -> None:
        while True:
            while self._player.can_play and self.failure is None:
                if self.context.store.is_behind:
                    await self.context.environment.clock.sleep(self.settings.behind_pause_seconds)
                else:
                    self._stretch = 0
                    self._play()
                    await trio.lowlevel.checkpoint()  # callers with a result must not wait for the rest
            if (missing := self._player.missing) is not None:
                await self._fetch(*missing)
            else:
                await self._work.wait()
                self._work, self._stretch = trio.Event(), 0

    async def _fetch(self, start: LogPosition, stop: LogPosition) -> None:
        try:
            found = await self.context.log.read(start, stop, self.settings.fetch_bytes)
        except RetryableError:
            await self.context.environment.clock.sleep(self.settings.retry_pause_seconds)
            return
        self._player.fetched(items(found, self.meter.strays))

    # -- in the background ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Play until cancelled, or until something fails: then `failed` is set."""
        async with trio.open_nursery() as nursery:
            for work in (self._play_on, self._follow, self._checks.run):
                nursery.start_soon(self.guard, work)
            if not self.context.passive:  # passive replicas do not trim
                nursery.start_soon(self.guard, self._trimming.run)

    def open(self) -> None:
        """Allow `propose`."""
        self._appender = self.context.log.appender(self.settings.appender)

    def close(self) -> None:
        """Stop proposals. Those that are not known to be in the log fail now."""
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.close()

    async def guard(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work`; an error that it raises stops the replica."""
        try:
            await work()
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Stop this replica: it cannot be trusted any more, or cannot go on."""
        if self.failure is None:
            self.failure = error
            self.failed.set()

    def stop(self, error: VirtualLogError) -> None:
        self.stopped = error
        self.failure = self.failure or error
        self._checks.stop()
        for token in list(self._waiting):
            self._complete(token, error)
        for _, _, reached in self._watchers:
            reached.set()

    async def _follow(self) -> None:
        """Follow the entries of other replicas."""
        reader, clock, settings = self.context.log.reader(), self.context.environment.clock, self.settings
        pace = PollPacer(settings.follow_pause_seconds, settings.follow_burst)
        while True:
            reader.position, asked = self._player.committed, clock.monotonic()
            try:
                limit = await reader.wait_readable()
            except RetryableError:
                await clock.sleep(settings.retry_pause_seconds)
                continue
            if limit is None:
                await clock.sleep(settings.closed_pause_seconds)
                continue
            waited = clock.monotonic() - asked
            if self._waiting:
                await clock.sleep(settings.acknowledge_seconds)
            self._player.commit(limit)
            self._work.set()
            await self.wait_applied(limit)  # the price of this look is known then
            applied, self._applied = self._applied, 0
            await clock.sleep(pace.next_pause(waited, applied))

    def metrics(self) -> list[MetricFamily]:
        return self.meter.metrics(self.cursor, self._player.committed, len(self._waiting))
