"""A peer that sends rubbish must not fill the disk with lines about it."""

from __future__ import annotations

from trio.testing import MockClock

from tests.virtuallog.rpc.world import TrioClock
from virtuallog.rpc.rate_limited_log import LINES_MAX, PERIOD_SECONDS, RateLimitedLog
from virtuallog.testing.logs import capture_logs


async def test_many_warnings_become_a_number(mock_clock: MockClock) -> None:
    """Twenty lines, then silence; the next period begins with the number of the suppressed ones."""
    complaints = RateLimitedLog(TrioClock())
    with capture_logs() as lines:
        for number in range(1000):
            complaints.warn("connection closed", reason=str(number))
        assert [line["reason"] for line in lines] == [str(number) for number in range(LINES_MAX)]
        mock_clock.jump(PERIOD_SECONDS)
        complaints.warn("connection closed", reason="later")

    assert [line.get("count") for line in lines[LINES_MAX:]] == [1000 - LINES_MAX, None]
    assert lines[-1]["reason"] == "later"
