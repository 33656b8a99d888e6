"""Removal of old backups: what is kept is whole at every step, and nothing else is left in the end."""

from __future__ import annotations

import random
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.history.drawn_log import DrawnLog
from tests.server.backup.places import URL, MemoryPlace, Steps, dies
from tests.server.backup.saved_states import CLUSTER, saved_state
from tests.server.backup.test_log_backups import INTO, append, entries, restored, saved
from tests.server.backup.test_refusals import damage
from tests.virtuallog.client.world import world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, MalformedError, UnavailableError
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.snapshots.compaction_manifest import Table
from virtuallog_database.tree.commands import Create
from virtuallog_loglets.archive.drivers.files import OpenDirectory
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_server.backup.core import manifest as manifests
from virtuallog_server.backup.place import BackupPlace, DamagedBackup
from virtuallog_server.backup.retention import PrunedPlace, prune_backups
from virtuallog_server.backup.verification import verify_backup

CHAINS = (True, False, False, True, False, True, False, True)
"""Runs of a place; True for a full one: backups 1 to 3, 4 and 5, 6 and 7, and 8."""


async def pruned(place: OpenDirectory, keep: int) -> PrunedPlace:
    return await prune_backups(BackupPlace(URL, place), keep, place, SystemClock(), random.Random(1))


async def all_right(place: MemoryPlace) -> list[int]:
    """Numbers of all backups; each of them is right."""
    numbers = await BackupPlace(URL, place).numbers()
    for number in numbers:
        await verify_backup(BackupPlace(URL, place), number, place, SystemClock(), random.Random(1))
    return numbers


def copied(place: MemoryPlace) -> MemoryPlace:
    copy = MemoryPlace()
    for url, files in place.directories.items():
        copy(url).content.update(files.content)
    return copy


async def made(log: VirtualLog) -> tuple[MemoryPlace, list[bytes]]:
    """A place with `CHAINS`, and all entries. Each full one begins with the last five entries before it."""
    place, written = MemoryPlace(), list[bytes]()
    for full in CHAINS:
        if full and written:
            await log.prefix_trim(LogPosition(len(written) - 5))
        written += await append(log, len(written), len(written) + 10)
        await saved(log, place, full=full)
    return place, written


async def test_the_newest_full_backups_stay_with_what_is_on_top(autojump_clock: MockClock) -> None:
    """Others are gone, with their ranges; and so is what a killed run has left. Once more, nothing is removed."""
    async with world() as w:
        log = w.client()
        place, written = await made(log)
        left = copied(place)
        del left(URL).content[manifests.name_of(8)]  # killed before its manifest

        done = await pruned(place, 2)
        assert [each.number for each in done.kept] == [8, 7] and done.removed == (1, 2, 3, 4, 5) and done.ranges == 5
        assert await all_right(place) == [6, 7, 8]
        assert len(await BackupPlace(URL, place).ranges(done.kept[0].cluster)) == 3
        for number, position in ((7, 60), (None, 80)):
            await restored(place, f"{INTO}-{number}", number=number, position=LogPosition(position))
            assert await entries(place, f"{INTO}-{number}") == written[45 if number else 65 : position]
        with pytest.raises(InvalidSettingError, match="no backup reaches there"):
            await restored(place, position=LogPosition(40))

        for keep in (2, 9):
            again = await pruned(place, keep)
            assert (again.removed, again.ranges, again.states) == ((), 0, 0)
        assert (await pruned(left, 1)).removed == (1, 2, 3, 4, 5) and await all_right(left) == [6, 7]
        assert (await saved(log, place)).manifest.base == 8


async def test_killed_at_each_step(autojump_clock: MockClock) -> None:
    """Before each request: each backup that still has a manifest is right, the kept ones have one, and the next call completes it."""
    async with world() as w:
        full, _ = await made(w.client())
        done, deadly = copied(full), 0
        await pruned(done, 2)
        while True:
            place = copied(full)
            if not await dies(pruned(Steps(deadly).opened(place), 2)):
                break
            assert {6, 7, 8} <= {*await all_right(place)}
            await pruned(place, 2)
            assert place.content(URL) == done.content(URL)
            deadly += 1
        assert deadly > 40


@pytest.mark.parametrize("suffix", [".parquet", "manifest.json", "0000008.json", "0000007.json"])
async def test_nothing_is_removed_if_what_stays_is_damaged(autojump_clock: MockClock, suffix: str) -> None:
    """A changed byte in a file that is kept, or a file that is missing."""
    async with world() as w:
        full, _ = await made(w.client())
        for removed in (False, True):
            place = copied(full)
            if removed and suffix.startswith("000"):
                continue  # without its manifest there is no such backup
            assert damage(place, suffix, removed=removed) > 0
            before = place.content(URL)
            with pytest.raises((CorruptionError, MalformedError)):
                await pruned(place, 2)
            assert place.content(URL) == before


