"""Ends of appends and calls under way that were cancelled, or wait for their turn: no hang, and nothing piles up."""

from __future__ import annotations

import asyncio

import pytest
import trio

from tests.virtuallog.aio.asyncio_world import asyncio_world, in_asyncio
from tests.virtuallog.aio.rooms import open_room_bridge
from virtuallog.aio import ClientClosedError
from virtuallog.client.appender import AppenderSettings
from virtuallog.contract.errors import UnavailableError
from virtuallog.runtime.bridge.slots import Slots


@in_asyncio
async def test_appends_that_wait_for_a_slot_end_with_the_client() -> None:
    """Those under way have an unknown outcome; all that wait behind the bound have done nothing, and none waits on."""
    async with asyncio_world(outstanding_max=1) as w:
        _, arrived = await w.gate()
        tasks = [asyncio.create_task(w.log.append(b"%d" % number)) for number in range(4)]
        await arrived.wait()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in found] == [UnavailableError, *[ClientClosedError] * 3]


@in_asyncio
async def test_cancelled_appends_without_room_in_the_queue_leave_nothing_behind() -> None:
    """As on trio, they end where they wait for room. One that another task of its group waits for goes on."""
    async with asyncio_world() as w:
        gate, arrived = await w.gate()
        async with w.log.appender(AppenderSettings(queue_bytes_max=0, batch_entries=1, window=1)) as session:
            first = asyncio.create_task(session.append([b"in flight"]))
            await arrived.wait()
            second = asyncio.create_task(session.append([b"in the queue"]))
            while not session.is_full:
                await asyncio.sleep(0)
            before = len(w.bridge._under_way)
            for _ in range(100):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0):
                        await session.append([b"no room"])
            while len(w.bridge._under_way) > before:  # the cancellations cross, and come back
                await asyncio.sleep(0)
            w.bridge.post(gate.opened.set)
            assert [await first, await second] == [range(1), range(1, 2)]
            assert await session.append([b"later"]) == range(2, 3)


@in_asyncio
async def test_cancelled_waits_for_a_slot_leave_nothing_behind() -> None:
    """However long the slot is taken."""
    slots = Slots(1)
    assert slots.try_take()
    for _ in range(100):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await slots.wait()
    assert not slots._waiting


@in_asyncio
async def test_an_error_that_comes_with_a_cancellation_is_that_of_its_call() -> None:
    """Also if both come as one group while the client is closed: the client itself has not failed."""

    async def fail_when_cancelled() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("failed")

    async with open_room_bridge() as found:
        task = asyncio.create_task(found.bridge.call(fail_when_cancelled))
        await asyncio.sleep(0)
        await found.bridge.call_sync(int)
    assert isinstance((await asyncio.gather(task, return_exceptions=True))[0], Exception)
