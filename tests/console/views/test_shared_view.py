"""A shared view is gathered once for all that ask at a time, and again when it is too old."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from tests.virtuallog.client.world import world
from virtuallog_console.views.shared_view import SharedView


async def test_callers_share_one_gathering(autojump_clock: MockClock) -> None:
    """Also if the first of them is cancelled meanwhile; an old view is replaced, a fresh one given out again."""
    async with world() as w:
        environment = w.client().view.environment
        clock, runs, got = environment.clock, list[int](), list[int]()

        async def gather() -> int:
            runs.append(len(runs))
            number = runs[-1]
            await clock.sleep(1)
            return number

        async def get() -> None:
            got.append(await shared.get())

        shared = SharedView(gather, environment, seconds=2.0)
        with clock.timeout(0.5):
            await get()
        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(get)
        assert (runs, got) == ([0], [0] * 100)
        await get()
        await clock.sleep(3)
        await get()
        assert (runs, got[-2:]) == ([0, 1], [0, 1])


async def test_a_view_of_an_earlier_version_is_too_old(autojump_clock: MockClock) -> None:
    """A swap by this client is on the next page. One that comes during the gathering makes those that ask after it wait for another."""
    async with world() as w:
        environment = w.client().view.environment
        clock, versions, seen = environment.clock, [1], list[int]()

        async def gather() -> int:
            found = versions[-1]
            await clock.sleep(1)
            return found

        async def get() -> None:
            seen.append(await shared.get())

        shared = SharedView(gather, environment, 60.0, lambda: versions[-1])
        await get()
        versions.append(2)
        await get()
        versions.append(3)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(get)
            await clock.sleep(0.5)
            versions.append(4)
            nursery.start_soon(get)
        assert seen == [1, 2, 3, 4]
