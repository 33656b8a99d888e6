"""One run of `backups.py`: its steps, one after the other."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog_database.engines.core.state_digests import differences, state_digest_of
from virtuallog_database.snapshots.played_store import install_newest_snapshot, play_up_to
from virtuallog_lab.experiments.churn.client import CLOCK, connected, make_znodes
from virtuallog_lab.experiments.churn.load import PATIENCE_SECONDS, ChurnLoad
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.turns import Turns
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_server.backup.backup_run import BackupSettings, FinishedBackup, back_up
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.restore import BackupRequest, restore_backup
from virtuallog_server.backup.retried_files import opened_again
from virtuallog_server.backup.saved_log import LiveLog
from virtuallog_server.backup.scratch_store import scratch_directory
from virtuallog_server.backup.verification import verify_backup

LOAD_PART: Final = 1_000_000
"""Writes of one turn on the machine: a minute."""
MORE_PART: Final = 0.05
"""Share of the writes that come between the two backups."""


@attrs.frozen(kw_only=True)
class BackupPlan:
    """The options."""

    writes: int
    keys: int
    size: int
    outstanding: int
    positions: int
    seed: int


@attrs.frozen(kw_only=True)
class TimedBackup:
    """One backup."""

    what: str
    writes: int
    entries: int
    """Entries of the log that have these writes: servers put many writes into one."""
    written_bytes: int
    value_bytes: int
    """Bytes of the values of these writes, before compression."""
    seconds: float
    copied_seconds: float | None
    """Seconds that `cp -r` and a sync took for the same files. None if it was not measured."""


@attrs.frozen(kw_only=True)
class TimedRestore:
    """One restore to a position."""

    position: int
    seconds: float
    replay_seconds: float


@attrs.frozen(kw_only=True)
class BackupFindings:
    """Findings of a run."""

    plan: BackupPlan
    load_seconds: float
    backups: Sequence[TimedBackup]
    restores: Sequence[TimedRestore]
    rpo_seconds: float
    rto_seconds: float
    verify_seconds: float
    pairs: int
    """Keys of the verified state."""
    problems: Sequence[str]

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.define(eq=False)
class BackupExperiment:
    """The experiment of `backups.py`."""

    plan: BackupPlan
    addresses: Mapping[NodeId, str]
    log: VirtualLog
    folder: Path
    turns: Turns

    async def run(self) -> BackupFindings:
        """Run the whole experiment.

        Raises:
            VirtualLogError: something could not be done.
        """
        plan = self.plan
        load = ChurnLoad(self.addresses, plan.keys, plan.size, plan.outstanding, random=random.Random(plan.seed))
        async with self.turns.taken(alone=False), connected(self.addresses[NodeId(1)], PATIENCE_SECONDS) as client:
            await make_znodes(client, plan.keys)
        load_seconds = await self._write(load, plan.writes)
        full = await self._back_up("full", load.done, copied=True)
        await self._write(load, int(plan.writes * MORE_PART))
        more = await self._back_up("on top of it", load.done - full.writes, copied=False)
        async with self.turns.taken():
            began = CLOCK.monotonic()
            found = await verify_backup(self._place, None, self._open, CLOCK, random.Random(plan.seed))
            verify_seconds = CLOCK.monotonic() - began
        tell(f"verified in {verify_seconds:.1f} s")
        restores, problems = list[TimedRestore](), list[str]()
        chance = random.Random(plan.seed)
        for number in range(plan.positions):
            position = chance.randrange(found.backup.start + 1, found.backup.stop)
            restores.append(await self._restore(number, LogPosition(position), problems))
        return BackupFindings(
            plan=plan, load_seconds=load_seconds, backups=[full, more], restores=restores, rpo_seconds=found.rpo_seconds,
            rto_seconds=found.rto_seconds, verify_seconds=verify_seconds, pairs=found.pairs, problems=problems,
        )  # fmt: skip

    async def _write(self, load: ChurnLoad, writes: int) -> float:
        """Make so many more writes, in turns. Returns the seconds that they took."""
        seconds, stop = 0.0, load.done + writes
        while load.done < stop:
            async with self.turns.taken(alone=False):
                began = CLOCK.monotonic()
                await load.write(min(LOAD_PART, stop - load.done))
                seconds += CLOCK.monotonic() - began
            tell(f"{load.done:,} writes, {seconds:.0f} s")
        return seconds

    async def _back_up(self, what: str, writes: int, *, copied: bool) -> TimedBackup:
        async with self.turns.taken():
            made = await back_up(self.log, self._place, BackupSettings())
            copied_seconds = await self._copy(made) if copied else None
        tell(f"backup {made.manifest.number} in {made.seconds:.1f} s")
        entries = made.manifest.ranges[-1].entries if not made.manifest.full else made.manifest.entries
        return TimedBackup(
            what=what, writes=writes, entries=entries, written_bytes=made.written_bytes, value_bytes=writes * self.plan.size,
            seconds=made.seconds, copied_seconds=copied_seconds,
        )  # fmt: skip

    async def _copy(self, made: FinishedBackup) -> float:
        """Seconds that `cp` takes for all that a backup has written, until it is durable."""
        began = CLOCK.monotonic()
        target = self.folder / f"copy-{made.manifest.number}"
        for command in (["cp", "-r", str(self.folder / "backups"), str(target)], ["sync", "-f", str(target)]):
            done = await trio.run_process(command, check=False, capture_stderr=True)
            if done.returncode:
                raise UnavailableError(f"{' '.join(command)}: {done.stderr.decode()}")
        return CLOCK.monotonic() - began

    async def _restore(self, number: int, position: LogPosition, problems: list[str]) -> TimedRestore:
        wanted = BackupRequest(into=f"file://{self.folder / f'restored-{number}'}", position=position)
        async with self.turns.taken(), scratch_directory(self.folder / f"replay-{number}") as directory:
            began = CLOCK.monotonic()
            made = await restore_backup(self._place, wanted, self._open, CLOCK, random.Random(number))
            seconds = CLOCK.monotonic() - began
            tell(f"restored at {position:,} in {seconds:.1f} s")
            began = CLOCK.monotonic()
            await install_newest_snapshot(directory, self.log, "replay")
            store = await directory.open()
            await play_up_to(store, LiveLog(self.log), position)
            wrong = differences(state_digest_of(store).finish(), made.digests)
            replay_seconds = CLOCK.monotonic() - began
        if wrong:
            problems.append(f"the state restored at {position} is not that of a replay: {', '.join(wrong)}")
        tell(f"replayed in {replay_seconds:.1f} s")
        return TimedRestore(position=position, seconds=seconds, replay_seconds=replay_seconds)

    @property
    def _place(self) -> BackupPlace:
        return BackupPlace(f"file://{self.folder / 'backups'}", self._open)

    def _open(self, url: str) -> Any:
        return opened_again(FsspecFiles, CLOCK)(url)
