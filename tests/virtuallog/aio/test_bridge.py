"""Calls from asyncio to trio: wake-ups, cancellation at each stage, and ends in any order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import pytest
import trio

from tests.virtuallog.aio.asyncio_world import in_asyncio
from tests.virtuallog.aio.rooms import Step, double, fail_with, open_room, open_room_bridge, refuse
from virtuallog.runtime.bridge.asyncio_bridge import Pieces
from virtuallog.runtime.bridge.calls import BridgeCall
from virtuallog.runtime.bridge_errors import CompletedError

NAME: ContextVar[str] = ContextVar("NAME")


@in_asyncio
async def test_a_call_returns_and_raises() -> None:
    """The result and the error of the function arrive as they are, and the caller's context variables are there."""
    async with open_room_bridge() as found:
        assert await found.bridge.call(double, 4) == 8
        with pytest.raises(KeyError, match="refused"):
            await found.bridge.call(refuse)
        NAME.set("caller")
        assert await found.bridge.call_sync(NAME.get) == "caller"
        assert await found.bridge.call_sync(threading.current_thread) is not threading.current_thread()
    assert not found.opened.is_open


@in_asyncio
async def test_many_calls_cross_together() -> None:
    """A hundred calls of one turn are one wake-up of trio's thread, and their completions in two of its turns are two at most of asyncio's."""
    async with open_room_bridge(outstanding_max=100) as found:
        bridge = found.bridge
        before = bridge.trio_wake_ups, bridge.asyncio_wake_ups
        results = await asyncio.gather(*(bridge.call_sync(abs, -number) for number in range(100)))
        assert results == [*range(100)]
        assert bridge.trio_wake_ups - before[0] == 1
        assert bridge.asyncio_wake_ups - before[1] <= 2  # the leader's own call; those of the workers a turn later


@in_asyncio
async def test_calls_beyond_the_bound_wait_their_turn() -> None:
    """No more than the bound run at a time; a caller that is cancelled while it waits has done nothing; waits for events do not count."""
    async with open_room_bridge(outstanding_max=2) as found:
        steps = [Step() for _ in range(3)]
        waiter = asyncio.create_task(found.bridge.wait(Step().run))
        tasks = [asyncio.create_task(found.bridge.call(step.run)) for step in steps]
        await steps[0].begun.wait()
        await steps[1].begun.wait()
        late = asyncio.create_task(found.bridge.call(double, 1))
        await asyncio.sleep(0)
        late.cancel()
        with pytest.raises(asyncio.CancelledError):
            await late
        assert not steps[2].begun.is_set()
        found.bridge.post(steps[0].may_end.set)
        assert await tasks[0] == "done"
        await steps[2].begun.wait()
        for step in steps[1:]:
            found.bridge.post(step.may_end.set)
        assert await asyncio.gather(*tasks[1:]) == ["done", "done"]
        assert not waiter.done()
        waiter.cancel()


@in_asyncio
async def test_a_cancelled_call_is_cancelled_on_the_other_side() -> None:
    """The caller gets CancelledError when the function has ended; without an outcome it has no cause."""
    async with open_room_bridge() as found:
        step = Step()
        task = asyncio.create_task(found.bridge.call(step.run))
        await step.begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert step.was_cancelled
        assert caught.value.__cause__ is None


@in_asyncio
async def test_a_call_is_cancelled_before_it_crosses() -> None:
    """The function does not begin to wait, and the end is as usual."""
    async with open_room_bridge() as found:
        step = Step()
        task = asyncio.create_task(found.bridge.call(step.run))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await found.bridge.call(double, 1) == 2


@in_asyncio
async def test_a_timeout_is_a_cancellation() -> None:
    """`asyncio.timeout` makes a TimeoutError of it, whose cause is the CancelledError."""
    async with open_room_bridge() as found:
        step = Step()
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0):
                await found.bridge.call(step.run)
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert step.was_cancelled or not step.begun.is_set()


@in_asyncio
async def test_a_completed_call_keeps_its_result_though_it_is_cancelled() -> None:
    """Cancelled when the function has returned already, the caller gets CancelledError with a CompletedError as its cause."""
    async with open_room_bridge() as found:
        loop, tasks = asyncio.get_running_loop(), list[asyncio.Task[int]]()

        async def cancel_and_return() -> int:
            loop.call_soon_threadsafe(tasks[-1].cancel)  # ahead of the completion
            return 7

        tasks.append(asyncio.create_task(found.bridge.call(cancel_and_return)))
        with pytest.raises(asyncio.CancelledError) as caught:
            await tasks[-1]
        cause = caught.value.__cause__
        assert isinstance(cause, CompletedError)
        assert cause.result == 7


