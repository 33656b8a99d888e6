"""Restores that were killed, and go on while backups come and go."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.server.backup.places import URL, KilledError, MemoryPlace, Steps
from tests.server.backup.test_log_backups import INTO, append, entries, restored, saved
from tests.virtuallog.client.world import world
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import LogPosition
from virtuallog_loglets.archive.restore_plan import NAME
from virtuallog_server.backup.core import manifest as manifests


async def test_a_restore_goes_on_with_a_backup_that_has_what_was_decided(autojump_clock: MockClock) -> None:
    """Since it was killed, the log was trimmed and a full backup was made, which reaches to the same end, but not so far back."""
    async with world() as w:
        log, place = w.client(), MemoryPlace()
        written = await append(log, 0, 20)
        await saved(log, place)
        deadly = 1
        while NAME not in place(INTO).content:
            with pytest.raises(KilledError):
                await restored(Steps(deadly).opened(place))
            deadly += 1
        await append(log, 20, 30)
        await log.prefix_trim(LogPosition(10))
        await saved(log, place, full=True)

        made = await restored(place)

        assert (made.backup.number, made.position) == (1, 20) and await entries(place) == written

        del place(URL).content[manifests.name_of(1)], place(INTO).content["origin.json"]
        with pytest.raises(InvalidSettingError, match="no backup reaches there"):
            await restored(place)
