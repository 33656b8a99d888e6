"""Pacing of a replica's looks for the proposals of others."""

from __future__ import annotations

import pytest

from virtuallog_database.engines.core.poll_pacer import HURRY_SECONDS, PollPacer


def test_looks_are_spent_in_a_hurry_and_then_rationed() -> None:
    """A burst of writes is followed at once; a stream of them costs a look each 25 ms."""
    pace, now = PollPacer(0.025, 3), 100.0
    pauses = []
    for _ in range(7):
        pauses.append(pace.next_pause(now))
        now += pauses[-1]

    assert pauses == [HURRY_SECONDS] * 3 + [0.025] * 4


def test_looks_are_saved_up_while_nothing_happens() -> None:
    """After a quiet while there is a burst again, and never more than one."""
    pace = PollPacer(0.025, 3)
    for _ in range(4):
        pace.next_pause(0.0)

    later = [pace.next_pause(60.0) for _ in range(4)]

    assert later == [HURRY_SECONDS] * 3 + [0.025]


@pytest.mark.parametrize("work", [0.0, 0.004, 0.02])
def test_a_stream_is_not_looked_at_more_often_than_rationed(work: float) -> None:
    """However long a look itself takes, in ten seconds there are at most the burst and one for each pause."""
    pace, now, looks = PollPacer(0.025, 32), 0.0, 0
    while now < 10.0:
        now += work + pace.next_pause(now + work)
        looks += 1

    assert looks <= 32 + 10.0 / 0.025 + 1


def test_without_a_burst_each_look_has_its_pause() -> None:
    """For tests, and for users that want few looks and late watches."""
    pace = PollPacer(0.5, 0)

    assert [pace.next_pause(now) for now in (0.0, 0.5, 30.0)] == [0.5] * 3