async def test_damage_below_is_removed_with_the_rest(autojump_clock: MockClock) -> None:
    """A list shows it beside the others, and goes on behind it."""
    async with world() as w:
        place, _ = await made(w.client())
        assert damage(place, manifests.name_of(3)) == damage(place, manifests.name_of(7)) == 1

        survey = await BackupPlace(URL, place).survey()

        assert [each.number for each in survey] == [8, 7, 6, 5, 3, 2]
        assert [each.number for each in survey if isinstance(each, DamagedBackup)] == [7, 3]
        assert (await pruned(place, 1)).removed == (1, 2, 3, 4, 5, 6, 7) and await all_right(place) == [8]


async def test_backups_of_another_cluster_are_not_removed(autojump_clock: MockClock) -> None:
    """They were put there by hand. An empty place is no success either."""
    with pytest.raises(InvalidSettingError, match="there are no backups"):
        await pruned(MemoryPlace(), 1)
    async with world() as w:
        place, _ = await made(w.client())
    number = manifests.name_of(3)
    other = manifests.decode_untrusted(place(URL).content[number])
    place(URL).content[number] = attrs.evolve(other, cluster="d" * 32).encode()
    before = place.content(URL)

    with pytest.raises(InvalidSettingError, match="several clusters"):
        await pruned(place, 1)
    assert place.content(URL) == before


async def test_states_go_with_their_backups(tmp_path: Path) -> None:
    """And those of runs that were killed, published or not. A compaction with tables is another program's, and a state that is newer than the oldest
    kept backup may be that of a run which is under way."""
    log, place = DrawnLog(), MemoryPlace()
    for number in range(9):
        log.do(Create(f"/{number}", b""))
    at = BackupPlace(URL, place)
    for number, position in enumerate((2, 4, 6, 8), 1):
        await at.publish(await saved_state(place, tmp_path, log, position, number=number))
    for position in (1, 7):
        await saved_state(place, tmp_path, log, position)
    state = await at.states.read(CLUSTER, 2)
    table = Table(stored="t.parquet", size=1, checksum=1, pairs=state.pairs, first=b"a", last=b"b")
    await at.states.publish(attrs.evolve(state, position=LogPosition(3), tables=(table,)))
    await at.states.write_file(CLUSTER, 5, "000001", b"unpublished", ".sst")

    done = await pruned(place, 2)

    assert done.removed == (1, 2) and done.states == 4
    assert await at.states.positions(CLUSTER) == [3, 6, 7, 8] and await all_right(place) == [3, 4]
    assert not await at.states.files(CLUSTER, 5).list() and not await at.states.files(CLUSTER, 2).list()


@pytest.mark.parametrize("seed", range(15))
async def test_backups_are_made_meanwhile(autojump_clock: MockClock, seed: int) -> None:
    """Operators back up and prune at the same time, with pauses anywhere, and some are killed: every backup that is there in the end is right, and the
    newest one has all."""
    async with world() as w:
        log, place, chance = w.client(), MemoryPlace(), random.Random(seed)
        clock = log.view.environment.clock
        written = await append(log, 0, 10)
        await saved(log, place)

        async def pause(_: int) -> None:
            await clock.sleep(chance.choice((0.0, 0.01, 1.0)))

        async def operator(prunes: bool) -> None:
            for _ in range(6):
                files = Steps(chance.choice((None, None, chance.randrange(60))), pause=pause).opened(place)
                try:
                    if prunes:
                        await dies(pruned(files, chance.choice((1, 2))))
                    else:
                        await dies(saved(log, files, full=chance.random() < 0.5))
                except UnavailableError:
                    pass  # another run was faster
                await clock.sleep(chance.random())

        async with trio.open_nursery() as nursery:
            for prunes in (False, False, True, True):
                nursery.start_soon(operator, prunes)
            for start in range(10, 40, 10):
                await clock.sleep(1.0)
                written += await append(log, start, start + 10)
        await saved(log, place)
        await all_right(place)
        await pruned(place, 1)
        await all_right(place)
        await restored(place)
        assert await entries(place) == written


async def test_directories_that_a_local_disk_keeps_are_not_counted_again(tmp_path: Path) -> None:
    """A range is removed once, though an object store forgets its directory and a local disk does not."""
    url, cluster = f"file://{tmp_path}", CLUSTER.hex()
    place = BackupPlace(url, FsspecFiles)
    await place.range_files(cluster, 3, 5, 1).write("data", b"1")

    assert await place.remove_orphans(cluster, 1) == [(3, 5, 1)]
    assert await place.remove_orphans(cluster, 1) == []
