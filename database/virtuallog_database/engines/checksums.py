"""Checksums: do all replicas still have the same state? Compared through the log, at one and the same position.

The state is a function of the log, if every error of `apply` is told apart rightly, no engine asks a clock, every replica
runs the same code and no disk lies. When one of these fails, nobody notices by himself, and the replicas drift apart. So now
and then somebody puts a `Compare` into the log. Its transaction ends with it, so each replica can take a snapshot of its store at
exactly this position; it folds all pairs of it, slowly and besides its work, and reports the digests of each part through the log. The
state counts the reports. A replica whose digests are not those of the majority stops itself: CorruptionError, with the
parts that differ. It is to be wiped, and then restored from another one's snapshot.

Rules:
* What is compared is everything in the store but nothing else: soft state is not looked at.
* A replica believes a majority of the view as it was at the command, not of those who have reported.
* Without a majority (two replicas that differ, say) nobody stops: nobody knows who is right. That shows in the metrics.
* Digests are remembered by the process that has made them. A replica that is restarted with a state that is wrong is found by the
  next comparison; one is made soon after each start.
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
"""Comparisons that the state remembers: reports of an older one come too late."""
_CHUNK: Final = 256
"""Pairs that are folded at a time, some 0.5 ms."""


@attrs.frozen(kw_only=True)
class ChecksumSettings:
    """Times in seconds."""

    period_seconds: float = 600.0
    """How often states are compared: how long a difference stays hidden. 0: never."""
    first_seconds: float = 30.0
    """How long after its start a replica asks for the first comparison."""
    pause_seconds: float = 0.01
    """Between two chunks of 256 pairs. A million pairs take 40 s then, at a twentieth of the time of a processor."""


@attrs.frozen
class Compare:
    """Everybody is to report the digests of the state as it is once this is applied."""


@attrs.frozen
class Report:
    """The digests of one replica."""

    compared: LogPosition
    """Where the command was."""
    replica: str
    digests: Mapping[str, str]


@attrs.frozen
class Round:
    """One comparison."""

    voters: int
    """How many replicas were in the view."""


_RECORDS: Final = Vocabulary((Round, Report))
_SECTION: Final = section(NAME)


def begin(transaction: StoreTransaction, position: LogPosition) -> None:
    """A comparison starts here."""
    rounds = {key[: len(_SECTION) + 8] for key, _ in _stored(transaction)}
    for prefix in sorted(rounds)[: max(0, len(rounds) + 1 - ROUNDS_MAX)]:
        for key, _ in transaction.scan((prefix, prefix + b"\xff"), view.MEMBERS_MAX + 1):
            transaction.delete(key)
    transaction.put(_round(position), _RECORDS.encode(Round(len(view.members(transaction)))))
    transaction.ends_here = True


def report(transaction: StoreTransaction, command: Report) -> Mapping[str, str] | None:
    """One more report. Returns the digests that a majority has, if there is one."""
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
    """See the module."""

    name: ClassVar[str] = NAME
    vocabulary: ClassVar[Vocabulary] = Vocabulary((Compare, Report))

    settings: ChecksumSettings = attrs.field(factory=ChecksumSettings, kw_only=True)
    _own: dict[int, Mapping[str, str]] = attrs.field(factory=dict, init=False)
    """Our digests, by the positions of comparisons; the newest few."""
    _to_fold: tuple[LogPosition, StoreReader] | None = attrs.field(default=None, init=False)
    _wake: trio.Event = attrs.field(factory=trio.Event, init=False)
    _next: float = attrs.field(default=0.0, init=False)
    """When to ask for a comparison, by our monotonic clock."""
    _agreed: LogPosition | None = attrs.field(default=None, init=False)
    """The newest comparison in which we were one of the majority."""

    async def compare(self) -> LogPosition:
        """Have all replicas compare their states now; returns where in the log that is. Raises UnavailableError."""
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
        """Stop ourselves, if we are not as the majority is. The one place where `apply` looks at soft state: it changes
        nothing but whether this replica goes on."""
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
        """Make our digests for the newest comparison; returns where it was, if they are made. The snapshot is gone when this returns: it
        keeps on the disk whatever is overwritten."""
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
                return None  # a newer comparison: the snapshot of this one must not be kept for long
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
