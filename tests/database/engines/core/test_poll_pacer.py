"""Pacing of a replica's looks for the proposals of others."""

from __future__ import annotations

import pytest

from virtuallog_database.engines.core.poll_pacer import LOOK_OPERATIONS, QUIET_SECONDS, PollPacer

LONE = 2
"""Operations of a group with one command."""


def test_looks_are_spent_at_once_and_then_rationed() -> None:
    """A burst of writes is followed at once; a stream of them costs a look each 25 ms."""
    pace = PollPacer(0.025, 3)

    assert [pace.next_pause(0.001, LONE) for _ in range(7)] == [0.0] * 3 + [0.025] * 4


def test_looks_are_saved_up_while_nothing_happens() -> None:
    """After a quiet while there is a burst again, and never more than one."""
    pace = PollPacer(0.025, 3)
    for _ in range(4):
        pace.next_pause(0.0, LONE)

    assert [pace.next_pause(waited, LONE) for waited in (60.0, 0.0, 0.0, 0.0)] == [0.0] * 3 + [0.025]


@pytest.mark.parametrize("per_second", [3, 40, 100])
def test_writes_that_come_one_by_one_are_followed_one_by_one(per_second: int) -> None:
    """For ever, and not only until what was saved up is spent; a look itself takes a millisecond."""
    pace = PollPacer(0.025, 4)

    assert {pace.next_pause(1 / per_second - 0.001, LONE) for _ in range(1000)} == {0.0}


@pytest.mark.parametrize(("waited", "operations"), [(0.002, LONE), (0.004, 128), (0.012, 512), (0.025, 512)])
def test_a_stream_is_not_followed_group_by_group(waited: float, operations: int) -> None:
    """One client that waits for each write, 64 or 256 clients, fast or slow: nearly each look has its pause."""
    pace = PollPacer(0.025, 32)
    pauses = [pace.next_pause(waited, operations) for _ in range(1000)]

    assert pauses.count(0.0) < 32 + 1000 / 5


def test_a_write_between_two_groups_of_a_crowd_costs_one_look() -> None:
    """What it applies is counted, not what came before it."""
    pace = PollPacer(0.025, 2)

    assert pace.next_pause(0.0, 10 * LOOK_OPERATIONS) == 0.025
    assert pace.next_pause(QUIET_SECONDS, LONE) == 0.0


def test_without_a_burst_each_look_has_its_pause() -> None:
    """For tests, and for users that want few looks and late watches."""
    pace = PollPacer(0.5, 0)

    assert [pace.next_pause(waited, LONE) for waited in (0.0, 0.5, 30.0)] == [0.5] * 3
