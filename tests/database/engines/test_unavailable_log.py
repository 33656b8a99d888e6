"""Replicas go on, and try again, when the log refuses a request for reasons outside of the replica."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.world import SETTINGS, caught_up, replicas
from virtuallog.contract.errors import CorruptionError, StorageError, UnknownKindError, VirtualLogError
from virtuallog_database.engines.checksums import ChecksumSettings
from virtuallog_database.engines.stack import StackSettings
from virtuallog_database.engines.view_tracking import ViewSettings

BUSY: StackSettings = attrs.evolve(
    SETTINGS,
    view=ViewSettings(announce_seconds=0.5),
    checksums=ChecksumSettings(first_seconds=1.0, period_seconds=2.0, pause_seconds=0.001),
)


@pytest.mark.parametrize(
    "refusal",
    [
        StorageError("s3://archive: permission denied"),
        CorruptionError("the manifest of an archive is damaged"),
        UnknownKindError("archive", "memory"),
    ],
)
async def test_a_trim_that_is_refused_stops_no_replica(refusal: VirtualLogError, autojump_clock: MockClock) -> None:
    """All are allowed the same, so all would stop within a second, and at each start again. Once trims are possible, they are made."""
    async with replicas() as world:
        running = [await world.start(node, settings=BUSY) for node in (1, 2, 3)]
        for number in range(10):
            await running[0].propose(b"entry %d" % number)
        await caught_up(*running)
        world.provider.trim_refusal = refusal
        for each in running:
            each.replica.snapshotted(each.replica.cursor)
        await trio.sleep(10.0)
        assert world.provider.trims
        assert not any(each.ended.is_set() for each in running)

        world.provider.trim_refusal = None
        await trio.sleep(3.0)
        assert await running[0].log.find_trim_point() >= 10


async def test_a_log_that_is_closed_stops_no_replica(autojump_clock: MockClock) -> None:
    """An operator closes it, and lets it go on later: what engines say by themselves waits until then, as clients do."""
    async with replicas() as world:
        running = [await world.start(node, settings=BUSY) for node in (1, 2, 3)]
        await running[0].propose(b"before")
        await trio.sleep(1.0)
        await running[0].log.seal()
        await trio.sleep(30.0)
        assert not any(each.ended.is_set() for each in running)

        await running[0].log.reconfig_extend("memory")
        await running[1].propose(b"after")
        await caught_up(*running)
        assert [each.application.items for each in running] == [[b"before", b"after"]] * 3
