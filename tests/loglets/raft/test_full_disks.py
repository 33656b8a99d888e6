"""A raft loglet whose replicas' disks are full, as its client sees it."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.loglets.raft.cluster import Cluster, running_cluster, writer
from virtuallog.contract.errors import DiskFullError, UnavailableError
from virtuallog.contract.types import LogletOffset, Sealed
from virtuallog.testing.sim.disk_faults import DiskFaults


async def fill(cluster: Cluster) -> list[range]:
    """Append until there is no room; returns what was acknowledged."""
    one, places = writer(cluster.client()), list[range]()
    try:
        while True:
            place = await one.append(bytes(4000))
            places.append(place)
    except (DiskFullError, UnavailableError):  # the outcome of the last one may be unknown
        return places


async def test_client_is_told_that_the_disks_are_full_and_can_seal(autojump_clock: MockClock) -> None:
    """The same leader goes on. What was acknowledged can be read, and the loglet can be sealed, which is the way to other disks."""
    faults = DiskFaults(capacity_bytes=96 << 10)
    async with running_cluster(faults=faults) as cluster:
        cluster.create()
        places = await fill(cluster)
        term = cluster.replica(cluster.leader()).state.term
        for _ in range(20):
            with pytest.raises(DiskFullError, match="full"):
                await writer(cluster.client(), b"x").append(bytes(4000))

        assert cluster.replica(cluster.leader()).state.term == term
        assert (await cluster.client().check_tail()).tail >= places[-1].stop > 0
        assert await cluster.client().read(LogletOffset(0), LogletOffset(1), 1 << 20)
        tail = await cluster.client().seal_and_check_tail()
        assert isinstance(tail, Sealed) and tail.tail >= places[-1].stop


async def test_loglet_goes_on_once_its_disks_have_room(autojump_clock: MockClock) -> None:
    """No replica is started anew."""
    faults = DiskFaults(capacity_bytes=96 << 10)
    async with running_cluster(faults=faults) as cluster:
        cluster.create()
        places = await fill(cluster)
        faults.capacity_bytes = None
        await cluster.clock.sleep(3)

        assert (await writer(cluster.client(), b"x").append(b"again")).start >= places[-1].stop
