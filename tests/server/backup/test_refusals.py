"""What a backup and a restore refuse, and the way out that they name: damage, other clusters, trims, and clocks that jump."""

from __future__ import annotations

import random
from functools import partial

import attrs
import pytest
from trio.testing import MockClock

from tests.server.backup.places import URL, MemoryPlace, Steps
from tests.server.backup.test_log_backups import DAMAGED, INTO, append, entries, restored, saved
from tests.virtuallog.client.world import world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, WrongRecipientError
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.clock import SystemClock
from virtuallog_server.backup.core import manifest as manifests
from virtuallog_server.backup.core.manifest import decode_untrusted
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.verification import verify_backup


async def verified(place: MemoryPlace) -> int:
    """Number of the newest backup, which is right."""
    found = await verify_backup(BackupPlace(URL, place), None, place, SystemClock(), random.Random(1))
    return found.backup.number


def damage(place: MemoryPlace, suffix: str, *, removed: bool = False) -> int:
    """Change a byte of all files whose names end so, or remove them. Returns how many there were."""
    found = [(url, name) for url, name in place.content(URL) if name.endswith(suffix)]
    for url, name in found:
        whole = place(url).content.pop(name)
        if not removed:
            place(url).content[name] = whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]
    return len(found)


async def test_remains_that_are_damaged_are_written_again(autojump_clock: MockClock) -> None:
    """A run was killed behind its ranges, and their files were changed or lost since: the next run does not trip over them."""
    async with world() as w:
        log = w.client()
        written = await append(log, 0, 30)
        for removed in (False, True):
            for suffix in (".parquet", ".json"):
                place = MemoryPlace()
                await saved(log, place)
                del place(URL).content[manifests.name_of(1)]
                assert damage(place, suffix, removed=removed) == 1
                await saved(log, place)
                assert await verified(place) == 1
                await restored(place, f"{INTO}-{removed}{suffix}")
                assert await entries(place, f"{INTO}-{removed}{suffix}") == written


async def test_a_full_backup_rests_on_nothing_that_is_damaged(autojump_clock: MockClock) -> None:
    """Its ranges begin where those of a damaged backup do, and are no part of them. The damaged one is refused by the next run, which
    names the remedy, and by a restore, which names the other way. That its ranges cannot be removed is no failure of the full one."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        written = await append(log, 0, 30)
        await saved(log, place)
        damage(place, ".parquet")
        damage(place, manifests.name_of(1))
        with pytest.raises(DAMAGED, match=r"backup-0000000001\.json.*--full"):
            await saved(log, place)
        with pytest.raises(DAMAGED, match=r"backup-0000000001\.json.*by its number"):
            await restored(place, f"{INTO}-never")
        assert (await saved(log, place, full=True)).orphans == 0
        assert await verified(place) == 2
        assert (await saved(log, place)).manifest.base == 2
        await restored(place)
        assert await entries(place) == written


async def test_nothing_is_put_on_top_of_a_hole(autojump_clock: MockClock) -> None:
    """A range was removed by hand: the next run says which one and what to do, and so does a verification."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        await append(log, 0, 30)
        await saved(log, place)
        for url, name in list(place.content(f"{URL}/archives")):
            del place(url).content[name]
        await append(log, 30, 40)
        lost = r"00000000000000000000-00000000000000000030-backup-0000000001"
        with pytest.raises(CorruptionError, match=rf"{lost} is missing; .*--full"):
            await saved(log, place)
        with pytest.raises(CorruptionError, match=rf"{lost}/manifest\.json is missing"):
            await verified(place)
        await saved(log, place, full=True)
        assert await verified(place) == 2


async def test_a_place_is_for_one_cluster(autojump_clock: MockClock) -> None:
    """A full backup of another cluster is refused, too. Where both are all the same, put together by hand, a restore does not go back to the
    other one on its own: positions and times of two clusters have nothing in common."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        written = await append(log, 0, 10)
        await saved(log, place)
        former = w.register
        other = attrs.evolve(former, cluster=ClusterId(b"d" * 16))
        w.metastore.values[-1] = other.encode()
        with pytest.raises(WrongRecipientError):
            await saved(w.client(), place, full=True)
        assert await BackupPlace(URL, place).numbers() == [1]
        elsewhere = MemoryPlace()
        await log.prefix_trim(LogPosition(5))
        w.metastore.values[-1] = attrs.evolve(w.register, cluster=other.cluster).encode()
        made = await saved(w.client(), elsewhere)
        assert (made.manifest.cluster, made.manifest.start) == (other.cluster.hex(), 5)
        for url, name in elsewhere.content(f"{URL}/archives"):
            place(url).content[name] = elsewhere(url).content[name]
        manifest = decode_untrusted(elsewhere(URL).content[manifests.name_of(1)])
        ranges = tuple(attrs.evolve(each, number=1) for each in manifest.ranges)
        both = attrs.evolve(manifest, number=2, base=1, ranges=ranges)
        place(URL).content[manifests.name_of(2)] = both.encode()
        with pytest.raises(InvalidSettingError):
            await restored(place, position=LogPosition(3))
        await restored(place, position=LogPosition(3), number=1)
        assert await entries(place) == written[:3]


async def test_a_log_that_is_trimmed_under_a_backup(autojump_clock: MockClock) -> None:
    """At each of its requests: the backup is whole, or it is refused and none is there; then a full one is made, from where the log begins."""
    async with world() as w:
        counted = Steps()
        log = w.client()
        await append(log, 0, 40)
        await saved(log, counted.opened(MemoryPlace()))
    for request in range(1, counted.taken + 1):
        async with world() as w:
            log, place = w.client(), MemoryPlace()
            written = await append(log, 0, 40)

            try:
                await saved(log, Steps(pause=partial(_trim, log, request)).opened(place))
            except InvalidSettingError:
                assert await BackupPlace(URL, place).numbers() == []
                await saved(log, place, full=True)
            made = await BackupPlace(URL, place).newest()
            assert made is not None
            await restored(place)
            assert await entries(place) == written[made.start :]


async def _trim(log: VirtualLog, at: int, request: int) -> None:
    """Trim the log at one of the requests."""
    if request == at:
        await log.prefix_trim(LogPosition(25))


async def test_a_clock_that_was_put_back(autojump_clock: MockClock) -> None:
    """The second backup was made at an earlier time of day than the first one: times in between are refused, as that backup cannot say what came
    before them. Named by its number, the first one says."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        written = await append(log, 0, 10)
        first = await saved(log, place)
        clock = log.view.environment.clock
        await clock.sleep(3600)
        ahead = await saved(log, place)
        written += await append(log, 10, 20)
        behind = attrs.evolve(ahead.manifest, number=3, covered_ms=first.manifest.covered_ms + 1000)
        place(URL).content[manifests.name_of(3)] = behind.encode()
        between_ms = first.manifest.covered_ms + 2000
        with pytest.raises(InvalidSettingError, match="no backup reaches there"):
            await restored(place, time_ms=between_ms)
        await restored(place, time_ms=between_ms, number=2)
        assert await entries(place) == written[:10]
