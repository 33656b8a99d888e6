"""The judge of ledgers: each promise that a history breaks is named, and a right history breaks none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from tests.clients.client_program import History
from tests.clients.ledger.judge import Found, judge


def create(number: int, path: str = "", outcome: str = "ok") -> Mapping[str, Any]:
    return {
        "op": "create", "n": number, "begun": 0, "ended": number, "outcome": outcome, "path": path or f"e-{number}",
    }  # fmt: skip


def multi(number: int, version: int, outcome: str = "ok") -> Mapping[str, Any]:
    return {"op": "multi", "n": number, "begun": 0, "ended": number, "outcome": outcome, "version": version}


def seen(number: int, version: int) -> Mapping[str, Any]:
    return {"event": "seen", "n": number, "version": version}


RIGHT = [
    {"event": "ready", "session": "1"},
    create(1), multi(1, 1), seen(1, 1), create(2), multi(2, -1, "unknown"), create(3, outcome="unknown"), create(4),
    {"op": "get", "n": 2, "version": 2}, multi(4, 3), seen(4, 3), {"event": "end"},
]  # fmt: skip
FOUND = Found(
    entries={"e-1": 1, "e-2": 2, "e-4": 4}, register=4, mirror=4, version=3, mirror_version=3, present=(), changes=2
)


@pytest.mark.parametrize("entries", [{}, {"e-3": 3}])
def test_a_right_history_breaks_no_promise(entries: Mapping[str, int]) -> None:
    """A write with an unknown outcome may be done or not."""
    found = attrs.evolve(FOUND, entries={**FOUND.entries, **entries})

    assert list(judge(History(list(RIGHT)), found)) == []
    assert History(list(RIGHT)).unknown == 2
    assert History(list(RIGHT)).times == [1, 1, 2, 4, 4]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"entries": {"e-1": 1, "e-4": 4}}, "lost: e-2"),
        ({"entries": {**FOUND.entries, "e-5": 4}}, "doubled or invented: e-5"),
        ({"entries": {"e-1": 1, "e-2": 2, "e-4": 4, "e-5": 3}}, "order lost"),
        ({"mirror": 2}, "taken apart"),
        ({"version": 2, "mirror_version": 2}, "version 2 was 4, and 2"),
        ({"version": 4, "mirror_version": 4}, "3 can have been done"),
        ({"register": 1, "mirror": 1}, "version 3 was 1, and 4"),
        ({"changes": 4}, "came and went 4 times"),
        ({"present": ["alive"]}, "is left"),
    ],
)
def test_each_broken_promise_is_named(change: Mapping[str, Any], complaint: str) -> None:
    """By what another client finds in the tree."""
    assert complaint in "\n".join(judge(History(list(RIGHT)), attrs.evolve(FOUND, **change)))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ({"event": "expired"}, "the client was told"),
        (seen(1, 1), "older data after newer"),
        (seen(3, 3), "version 3 was 4, and 3"),
    ],
)
def test_what_a_client_was_told_is_judged_as_well(line: Mapping[str, Any], complaint: str) -> None:
    """A session that expired, or that went back in time."""
    assert complaint in "\n".join(judge(History([*RIGHT, line]), FOUND))


def test_a_killed_program_may_have_done_one_write_more_than_it_said() -> None:
    """Its last line was not printed. Two more are none of its own."""
    history, more = History(RIGHT[:3]), {"e-1": 1, "e-2": 2}
    found = attrs.evolve(FOUND, entries=more, register=1, mirror=1, version=1, mirror_version=1)

    assert list(judge(history, found, killed=True)) == []
    assert "doubled" in "\n".join(judge(history, attrs.evolve(found, entries={**more, "e-3": 3}), killed=True))
