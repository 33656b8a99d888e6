"""Memory is given back once after each peak, and not while it is needed."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from tests.virtuallog.rpc.world import TrioClock
from virtuallog_server.process.resources import LOOK_SECONDS, PEAK_BYTES, QUIET_BYTES, MemoryTrimmer, trim_memory


@pytest.mark.parametrize(
    ("held", "given_back"),
    [
        ([0, QUIET_BYTES, PEAK_BYTES - 1, 0], []),
        ([PEAK_BYTES, PEAK_BYTES, QUIET_BYTES + 1, QUIET_BYTES, 0, 0], [4]),
        ([PEAK_BYTES, 0, PEAK_BYTES, 0, 0], [2, 4]),
    ],
    ids=["no peak", "one peak", "two peaks"],
)
async def test_given_back_once_after_a_peak(autojump_clock: MockClock, held: list[int], given_back: list[int]) -> None:
    """A look every few seconds; the numbers of the looks after which it is done."""
    looks, done = iter(held), list[int]()
    seen = 0

    def look() -> int:
        nonlocal seen
        seen += 1
        return next(looks)

    returns = MemoryTrimmer(TrioClock(), look, lambda: done.append(seen))
    with trio.move_on_after(LOOK_SECONDS * (len(held) + 0.5)):  # noqa: TID251 -- the test's own clock
        await returns.run()

    assert done == given_back


def test_giving_back_is_possible_at_any_time() -> None:
    """With any C library, memory in use stays as it is."""
    kept = [bytes([number]) * 100_000 for number in range(100)]
    trim_memory()

    assert all(kept[number] == bytes([number]) * 100_000 for number in range(100))
