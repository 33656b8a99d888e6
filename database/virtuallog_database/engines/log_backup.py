"""LogBackupEngine: copies the log elsewhere, range by range, before it is trimmed (SOSP'21, section
4).

Replicas bid through the log for ranges that do not overlap. The owner of a range reads it from the
log and makes an archive of it (the same Parquet files as a closed segment's, docs/howto/archive.md: one
directory for each range). It reads that back, compares, and says through the log that it is done.
While this engine is enabled, the log is trimmed only up to where everything is backed up.

Rules:
* A range ends where the log is applied when a replica bids for it, or where it is long enough: its
  bidder looks at what is in the log, as positions need not be dense.
* A bid that is open for too long is dropped by a command that names it, and another replica takes
  the range. If both upload it, they write the same files, and the first to finish says so.
* A range that cannot be uploaded holds back trims. Operators should learn of that: see the metrics
  and the log of the process.
* Backups begin where nothing can have been trimmed when the engine was enabled, and anew when it is
  enabled again. Disabled, it holds back nothing.
* A range of which something is missing nevertheless is never reported as uploaded. An operator
  restarts backups: disable, enable.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, ClassVar, Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import MalformedError, UnsupportedError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.metrics import MetricFamily, MetricKind, Sample
from virtuallog.contract.types import POSITION_MAX, LogPosition, PlacedBatch
from virtuallog.runtime import log as logger
from virtuallog_database.engines.core import backup_state
from virtuallog_database.engines.core.backup_state import Begin, Bid, DropBid, Progress, Uploaded
from virtuallog_database.engines.core.enabled_engines import is_enabled
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.liveness_timers import LivenessTimers
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.engines.layers.command_layer import CommandLayer
from virtuallog_database.transaction import StoreTransaction
from virtuallog_loglets.archive.config import backup_directory_of, join
from virtuallog_loglets.archive.drivers.files import NEEDS, Files, OpenFiles
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles

_READ_BYTES: Final = 1 << 20


@attrs.frozen(kw_only=True)
class LogBackupSettings:
    """Settings of backups. Sizes in bytes, times in seconds."""

    url: str = ""
    """Destination of backups: a directory that fsspec knows. If empty, this replica uploads
    nothing; others may."""
    open_files: OpenFiles = FsspecFiles
    range_bytes: int = 32 << 20
    """Payload bytes applied since the last range at which to bid for the next one: one file or two."""
    range_seconds: float = 60.0
    """Time after which to bid, if there is anything: bounds how much of the log is lost with all
    its servers."""
    idle_seconds: float = 3600.0
    """The same if there are only entries that engines make by themselves, which fill the log
    slowly: some 100 KB an hour."""
    bid_seconds: float = 300.0
    """Age at which a bid is dropped. Longer than an upload takes, or ranges are uploaded more than
    once."""
    tick_seconds: float = 5.0


@attrs.frozen
class _WholeLog:
    """The whole log, as the input of an archive."""

    log: VirtualLog

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        return await self.log.read(LogPosition(start), LogPosition(stop), _READ_BYTES)


@attrs.define(eq=False)
class LogBackupEngine(CommandLayer):
    """Uploads ranges of the log, and holds back trims of the others."""

    name: ClassVar[str] = backup_state.NAME
    vocabulary: ClassVar[Vocabulary] = Vocabulary((Begin, Bid, Uploaded, DropBid))

    settings: LogBackupSettings = attrs.field(factory=LogBackupSettings, kw_only=True)
    _above: LogPosition = attrs.field(default=LogPosition(POSITION_MAX), init=False)
    """Position up to which the layers above allow trims."""
    _bids: LivenessTimers = attrs.field(factory=LivenessTimers, init=False)
    _applied: LogPosition = attrs.field(default=LogPosition(0), init=False)
    """Everything below that concerns this layer is applied."""
    _bytes: int = attrs.field(default=0, init=False)
    """Lower bound of the bytes applied since the last bid; 1 after a start: perhaps some."""
    _since: float = attrs.field(default=0.0, init=False)
    """Time of the last bid."""
    _failures: int = attrs.field(default=0, init=False)

    def progress(self) -> Progress | None:
        """Progress of backups, as of the applied state. None if no `Begin` was applied since the
        engine was enabled."""
        return backup_state.progress(self.context.store)

    # -- as a layer -----------------------------------------------------------------------------------------------

    def load(self) -> None:
        self._since, self._bytes = self._now, 1
        self._learn()

    def set_trim_prefix(self, position: LogPosition) -> None:
        self._above = position
        self._hand_down()

    def apply_command(self, transaction: StoreTransaction, command: Any, position: LogPosition) -> bool:
        return backup_state.apply(transaction, command, position)

    def post_command(self, command: Any, position: LogPosition, result: Any) -> None:
        self._applied = LogPosition(position + 1)
        if isinstance(command, Bid) and result:
            self._bytes, self._since = max(0, self._bytes - self.settings.range_bytes), self._now
        self._learn()
        self._hand_down()

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        super().post_apply(entry, position, result)
        if self.name not in entry.headers:
            self._applied = LogPosition(position + 1)
            self._bytes += len(entry.payload)

    # -- now and then ---------------------------------------------------------------------------------------------

    @property
    def tick_seconds(self) -> float:
        return self.settings.tick_seconds

    async def tick(self) -> None:
        try:
            await self._go_on()
        except VirtualLogError as error:
            # Neither the log nor the destination of backups is this replica's disk: it goes on, and
            # tries again, while trims wait.
            self._failures += 1
            logger.warning("the log cannot be backed up", reason=str(error))

    async def _go_on(self) -> None:
        progress = self.progress()
        if progress is not None:
            await self._drop_silent()
        if not self.settings.url or not is_enabled(self.context.store, self.name):
            return
        if progress is None:
            await self.command(Begin(await self.context.log.find_trim_point()))
            return
        await self._bid(progress)
        for start, each in backup_state.ranges(self.context.store).items():
            if each.replica == self._replica and not each.uploaded:
                await self._upload(start, each.stop)
                await self.command(Uploaded(start, each.stop))

    async def _drop_silent(self) -> None:
        for start, each in backup_state.ranges(self.context.store).items():
            is_open = each.replica not in {"", self._replica} and not each.uploaded
            if is_open and self._bids.silent(str(start), self.settings.bid_seconds, self._now):
                await self.command(DropBid(start, each.bid))

    async def _bid(self, progress: Progress) -> None:
        """Bid for a range: an abandoned one, else a new one. One at a time, and none before the
        last is done."""
        present = backup_state.ranges(self.context.store)
        if any(each.replica == self._replica and not each.uploaded for each in present.values()):
            return
        free = next((start for start, each in present.items() if each.is_free), None)
        if free is not None:
            await self.command(Bid(free, present[free].stop, self._replica))
        elif self._applied > progress.next and self._is_due:
            await self._bid_for_new(progress.next, self._applied)

    async def _bid_for_new(self, start: LogPosition, applied: LogPosition) -> None:
        stop, size = start, 0
        while stop < applied and size < self.settings.range_bytes:
            items = await self.context.log.read(stop, applied, min(_READ_BYTES, self.settings.range_bytes - size))
            stop = LogPosition(items[-1].stop)
            size += sum(len(each.batch.blob) for each in items if isinstance(each, PlacedBatch))
        if await self.command(Bid(start, stop, self._replica)) and stop < applied:
            self._bytes = max(self._bytes, self.settings.range_bytes)  # there is more, so the next one is due as well

    @property
    def _is_due(self) -> bool:
        waited = self._now - self._since
        patience = self.settings.range_seconds if self._bytes else self.settings.idle_seconds
        return self._bytes >= self.settings.range_bytes or waited >= patience

    async def _upload(self, start: LogPosition, stop: LogPosition) -> None:
        """Upload a range; on return it is durable elsewhere, and was read back.

        Raises:
            TrimmedError: some of it is missing after a forced trim; what is left is durable
                elsewhere.
            MalformedError: a marker in the directory says that some of it is trimmed.
        """
        try:
            from virtuallog_loglets.archive.core import manifest as manifests
            from virtuallog_loglets.archive.creation.archive_writer import ArchiveWriter
            from virtuallog_loglets.archive.creation.executor import SerialExecutor
            from virtuallog_loglets.archive.creation.verification import ArchiveVerifier
            from virtuallog_loglets.archive.drivers.trim_markers import trim_point
        except ImportError as error:
            raise UnsupportedError(NEEDS) from error
        log = self.context.log
        cluster = (await log.view.current()).cluster.hex()
        directory = join(self.settings.url, backup_directory_of(cluster, start, stop))
        files: Files = self.settings.open_files(directory)
        executor = SerialExecutor(_WholeLog(log), files)
        blob = await ArchiveWriter(
            executor=executor,
            files=files,
            cluster=cluster,
            start=start,
            stop=stop,
            writer=f"virtuallog {version('virtuallog')}",
        ).run()
        manifest = manifests.decode_untrusted(blob)
        await ArchiveVerifier(manifest=manifest, files=files, executor=executor).run()
        # Backups are never trimmed: a marker is not ours, and a restore would take everything below
        # it for trimmed.
        trimmed = trim_point(manifest, await files.list())
        if trimmed > start:
            raise MalformedError(
                f"a marker in {directory} says that the log is trimmed up to {trimmed}: remove the directory"
            )

    def _learn(self) -> None:
        bids = {str(start): int(each.bid) for start, each in backup_state.ranges(self.context.store).items()}
        self._bids.learn(bids, self._now)

    def _hand_down(self) -> None:
        self.below.set_trim_prefix(backup_state.allowed(self.context.store, self._above))

    @property
    def _replica(self) -> str:
        return self.context.identity.name

    @property
    def _now(self) -> float:
        return self.context.environment.clock.monotonic()

    def metrics(self) -> list[MetricFamily]:
        progress = self.progress()
        return [
            MetricFamily("virtuallog_database_backed_up_position", MetricKind.GAUGE, "Up to where the log is durable elsewhere.",
                   (Sample({}, 0 if progress is None else progress.backed_up),)),
            MetricFamily("virtuallog_database_backup_failures", MetricKind.COUNTER, "How often this replica could not go on with backups.",
                   (Sample({}, self._failures),)),
        ]  # fmt: skip
