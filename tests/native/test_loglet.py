"""The whole NativeLoglet, over a simulated network and simulated disks."""

from __future__ import annotations

import trio

from tests.native.cluster import read_all, running_cluster, writer
from virtuallog.types import LogletOffset, Open, Sealed


async def test_what_is_appended_is_read_back_and_survives_a_seal(autojump_clock: trio.testing.MockClock) -> None:
    """The plain life of a loglet: append, tail, read, seal, tail, read."""
    async with running_cluster() as cluster:
        cluster.create()
        loglet = cluster.client()
        one = writer(loglet)

        assert await one.append(b"a", b"b") == range(2)
        assert await one.append(b"c") == range(2, 3)
        assert await loglet.check_tail() == Open(3)
        assert await read_all(loglet, 0, 3) == [b"a", b"b", b"c"]
        await loglet.seal()
        assert await loglet.check_tail() == Sealed(3)
        assert await read_all(cluster.client(), 1, 3) == [b"b", b"c"]
        assert await loglet.wait_tail(LogletOffset(3)) == Sealed(3)
