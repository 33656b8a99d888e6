"""Commands that go through all closed segments, while the chain goes on changing."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.server.node.test_garbage_collection import cold_for, with_kinds
from tests.virtuallog.client.world import world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import SealedError
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogPosition
from virtuallog_server.cli.archive.segment_selection import each_segment


def has_entries(segment: Segment) -> bool:
    return segment.start != segment.stop


async def extend(log: VirtualLog, times: int) -> None:
    """As many closed segments of one entry."""
    for _ in range(times):
        await log.append(b"x")
        await log.reconfig_extend("memory")


async def test_segments_that_are_trimmed_meanwhile_are_passed_over(autojump_clock: MockClock) -> None:
    """The one that is being worked on fails, the next one is gone before its turn, one more was closed; the rest is done."""
    async with world() as w:
        log, done = w.client(), list[int]()
        await extend(log, 4)

        async def work(register: Register, segment: Segment) -> None:
            if segment.start == 1:
                await log.prefix_trim(LogPosition(3))
                await extend(log, 1)
                raise SealedError("this loglet has been dropped")
            done.append(segment.start)

        await each_segment(log, "all", has_entries, work)
        assert done == [0, 3, 4]


async def test_a_segment_that_was_rebuilt_meanwhile_comes_again(autojump_clock: MockClock) -> None:
    """It has another id, and the same entries."""
    async with world() as w:
        await with_kinds(w)
        await cold_for(w, seconds=60)
        log, worked = w.client(), list[Segment]()

        async def work(register: Register, segment: Segment) -> None:
            worked.append(segment)
            if len(worked) == 1:
                await log.reconfig_modify(segment.id, "cold", b"", segment.base)
                raise SealedError("this loglet has been dropped")

        await each_segment(log, "all", has_entries, work)
        assert [segment.start for segment in worked] == [0, 0]
        assert worked[0].id != worked[1].id


async def test_an_error_about_a_segment_that_is_there_is_told(autojump_clock: MockClock) -> None:
    """And nothing is tried after it."""
    async with world() as w:
        log, worked = w.client(), list[Segment]()
        await extend(log, 2)

        async def work(register: Register, segment: Segment) -> None:
            worked.append(segment)
            raise SealedError("who knows why")

        with pytest.raises(SealedError, match="who knows why"):
            await each_segment(log, "all", has_entries, work)
        assert len(worked) == 1
