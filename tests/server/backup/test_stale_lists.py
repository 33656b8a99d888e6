"""An object store whose lists are not as new as its files: what a list does not show yet is not taken for what is not there."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from trio.testing import MockClock

from tests.server.backup.places import URL, MemoryFiles, MemoryPlace
from tests.server.backup.test_log_backups import append, entries, restored, saved
from tests.server.backup.test_refusals import verified
from tests.virtuallog.client.world import world
from virtuallog_server.backup.core import manifest as manifests
from virtuallog_server.backup.place import BackupPlace


@attrs.define(eq=False)
class StaleFiles(MemoryFiles):
    """Files whose list lacks the newest manifests of the place."""

    lacking: int = 1

    async def list(self) -> Mapping[str, int]:
        found = await super().list()
        newest = sorted(name for name in found if manifests.number_of(name))[-self.lacking :]
        return {name: size for name, size in found.items() if name not in newest}


async def test_a_run_removes_no_range_of_a_backup_that_is_not_listed_yet(autojump_clock: MockClock) -> None:
    """Its own, which it has just made, and a faster run's."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        written = await append(log, 0, 10)
        await saved(log, place)
        written += await append(log, 10, 20)
        made = await saved(log, place)
        stale = MemoryPlace()
        stale.directories.update(place.directories)
        for lacking in (1, 2):
            stale.directories[URL] = StaleFiles(place(URL).content, url=URL, place=stale, lacking=lacking)
            removed = await BackupPlace(URL, stale).remove_orphans(made.manifest.cluster, made.manifest.number)
            assert removed == []

        assert await verified(place) == 2
        await restored(place)
        assert await entries(place) == written
