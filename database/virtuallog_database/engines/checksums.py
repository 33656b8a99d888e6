"""Checksums: compare the states of all replicas at one position, through the log.

The state is a function of the log if every error of `apply` is classified rightly, no engine reads
a clock, every replica runs the same code, and no disk lies. If one of these fails, the replicas
drift apart unnoticed. So regularly some replica puts a `Compare` into the log. The transaction ends
with it, so each replica can snapshot its store at exactly this position. Each folds all pairs,
slowly and beside its work, and reports the digests of each part through the log. The state counts
the reports. A replica whose digests differ from the majority's stops itself with CorruptionError,
which names the parts that differ. It must be wiped, and then restored from another replica's
snapshot.

Rules:
* The comparison covers everything in the store and nothing else: soft state is not compared.
* A replica believes a majority of the view as of the command, not of those that have reported.
* Without a majority (two replicas that differ, say) none stops, as it is unknown which is right.
  The metrics show it.
* Digests are remembered by the process that made them. A replica restarted with a wrong state is
  found by the next comparison; one is made soon after each start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import attrs
import trio

from virtuallog.contract.errors import CorruptionError, RetryableError
from virtuallog.contract.metrics import MetricFamily, MetricKind, Sample
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import view
from virtuallog_database.engines.core.keys import CURSOR, section, section_span
from virtuallog_database.engines.core.state_digests import EVERYTHING, StateDigest, differences, majority
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.engines.layers.command_layer import CommandLayer
from virtuallog_database.ports import StoreReader
from virtuallog_database.transaction import StoreTransaction

NAME: Final = "checksums"
ROUNDS_MAX: Final = 4
"""Comparisons that the state remembers: reports for an older one come too late."""
_CHUNK: Final = 256
"""Pairs folded at a time, some 0.5 ms."""


@attrs.frozen(kw_only=True)
class ChecksumSettings:
    """Settings of comparisons. Times in seconds."""

    period_seconds: float = 600.0
    """Interval of comparisons, and so how long a difference may stay hidden. 0: never compare."""
    first_seconds: float = 30.0
    """Time from a replica's start to the first comparison that it requests."""
    pause_seconds: float = 0.01
    """Pause between two chunks of 256 pairs. A million pairs take 40 s then, at a twentieth of a
    processor's time."""


@attrs.frozen
class Compare:
    """Command: every replica shall report the digests of its state right after this command."""


@attrs.frozen
class Report:
    """Command: the digests of one replica."""

    compared: LogPosition
    """Position of the `Compare` command."""
    replica: str
    digests: Mapping[str, str]


@attrs.frozen
class Round:
    """One comparison in the state."""

    voters: int
    """Number of replicas in the view."""


_RECORDS: Final = Vocabulary((Round, Report))
_SECTION: Final = section(NAME)


def begin(transaction: StoreTransaction, position: LogPosition) -> None:
    """Start a comparison."""
    rounds = {key[: len(_SECTION) + 8] for key, _ in _stored(transaction)}
    for prefix in sorted(rounds)[: max(0, len(rounds) + 1 - ROUNDS_MAX)]:
        for key, _ in transaction.scan((prefix, prefix + b"\xff"), view.MEMBERS_MAX + 1):
            transaction.delete(key)
    transaction.put(_round(position), _RECORDS.encode(Round(len(view.members(transaction)))))
    transaction.ends_here = True


def report(transaction: StoreTransaction, command: Report) -> Mapping[str, str] | None:
    """Add one report. Returns the digests that a majority has. None if there is no majority."""
    prefix = _round(command.compared)
    stored = transaction.get(prefix)
    present = transaction.scan((prefix + b"/", prefix + b"0"), view.MEMBERS_MAX)
    if stored is None or len(present) >= view.MEMBERS_MAX:
        return None
    transaction.put(prefix + b"/" + command.replica.encode(), _RECORDS.encode(command))
    reports = {each.replica: each.digests for each in (_RECORDS.parse_stored(value) for _, value in present)}
    return majority({**reports, command.replica: command.digests}, _RECORDS.parse_stored(stored).voters)


def _stored(transaction: StoreTransaction) -> list[tuple[bytes, bytes]]:
    return transaction.scan(section_span(NAME), (ROUNDS_MAX + 1) * (view.MEMBERS_MAX + 1))


def _round(position: int) -> bytes:
    return _SECTION + position.to_bytes(8, "big")


