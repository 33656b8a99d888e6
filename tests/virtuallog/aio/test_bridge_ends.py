"""Ends of a client in any order: closed, failed, in another loop, behind a fork."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import pytest
import trio

from tests.virtuallog.aio.asyncio_world import in_asyncio
from tests.virtuallog.aio.rooms import Room, Step, double, fail_with, open_room_bridge
from virtuallog.contract.errors import UnavailableError
from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge, Bridged, open_bridge
from virtuallog.runtime.bridge.blocks import Block
from virtuallog.runtime.bridge_errors import ClientClosedError, WrongLoopError


@in_asyncio
async def test_a_client_is_closed_while_calls_wait() -> None:
    """They raise UnavailableError, unknown outcome; later ones raise ClientClosedError, nothing has been done."""
    async with open_room_bridge() as found:
        step = Step()
        task = asyncio.create_task(found.bridge.call(step.run))
        await step.begun.wait()
    with pytest.raises(UnavailableError, match="unknown outcome"):
        await task
    assert not found.bridge.is_open
    with pytest.raises(ClientClosedError):
        await found.bridge.call(double, 1)


@in_asyncio
async def test_the_other_side_fails() -> None:
    """Its error cancels the block and is raised there; calls that wait raise UnavailableError; no wait is left."""
    step = Step()
    founds, tasks = list[Bridged[Room]](), list[asyncio.Task[str]]()

    async def story() -> None:
        async with open_room_bridge() as found:
            founds.append(found)
            tasks.append(asyncio.create_task(found.bridge.call(step.run)))
            await step.begun.wait()
            found.bridge.post(found.opened.broken.set)
            await asyncio.get_running_loop().create_future()

    with pytest.raises(ValueError, match="broken"):
        await story()
    with pytest.raises(UnavailableError, match="unknown outcome"):
        await tasks[0]
    with pytest.raises(ClientClosedError, match="failed"):
        await founds[0].bridge.call(double, 1)


@in_asyncio
async def test_the_other_side_fails_while_the_block_ends() -> None:
    """A body that does not wait any more gets the error at the end of its block, and no stray cancellation behind it."""

    async def story() -> None:
        async with open_room_bridge() as found:
            ended = asyncio.create_task(found.bridge.wait(trio.sleep_forever))
            found.bridge.post(found.opened.broken.set)
            with suppress(asyncio.CancelledError):
                await asyncio.gather(ended, return_exceptions=True)

    with pytest.raises(ValueError, match="broken"):
        await story()
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


@in_asyncio
async def test_a_body_that_is_cancelled_twice_keeps_the_cancellation_of_others() -> None:
    """Only that of the block itself is taken back."""

    async def body(*, by_others: bool) -> bool:
        block, task = Block(), asyncio.current_task()
        assert task is not None
        block.end_early()
        if by_others:
            task.cancel()
        try:
            return await block.leave(None)
        finally:
            assert task.cancelling() == by_others

    assert await asyncio.create_task(body(by_others=False))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(body(by_others=True))


@in_asyncio
async def test_opening_fails_or_is_cancelled() -> None:
    """The error of opening is raised; a cancelled opening is undone, and its thread ends."""

    @asynccontextmanager
    async def fail() -> AsyncIterator[Room]:
        await fail_with(KeyError("no room"))
        yield Room()

    with pytest.raises(KeyError, match="no room"):
        async with open_bridge(fail, "room"):
            pass

    undone = list[str]()

    @asynccontextmanager
    async def wait() -> AsyncIterator[Room]:
        try:
            await trio.Event().wait()
            yield Room()
        finally:
            undone.append("undone")

    async def enter() -> None:
        async with open_bridge(wait, "slow room"):
            pass

    for turns in (0, 1, 3):
        task = asyncio.create_task(enter())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert "slow room" not in {thread.name for thread in threading.enumerate()}
    assert undone in (["undone"], ["undone"] * 2, [])


@in_asyncio
async def test_a_second_loop_is_refused() -> None:
    """A client is for the loop in which it was opened; in another one its calls raise WrongLoopError."""
    async with open_room_bridge() as found:

        async def call() -> None:
            with pytest.raises(WrongLoopError):
                await found.bridge.call(double, 1)

        await asyncio.to_thread(asyncio.run, call())
        assert await found.bridge.call(double, 1) == 2


def test_the_loop_is_closed_first() -> None:
    """The thread ends at its next completion; a call in another loop is refused, and no step hangs."""
    loop = asyncio.new_event_loop()
    manager = open_room_bridge()
    found = loop.run_until_complete(manager.__aenter__())
    step, names = Step(loop=loop), [thread for thread in threading.enumerate() if thread.name == "room"]
    task = loop.create_task(found.bridge.call(step.run))
    loop.run_until_complete(step.begun.wait())
    loop.close()
    found.opened.token.run_sync_soon(step.may_end.set)
    for thread in names:
        thread.join()
    assert not found.opened.is_open

    async def late() -> None:
        with pytest.raises(WrongLoopError):
            await found.bridge.call(double, 1)

    asyncio.run(late())
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it never ends, as its loop is gone
    with pytest.raises(RuntimeError, match="did not hang"):
        asyncio.run(close(manager))
    del task
    gc.collect()


async def close(manager: AbstractAsyncContextManager[Bridged[Room]]) -> None:
    """The end of a block in another loop."""
    await manager.__aexit__(None, None, None)
    raise RuntimeError("closed, and did not hang")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork of a process with threads: the point of the test
def test_a_forked_process_has_no_client() -> None:
    """In the child calls raise WrongLoopError, and its end does not disturb the parent."""

    async def story() -> None:
        async with open_room_bridge() as found:
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    asyncio._set_running_loop(None)
                    asyncio.run(refused(found.bridge))
                    code = 0
                finally:
                    os._exit(code)
            _, status = await asyncio.to_thread(os.waitpid, child, 0)
            assert os.waitstatus_to_exitcode(status) == 0
            assert await found.bridge.call(double, 3) == 6

    asyncio.run(story())


async def refused(bridge: AsyncioBridge) -> None:
    """Fails unless a call is refused."""
    with pytest.raises(WrongLoopError):
        await bridge.call(double, 1)
