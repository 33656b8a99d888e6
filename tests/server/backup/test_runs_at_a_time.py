"""Several runs of a backup at a time for one place: paused anywhere, killed, and slower than the next one."""

from __future__ import annotations

import random

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from tests.server.backup.places import URL, KilledError, MemoryPlace, Steps
from tests.server.backup.test_log_backups import append, entries, restored, saved
from tests.virtuallog.client.world import world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.archive.drivers.files import OpenDirectory
from virtuallog_server.backup.place import BackupPlace
from virtuallog_server.backup.verification import verify_backup

BEHIND_MANIFEST = 5
"""Requests of a run behind its manifest: it is read back, and orphans are looked for."""


async def verified(place: MemoryPlace) -> int:
    """Number of the newest backup, which is right."""
    found = await verify_backup(BackupPlace(URL, place), None, place, SystemClock(), random.Random(1))
    return found.backup.number


@attrs.define
class Gate:
    """One request of a run waits here until it is let go."""

    request: int
    reached: trio.Event = attrs.field(factory=trio.Event)
    opened: trio.Event = attrs.field(factory=trio.Event)

    async def pause(self, number: int) -> None:
        if number == self.request:
            self.reached.set()
            await self.opened.wait()


async def _requests(log: VirtualLog, place: MemoryPlace) -> int:
    """Requests of a run on top of what is there; the place is left as it was."""
    copy, counted = MemoryPlace(), Steps()
    for url, files in place.directories.items():
        copy(url).content.update(files.content)
    await saved(log, counted.opened(copy))
    return counted.taken


async def test_a_slow_run_removes_nothing_of_the_next_one(autojump_clock: MockClock) -> None:
    """The first one stands still at each of its requests in turn, also after its manifest is written; the next one is then about to
    publish, and stands still meanwhile. When both have ended, the newest backup is right."""
    async with world() as w:
        log = w.client()
        written = await append(log, 0, 20)
        former = MemoryPlace()
        await saved(log, former)
        written += await append(log, 20, 30)
        requests = await _requests(log, former)
        for request in range(1, requests + 1):
            for other in (requests // 2, requests - BEHIND_MANIFEST):
                place = MemoryPlace()
                for url, files in former.directories.items():
                    place(url).content.update(files.content)
                written += await _one_behind_the_other(log, place, Gate(request), Gate(other), len(written))
                await verified(place)
                await saved(log, place)
                await restored(place)
                assert await entries(place) == written
        assert requests > 8


async def _one_behind_the_other(
    log: VirtualLog, place: MemoryPlace, slow: Gate, next_one: Gate, count: int
) -> list[bytes]:
    """Two runs, and entries that only the second one saves; returns these."""
    refused = list[str]()

    async def run(gate: Gate) -> None:
        try:
            await saved(log, Steps(pause=gate.pause).opened(place))
        except UnavailableError as error:
            refused.append(str(error))
        gate.reached.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, slow)
        await slow.reached.wait()
        written = await append(log, count, count + 2)
        nursery.start_soon(run, next_one)
        await next_one.reached.wait()
        slow.opened.set()
        await trio.testing.wait_all_tasks_blocked()
        next_one.opened.set()
    assert all("is that of another run" in reason for reason in refused)
    return written


@pytest.mark.parametrize("seed", range(30))
async def test_any_runs_at_any_time(autojump_clock: MockClock, seed: int) -> None:
    """Three operators back up again and again, full or not, with pauses anywhere, while entries come; some runs are killed. Each that says it is
    done is right at once, and in the end everything is there."""
    async with world() as w:
        log, place, chance = w.client(), MemoryPlace(), random.Random(seed)
        clock = log.view.environment.clock
        written = await append(log, 0, 10)
        done = list[int]()

        async def pause(_: int) -> None:
            await clock.sleep(chance.choice((0.0, 0.01, 1.0)))

        async def operator() -> None:
            for _ in range(5):
                deadly = chance.choice((None, None, chance.randrange(40)))
                files = Steps(deadly, pause=pause).opened(place)
                try:
                    made = await saved(log, files, full=chance.random() < 0.3)
                except (KilledError, UnavailableError):
                    continue
                done.append(made.manifest.number)
                await verify_backup(
                    BackupPlace(URL, place), made.manifest.number, place, SystemClock(), random.Random(1)
                )
                await clock.sleep(chance.random())

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(operator)
            for start in range(10, 40, 10):
                await clock.sleep(1.0)
                written += await append(log, start, start + 10)
        made = await saved(log, place)
        assert len(done) > 2 and await verified(place) == made.manifest.number
        await restored(place)
        assert await entries(place) == written


async def test_a_run_that_is_slower_says_so(autojump_clock: MockClock) -> None:
    """Wherever it stood still: its ranges were removed under its eyes, which is no damage. The same command may be given again."""
    async with world() as w:
        log = w.client()
        await append(log, 0, 20)
        for request in range(3, await _requests(log, MemoryPlace()) - BEHIND_MANIFEST):
            place, gate = MemoryPlace(), Gate(request)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_refused, log, Steps(pause=gate.pause).opened(place))
                await gate.reached.wait()
                await append(log, 20 + request, 21 + request)
                await saved(log, place)
                gate.opened.set()
            await verified(place)


async def _refused(log: VirtualLog, place: OpenDirectory) -> None:
    with pytest.raises(UnavailableError, match="is that of another run"):
        await saved(log, place)
