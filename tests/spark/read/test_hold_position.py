"""The hold of a stream: never ahead of what the stream has committed, and not moved too often."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_virtuallog.compact import start_state
from pyspark_virtuallog.read import options
from pyspark_virtuallog.read.hold_position import EVERY_SECONDS, HoldPosition
from pyspark_virtuallog.read.stream_hold import StreamHold
from virtuallog.blocking import BlockingLog
from virtuallog.contract.errors import InvalidSettingError, TrimmedError, UnavailableError, VirtualLogError
from virtuallog_database.control.client import find_hold, place_hold


def test_the_hold_is_where_the_last_committed_batch_begins() -> None:
    """Spark has said that all below 30 is committed, and before that it said 20: the batch from 20 on could be run again."""
    holding = HoldPosition(60)
    holding.begin(10, 10, now=0)
    assert holding.due(1000) is None
    holding.commit(20)
    assert holding.due(1000) is None  # as far as is known, the batch from 10 on is the last one
    holding.commit(30)
    assert holding.due(1000) == 20
    holding.moved(20, 1000)
    assert holding.due(2000) is None
    holding.commit(30)  # said again, as after a restart
    assert holding.due(2000) is None


def test_moves_are_rare() -> None:
    """Each is an entry in the log. What has come meanwhile goes with the next one."""
    holding = HoldPosition(60)
    holding.begin(0, 0, now=100)
    for end in (10, 20, 30):
        holding.commit(end)
    assert holding.due(100 + EVERY_SECONDS - 1) is None
    assert holding.due(100 + EVERY_SECONDS) == 20


def test_a_hold_from_before_stays_until_the_run_has_committed_something() -> None:
    """A run that goes on from 50 finds the hold at 40: the batch from there on may be run again."""
    holding = HoldPosition(60)
    holding.begin(40, 50, now=0)
    holding.commit(50)
    assert holding.due(1000) is None
    holding.commit(60)
    assert holding.due(1000) == 50


@given(st.lists(st.tuples(st.sampled_from(["commit", "move", "fail"]), st.integers(0, 30)), max_size=40))
def test_it_is_never_ahead(steps: list[tuple[str, int]]) -> None:
    """For any events, and any number of failed moves: the hold is at most at the end of the batch
    before the last committed one."""
    holding = HoldPosition(60)
    holding.begin(0, 0, now=0)
    ends, now = [0, 0], 0
    for step, amount in steps:
        now += amount
        if step == "commit":
            holding.commit(ends[-1] + amount)
            ends += [ends[-1] + amount] if amount else []
        elif (position := holding.due(now)) is not None:
            assert holding.placed is not None and holding.placed < position <= ends[-2]
            holding.moved(position, now) if step == "move" else holding.failed(now)


def test_moves_may_fail_for_some_time() -> None:
    """Counted from the first of those that have failed one after the other."""
    holding = HoldPosition(25)
    holding.begin(0, 0, now=0)
    assert [holding.failed(now) for now in (10, 20, 30)] == [False] * 3
    holding.moved(5, 34)
    assert [holding.failed(now) for now in (50, 60, 74, 75)] == [False, False, False, True]


@attrs.define(eq=False)
class Keeper(BlockingLog):
    """A log whose database keeps holds, and nothing else."""

    floor: int = 0
    """Below this the log may be trimmed."""
    holds: dict[str, int] = attrs.field(factory=dict)
    broken: bool = False

    def run(self, function: Callable[..., Awaitable[object]], *arguments: object, **_: object) -> object:  # type: ignore[override]
        if self.broken:
            raise UnavailableError("no node serves")
        answers: dict[object, Callable[..., int | None]] = {find_hold: self.holds.get, place_hold: self.place}
        return answers[function](*arguments)

    def place(self, name: str, position: int) -> None:
        if position < self.floor:
            raise TrimmedError(self.floor)
        self.holds[name] = position


def test_a_stream_begins_where_the_log_is_still_kept() -> None:
    """Asked for the earliest there is, it begins later than where the log is trimmed by now; asked for a position, it fails. A
    hold that is further back stays; one that is too far back, or ahead, moves."""
    assert StreamHold("s", HoldPosition(0)).begin(Keeper(floor=30), 10, may_begin_later=True) == 30
    refused = Keeper(floor=30)
    with pytest.raises(TrimmedError):
        StreamHold("s", HoldPosition(0)).begin(refused, 10, may_begin_later=False)
    assert refused.holds == {}
    for there, floor, start, expected in ((40, 30, 50, 40), (20, 30, 50, 50), (70, 30, 50, 50), (40, 60, 50, 60)):
        keeper, holder = Keeper(floor=floor, holds={"s": there}), StreamHold("s", HoldPosition(0))
        assert holder.begin(keeper, start, may_begin_later=True) == max(start, floor)
        assert holder.placed == keeper.holds["s"] == expected


def test_a_hold_that_cannot_be_moved_ends_the_stream_after_a_while() -> None:
    """Nothing is lost meanwhile: it stays where it is. A database that comes back in time is enough."""
    times, keeper = [0.0], Keeper()
    holder = StreamHold("s", HoldPosition(60, every_seconds=10), lambda: times[-1])

    def keep_at(*seconds: float) -> dict[str, int]:
        for now in seconds:
            times.append(now)
            holder.keep(keeper)
        return keeper.holds

    holder.begin(keeper, 0, may_begin_later=False)
    holder.commit(5)
    holder.commit(9)
    keeper.broken = True
    keep_at(9, 10, 15, 20, 60)
    keeper.broken = False
    assert keep_at(69) == {"s": 0}
    assert keep_at(70) == {"s": 5}
    holder.commit(12)
    keeper.broken = True
    keep_at(80, 139)
    with pytest.raises(UnavailableError):
        keep_at(149)
    assert keeper.holds == {"s": 5}


def test_the_beginning_waits_for_the_database_as_long_as_the_option_says() -> None:
    """Not at all here; then the query fails with what was in the way."""
    with pytest.raises(UnavailableError, match="no node serves"):
        StreamHold("s", HoldPosition(0)).begin(Keeper(broken=True), 0, may_begin_later=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"hold": "a b"}, "is not a name"),
        ({"hold": ""}, "is not a name"),
        ({"hold": "x" * 65}, "is not a name"),
        ({"hold": start_state.NAME}, "hold of compactions"),
        ({"hold": "s", "isolationLevel": "read_committed"}, "rows that are committed may lie anywhere before"),
    ],
)
def test_what_cannot_be_held_is_refused(given: dict[str, str], words: str) -> None:
    """Rows of a batch that is committed may lie far below its marker: no position of the stream says from where on they are needed."""
    with pytest.raises(InvalidSettingError, match=words):
        options.stream_options({"cluster": "c.toml", **given})
    assert options.stream_options({"cluster": "c.toml", "hold": "to-parquet.v2"}).hold == "to-parquet.v2"
    with pytest.raises(VirtualLogError, match=r"is an option of spark\.readStream only"):
        options.batch_options({"cluster": "c.toml", "hold": "s"})
