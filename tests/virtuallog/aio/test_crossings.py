"""Appends and questions of one turn of asyncio that cross as one, and the parts that carry calls over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import outcome
import pytest
import trio

from tests.virtuallog.aio.asyncio_world import AsyncioWorld, asyncio_world, in_asyncio
from tests.virtuallog.aio.rooms import Step, double, open_room_bridge, refuse
from virtuallog.aio import CompletedError
from virtuallog.client.appender import AppenderSettings
from virtuallog.contract.errors import SealedError, TooLargeError, UnavailableError
from virtuallog.contract.types import LogPosition
from virtuallog.runtime.bridge.call_workers import IDLE_MAX
from virtuallog.runtime.bridge.calls import BridgeOpening, Crossing
from virtuallog.runtime.bridge.shared_call import SharedCall
from virtuallog.runtime.bridge.slots import Slots
from virtuallog.runtime.bridge.wake_pipe import WakePipe


async def batches(w: AsyncioWorld) -> list[tuple[int, int]]:
    """Start and stop of each batch in the log."""
    stop = LogPosition((await w.log.check_tail()).tail)
    return [(each.start, each.stop) async for each in w.log.reader(stop=stop).batches()]


@in_asyncio
async def test_appends_of_a_turn_are_one_batch() -> None:
    """They are side by side in the order of the calls; those of the next turn are another batch."""
    async with asyncio_world() as w:
        calls = w.log.append(b"a"), w.log.append_many([b"b", b"c"]), w.log.append(b"d")
        first, second, third = await asyncio.gather(*calls)
        assert (first, second, third) == (0, range(1, 3), 3)
        assert await w.log.append(b"e") == 4
        assert await batches(w) == [(0, 4), (4, 5)]


@in_asyncio
async def test_a_group_has_bounds() -> None:
    """Settings of the session bound its entries; one append that is larger crosses by itself, as on trio."""
    async with asyncio_world() as w, w.log.appender(AppenderSettings(batch_entries=2)) as session:
        calls: list[Awaitable[range]] = [session.append([b"a"]), session.append([b"b"]), session.append([b"c"])]
        assert await asyncio.gather(*calls, session.append([b"d"] * 3)) == [
            range(1),
            range(1, 2),
            range(2, 3),
            range(3, 6),
        ]
        assert await batches(w) == [(0, 2), (2, 3), (3, 6)]


@in_asyncio
async def test_an_entry_too_large_fails_alone() -> None:
    """Others of its turn are appended."""
    async with asyncio_world() as w, w.log.appender(AppenderSettings(entry_bytes_max=3)) as session:
        good, bad = await asyncio.gather(session.append([b"abc"]), session.append([b"abcd"]), return_exceptions=True)
        assert good == range(1)
        assert isinstance(bad, TooLargeError)


@in_asyncio
async def test_a_group_that_fails_fails_for_all() -> None:
    """Each call raises the error of the log; a group that cannot begin does so, too."""
    async with asyncio_world() as w:
        await w.log.seal()
        found = await asyncio.gather(w.log.append(b"a"), w.log.append(b"b"), return_exceptions=True)
        assert [type(each) for each in found] == [SealedError] * 2
        async with w.log.appender() as session:
            await w.bridge.call_sync(session._appender.close)
            with pytest.raises(UnavailableError, match="nothing was done"):
                await session.append([b"c"])


@in_asyncio
async def test_an_append_that_was_done_when_it_was_cancelled_has_its_position_as_the_cause() -> None:
    """Its outcome has crossed, or is about to; also that of an append that has failed."""
    async with asyncio_world() as w:
        loop, tasks = asyncio.get_running_loop(), list[asyncio.Task[object]]()
        complete = w.bridge.complete

        def cancel_all() -> None:
            for task in tasks:
                task.cancel()

        def complete_and_cancel(crossing: Crossing | BridgeOpening, result: outcome.Maybe[Any] | None) -> None:
            complete(crossing, result)  # wakes asyncio at the end of the turn only
            loop.call_soon_threadsafe(cancel_all)

        w.bridge.complete = complete_and_cancel  # type: ignore[method-assign]
        tasks += [asyncio.create_task(w.log.append(b"a")), asyncio.create_task(w.log.append_many([b"b", b"c"]))]
        causes = []
        for task in tasks:
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            assert isinstance(caught.value.__cause__, CompletedError)
            causes.append(caught.value.__cause__.result)
        assert causes == [0, range(1, 3)]
        tasks.clear()
        await w.log.seal()
        tasks.append(asyncio.create_task(w.log.append(b"d")))
        with pytest.raises(asyncio.CancelledError) as caught:
            await tasks[0]
        assert isinstance(caught.value.__cause__, SealedError)


@in_asyncio
async def test_a_tail_that_is_asked_for_in_one_turn_is_one_call() -> None:
    """All get its answer; a task that asks in the next turn asks anew, so that its answer is not too old."""
    async with open_room_bridge() as found:
        numbers = iter(range(10))

        async def count() -> int:
            await trio.lowlevel.checkpoint()
            return next(numbers)

        shared = SharedCall(found.bridge, count)
        assert await asyncio.gather(*(shared.ask() for _ in range(8))) == [0] * 8
        assert await shared.ask() == 1
        failing = SharedCall(found.bridge, refuse)
        errors = await asyncio.gather(failing.ask(), failing.ask(), return_exceptions=True)
        assert [type(each) for each in errors] == [KeyError] * 2


@in_asyncio
async def test_a_shared_call_is_cancelled_with_its_last_caller() -> None:
    """One that leaves earlier gets its cancellation at once, and a task that asks afterwards has a call of its own."""
    async with open_room_bridge() as found:
        steps = [Step(), Step()]
        remaining = iter(steps)

        async def run() -> str:
            return await next(remaining).run()

        shared = SharedCall(found.bridge, run)
        first, second = asyncio.create_task(shared.ask()), asyncio.create_task(shared.ask())
        await steps[0].begun.wait()
        first.cancel()
        await asyncio.wait([first])
        seen = [steps[0].was_cancelled]
        second.cancel()
        await asyncio.wait([second])
        assert [*seen, steps[0].was_cancelled] == [False, True]
        assert first.cancelled()
        assert second.cancelled()
        third = asyncio.create_task(shared.ask())
        await steps[1].begun.wait()
        found.bridge.post(steps[1].may_end.set)
        assert await third == "done"


@in_asyncio
async def test_workers_are_kept_up_to_a_bound() -> None:
    """Calls that wait side by side each have a worker; afterwards some stay, and cancelled and failed calls spoil none."""
    count = 2 * IDLE_MAX
    async with open_room_bridge(outstanding_max=count) as found:
        for _ in range(2):
            steps = [Step() for _ in range(count)]
            tasks = [asyncio.create_task(found.bridge.call(step.run)) for step in steps]
            for step in steps:
                await step.begun.wait()
            for task in tasks[::3]:
                task.cancel()
            for step in steps:
                found.bridge.post(step.may_end.set)
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert {str(each) for each in done} <= {"done", ""}
            with pytest.raises(KeyError):
                await found.bridge.call(refuse)

        async def tasks_of_workers() -> int:
            await trio.lowlevel.checkpoint()
            nursery = trio.lowlevel.current_task().parent_nursery
            assert nursery is not None
            return len(nursery.child_tasks)

        assert 1 < await found.bridge.call(tasks_of_workers) <= IDLE_MAX + 2
        assert await asyncio.gather(*(found.bridge.call(double, number) for number in range(count))) == [
            2 * number for number in range(count)
        ]


@in_asyncio
async def test_slots_go_to_the_caller_that_waits_longest() -> None:
    """A cancelled caller has none, also if it was just given one."""
    slots = Slots(1)
    assert slots.try_take()
    assert not slots.try_take()
    first, second, third = (asyncio.create_task(slots.wait()) for _ in range(3))
    await asyncio.sleep(0)
    second.cancel()
    slots.give_back()
    first.cancel()  # it has the slot, and has not run yet
    await asyncio.wait([first, second, third])
    assert first.cancelled()
    assert second.cancelled()
    assert third.done()
    assert not slots.try_take()
    slots.give_back()
    assert slots.try_take()


def test_a_pipe_holds_one_wake_up() -> None:
    """A second one is one with the first until that is taken; a closed pipe takes none."""
    pipe = WakePipe()
    assert pipe.wake()
    assert not pipe.wake()
    pipe.clear()
    assert pipe.wake()
    pipe.close()
    pipe.close()
    assert not pipe.wake()