@in_asyncio
async def test_a_completed_call_keeps_its_result_though_its_caller_has_not_run() -> None:
    """The same, when the completion is with asyncio already, and the caller is about to run."""
    async with open_room_bridge() as found:
        step = Step()
        task = asyncio.create_task(found.bridge.call(step.run))
        await step.begun.wait()
        (call,) = found.bridge._under_way
        assert isinstance(call, BridgeCall)
        call.on_end = task.cancel
        found.bridge.post(step.may_end.set)
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        cause = caught.value.__cause__
        assert isinstance(cause, CompletedError)
        assert cause.result == "done"


@in_asyncio
async def test_a_call_that_fails_while_it_is_cancelled_keeps_its_error() -> None:
    """The error is the cause of the CancelledError."""
    async with open_room_bridge() as found:

        async def fail() -> None:
            raise KeyError("late")

        step = Step(last=fail)

        async def time_out() -> None:
            async with asyncio.timeout(None) as timer:
                task = asyncio.create_task(step.begun.wait())
                task.add_done_callback(lambda _: timer.reschedule(0))
                await found.bridge.call(step.run)

        with pytest.raises(TimeoutError) as caught:
            await time_out()
        cancelled = caught.value.__cause__
        assert isinstance(cancelled, asyncio.CancelledError)
        assert isinstance(cancelled.__cause__, KeyError)


@in_asyncio
async def test_a_caller_cancelled_twice_still_waits_for_the_end() -> None:
    """The function cleans up in a shield; the second cancellation does not leave it behind."""
    async with open_room_bridge() as found:
        may_end, cleaning, loop = trio.Event(), asyncio.Event(), asyncio.get_running_loop()

        async def clean() -> None:
            loop.call_soon_threadsafe(cleaning.set)
            await may_end.wait()

        step = Step(last=clean)
        task = asyncio.create_task(found.bridge.call(step.run))
        await step.begun.wait()
        task.cancel()
        await cleaning.wait()
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
        found.bridge.post(may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await task


@in_asyncio
async def test_a_block_is_held_on_the_other_side() -> None:
    """It is closed with the block there; an error of the body fails it there, too; its own errors are raised."""
    async with open_room_bridge() as found:
        seen = list[str]()

        @asynccontextmanager
        async def inner(last: BaseException | None = None) -> AsyncIterator[str]:
            try:
                yield "open"
            except Exception as error:
                seen.append(type(error).__name__)
                raise
            except trio.Cancelled:
                seen.append("Cancelled")
                raise
            seen.append("fine")
            if last is not None:
                raise last

        async with found.bridge.hold(inner) as name:
            assert name == "open"
            assert seen == []
        assert seen.pop() == "fine"
        with pytest.raises(ZeroDivisionError):
            async with found.bridge.hold(inner):
                raise ZeroDivisionError
        assert seen.pop() == "_BlockFailedError"
        with pytest.raises(KeyError, match="at the end"):
            async with found.bridge.hold(lambda: inner(KeyError("at the end"))):
                pass
        assert seen.pop() == "fine"

        async def time_out() -> None:
            async with asyncio.timeout(None) as timer, found.bridge.hold(inner):
                timer.reschedule(0)
                await asyncio.get_running_loop().create_future()

        with pytest.raises(TimeoutError):
            await time_out()
        assert seen.pop() == "Cancelled"

        @asynccontextmanager
        async def refused_room() -> AsyncIterator[str]:
            await fail_with(KeyError("not opened"))
            yield "open"

        with pytest.raises(KeyError, match="not opened"):
            async with found.bridge.hold(refused_room):
                pass


@in_asyncio
async def test_a_held_block_ends_first_on_the_other_side() -> None:
    """Its error cancels the body and is raised at its end."""
    async with open_room_bridge() as found:

        async def story() -> None:
            async with found.bridge.hold(open_room) as room:
                found.bridge.post(room.broken.set)
                await asyncio.get_running_loop().create_future()

        with pytest.raises(ValueError, match="broken"):
            await story()
        assert await found.bridge.call(double, 1) == 2
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


@in_asyncio
async def test_a_piece_is_not_lost_by_a_cancellation() -> None:
    """A piece that had come when its caller was cancelled is there for the next call."""
    async with open_room_bridge() as found:
        loop, tasks, numbers = asyncio.get_running_loop(), list[asyncio.Task[int]](), iter(range(10))

        async def fetch() -> int:
            if len(tasks) == 1:
                loop.call_soon_threadsafe(tasks[0].cancel)
            return next(numbers)

        pieces = Pieces(found.bridge, fetch)
        tasks.append(asyncio.create_task(pieces.next()))
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        tasks.append(tasks[0])
        assert [await pieces.next() for _ in range(3)] == [0, 1, 2]