@attrs.define(eq=False)
class ChecksumEngine(CommandLayer):
    """Compares this replica's state with the majority's."""

    name: ClassVar[str] = NAME
    vocabulary: ClassVar[Vocabulary] = Vocabulary((Compare, Report))

    settings: ChecksumSettings = attrs.field(factory=ChecksumSettings, kw_only=True)
    _own: dict[int, Mapping[str, str]] = attrs.field(factory=dict, init=False)
    """This replica's digests by the position of the comparison; the newest few."""
    _to_fold: tuple[LogPosition, StoreReader] | None = attrs.field(default=None, init=False)
    _wake: trio.Event = attrs.field(factory=trio.Event, init=False)
    _next: float = attrs.field(default=0.0, init=False)
    """Monotonic time at which to request a comparison."""
    _agreed: LogPosition | None = attrs.field(default=None, init=False)
    """Newest comparison in which this replica agreed with the majority. None if there was none."""

    async def compare(self) -> LogPosition:
        """Let all replicas compare their states now; returns the log position. Raises
        UnavailableError."""
        position: LogPosition = await self.command(Compare())
        return position

    def load(self) -> None:
        self._next = self._now + self.settings.first_seconds

    # -- in the log -----------------------------------------------------------------------------------------------

    def apply_command(self, transaction: StoreTransaction, command: Any, position: LogPosition) -> Any:
        if isinstance(command, Compare):
            begin(transaction, position)
            return position
        self._compare(command.compared, report(transaction, command))
        return None

    def _compare(self, position: int, theirs: Mapping[str, str] | None) -> None:
        """Stop this replica if its digests differ from the majority's. The one place where `apply`
        reads soft state: it only decides if this replica goes on."""
        ours = self._own.get(position)
        if ours is None or theirs is None:
            return
        if parts := differences(ours, theirs):
            raise CorruptionError(f"the state at {position} is not that of the other replicas: {', '.join(parts)}")
        self._agreed = LogPosition(max(position, self._agreed or 0))

    def post_command(self, command: Any, position: LogPosition, result: Any) -> None:
        if isinstance(command, Compare) and not self.context.passive:
            self._next = self._now + self.settings.period_seconds
            self._to_fold = position, self.context.store.snapshot()
            self._wake.set()

    # -- in the background ----------------------------------------------------------------------------------------

    @property
    def tick_seconds(self) -> float:
        return max(1.0, self.settings.period_seconds / 100)

    async def tick(self) -> None:
        if self.settings.period_seconds and self._now >= self._next:
            await self.compare()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(super().run)
            nursery.start_soon(self._fold_forever)

    async def _fold_forever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake = trio.Event()
            position = await self._fold()
            if position is not None:
                await self._report(Report(position, self.context.identity.name, self._own[position]))

    async def _fold(self) -> LogPosition | None:
        """Make digests for the newest comparison; returns its position. None if none were made. The
        snapshot is released before the return: it keeps overwritten values on the disk."""
        if self._to_fold is None:
            return None
        (position, state), self._to_fold = self._to_fold, None
        assert state.get(CURSOR) == (position + 1).to_bytes(8, "big"), "the transaction ended with the comparison"
        fold = StateDigest()
        start, stop = EVERYTHING
        while pairs := state.scan((start, stop), _CHUNK):
            fold.add(pairs)
            start = pairs[-1][0] + b"\0"
            await self.context.environment.clock.sleep(self.settings.pause_seconds)
            if self._wake.is_set():
                return None  # a newer comparison has begun: the snapshot of this one must not be kept for long
        self._own[position] = fold.finish()
        for older in sorted(self._own)[:-ROUNDS_MAX]:
            del self._own[older]
        return position

    async def _report(self, command: Report) -> None:
        while self._to_fold is None:
            try:
                await self.command(command)
            except RetryableError:
                await self.context.environment.clock.sleep(self.tick_seconds)
            else:
                return

    @property
    def _now(self) -> float:
        return self.context.environment.clock.monotonic()

    def metrics(self) -> list[MetricFamily]:
        newest = max(self._own, default=0)
        return [
            MetricFamily("virtuallog_database_checksum_made_position", MetricKind.GAUGE,
                   "Where this replica has last made digests of its state.", (Sample({}, newest),)),
            MetricFamily("virtuallog_database_checksum_agreed_position", MetricKind.GAUGE,
                   "Where its digests were last those of a majority. Behind the one above for long: no majority agrees.",
                   (Sample({}, self._agreed or 0),)),
        ]  # fmt: skip
