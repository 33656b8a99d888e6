"""The bound on the reads of one turn, by itself."""

from __future__ import annotations

import trio
import trio.testing

from tests.virtuallog.rpc.world import TrioClock
from virtuallog_server.zookeeper.session.read_budget import WORK_MAX, ReadBudget


async def test_a_turn_has_room_for_many_reads_and_one_long_scan(mock_clock: trio.testing.MockClock) -> None:
    """The work of reads is a measure; scans over deleted entries report none, so their time counts."""
    looked, waiting = 0, list[int]()

    def scan() -> bytes:
        mock_clock.jump(0.02)
        return b""

    budget = ReadBudget(lambda: looked, TrioClock())
    assert budget.admits(lambda: waiting.append(1))
    while looked < WORK_MAX:
        assert budget.admits(lambda: waiting.append(2))
        looked += 1000
    assert not budget.admits(lambda: waiting.append(3))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(budget.run)
        await trio.testing.wait_all_tasks_blocked()
        assert waiting == [3]

        budget.timed(scan)
        for number in (4, 5):
            assert not budget.admits(lambda number=number: waiting.append(number))  # type: ignore[misc]
        await trio.testing.wait_all_tasks_blocked()
        assert waiting == [3, 4, 5]
        assert budget.admits(lambda: waiting.append(6))
        nursery.cancel_scope.cancel()
