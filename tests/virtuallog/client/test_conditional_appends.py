"""Conditional appends through a VirtualLog."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.virtuallog.client.world import World, contents, world
from virtuallog.client.virtual_log import CONDITIONAL_MAX
from virtuallog.contract import chain
from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import TailMismatchError
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, LogPosition, PlacedBatch
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider


async def test_a_conditional_append_lands_at_the_tail_it_expects_or_not_at_all(autojump_clock: MockClock) -> None:
    """A refusal gives the tail; positions, and so expectations, go on across a swap."""
    async with world() as w:
        log = w.client()
        await log.append(b"a")

        assert await log.append_if_tail(b"b", LogPosition(1)) == 1
        with pytest.raises(TailMismatchError) as caught:
            await log.append_if_tail(b"c", LogPosition(1))
        assert (caught.value.expected, caught.value.found) == (1, 2)
        await log.reconfig_extend("memory")
        with pytest.raises(TailMismatchError):
            await log.append_if_tail(b"c", LogPosition(1))
        assert await log.append_if_tail(b"c", LogPosition(2)) == 2
        assert await contents(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


@attrs.define
class StaleLoglet(MemoryLoglet):
    """A loglet whose sequencer does not know that servers are sealed, and refuses at the tail that it knows."""

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        tail = (await self.check_tail()).tail
        if expected_tail is not None and expected_tail != tail:
            raise TailMismatchError(expected_tail, tail)
        return await super().append(batch, opens=opens, expected_tail=expected_tail)


class StaleProvider(MemoryProvider):
    def open(self, segment: chain.SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        opened = super().open(segment, config, environment)
        return StaleLoglet(opened._shared, opened._clock)


async def test_a_stale_sequencer_refuses_nothing_for_good(autojump_clock: MockClock) -> None:
    """The log has been extended, and has grown to the expected tail. A client that last appended before that asks the
    former sequencer. If its tail is behind, that says nothing about the log; if it has passed the expected one, it does."""
    async with trio.open_nursery() as nursery:
        w = World(nursery, providers={"memory": StaleProvider()})
        late, other = w.client(), w.client()
        assert await late.append_if_tail(b"a", LogPosition(0)) == 0
        await other.reconfig_extend("memory")
        await other.append(b"b")

        with pytest.raises(TailMismatchError):
            await late.append_if_tail(b"c", LogPosition(0))
        assert await late.append_if_tail(b"c", LogPosition(2)) == 2
        assert await contents(other) == [(0, b"a"), (1, b"b"), (2, b"c")]
        nursery.cancel_scope.cancel()


async def test_conditional_appends_one_after_the_other_are_of_one_session(autojump_clock: MockClock) -> None:
    """A loglet remembers each session for minutes, and has room for so many: a session for each of 200 appends a second
    would leave none for new clients after a minute."""
    async with world() as w:
        log = w.client()
        for position in range(30):
            assert await log.append_if_tail(b"x", LogPosition(position)) == position

        found = [placed async for placed in log.reader(LogPosition(0), LogPosition(30)).batches()]
        assert len({placed.batch.session for placed in found if isinstance(placed, PlacedBatch)}) == 1
        assert len(log._appenders) == 1


async def test_conditional_appends_side_by_side_do_not_touch_each_other(autojump_clock: MockClock) -> None:
    """One of them wins, the others get TailMismatchError; few of their sessions are kept."""
    async with world() as w:
        log = w.client()
        outcomes: Counter[str] = Counter()

        async def attempt(number: int) -> None:
            try:
                await log.append_if_tail(b"%d" % number, LogPosition(0))
            except TailMismatchError:
                outcomes["refused"] += 1
            else:
                outcomes["placed"] += 1

        async with trio.open_nursery() as nursery:
            for number in range(CONDITIONAL_MAX + 10):
                nursery.start_soon(attempt, number)

        assert outcomes == {"placed": 1, "refused": CONDITIONAL_MAX + 9}
        assert len(await contents(log)) == 1
        assert len(log._appenders) == CONDITIONAL_MAX


async def test_a_conditional_append_whose_caller_left_has_a_session_to_itself(autojump_clock: MockClock) -> None:
    """It may still be on its way, and fail: no other append may be behind it in the session."""
    async with world() as w:
        log = w.client()
        for checkpoints in range(12):
            tail = LogPosition((await log.check_tail()).tail)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(log.append_if_tail, b"left", tail)
                for _ in range(checkpoints):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            with trio.fail_after(5), suppress(TailMismatchError):
                await log.append_if_tail(b"stays", tail)
        assert len(log._appenders) <= 2
