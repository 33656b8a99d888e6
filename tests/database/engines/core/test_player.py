"""The core of the base: what may be applied now, compared with a plain list of what is in the log."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core.entry import Entry, parse_untrusted
from virtuallog_database.engines.core.player import Player


def at(cursor: int) -> Player:
    return Player.at(LogPosition(cursor))


def test_an_acknowledged_entry_that_is_next_needs_no_read() -> None:
    """It is in memory, and everything before it is applied."""
    player, entry = at(5), Entry(b"a")
    player.acknowledge(LogPosition(5), entry)

    assert player.missing is None
    assert player.take(10, 100) == [(5, entry)]
    assert (player.cursor, player.committed) == (6, 6)


def test_what_lies_before_an_own_entry_is_read_and_the_entry_is_not() -> None:
    """An acknowledgement commits everything below."""
    player, own, other = at(0), Entry(b"own"), Entry(b"other")
    player.acknowledge(LogPosition(2), own)
    assert (player.missing, player.can_play) == ((0, 2), False)

    player.fetched([(LogPosition(0), other), (LogPosition(1), None)])
    assert player.take(10, 100) == [(0, other), (1, None), (2, own)]


def test_an_entry_that_was_read_before_it_was_acknowledged_is_not_played_twice() -> None:
    """The acknowledgement comes too late to matter."""
    player, entry = at(0), Entry(b"a")
    player.commit(LogPosition(1))
    player.fetched([(LogPosition(0), entry)])
    player.acknowledge(LogPosition(0), entry)

    assert player.take(10, 100) == [(0, entry)]
    assert player.take(10, 100) == []


def test_a_transaction_is_bounded_and_has_at_least_one_entry() -> None:
    """By number and by bytes."""
    player = at(0)
    player.fetched([(LogPosition(number), Entry(bytes(10))) for number in range(5)])

    assert len(player.take(2, 100)) == 2
    assert len(player.take(9, 11)) == 2
    assert len(player.take(9, 1)) == 1


def test_what_was_taken_and_not_applied_is_next_again() -> None:
    """In its order, before what has come since."""
    player = at(0)
    player.fetched([(LogPosition(number), Entry(b"%d" % number)) for number in range(4)])
    taken = player.take(3, 100)
    player.give_back(taken[1:])
    assert player.cursor == 1

    player.acknowledge(LogPosition(4), Entry(b"4"))
    assert [position for position, _ in player.take(9, 100)] == [1, 2, 3, 4]
    player.give_back([])
    assert (player.cursor, player.can_play) == (5, False)


class Interleavings(RuleBasedStateMachine):
    """Own and other entries get into a log; acknowledgements come in any order or never, reads bring parts, and everything is
    played once, in order, and only what is committed."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Entry | None] = []
        self.unacknowledged: dict[int, Entry] = {}
        self.player = at(0)
        self.played: list[tuple[int, Entry | None]] = []

    @rule(own=st.booleans(), filler=st.booleans())
    def append(self, own: bool, filler: bool) -> None:
        entry = Entry(b"%d" % len(self.log)) if own or not filler else None
        if own and entry is not None:
            self.unacknowledged[len(self.log)] = entry
        self.log.append(entry)

    @precondition(lambda self: self.unacknowledged)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(sorted(self.unacknowledged)))
        self.player.acknowledge(LogPosition(position), self.unacknowledged.pop(position))

    @precondition(lambda self: self.unacknowledged)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        del self.unacknowledged[data.draw(st.sampled_from(sorted(self.unacknowledged)))]

    @rule()
    def check_tail(self) -> None:
        self.player.commit(LogPosition(len(self.log)))

    @precondition(lambda self: self.player.missing)
    @rule(share=st.floats(0, 1))
    def read(self, share: float) -> None:
        missing = self.player.missing
        assert missing is not None
        start, stop = missing
        assert stop <= len(self.log)
        stop = LogPosition(start + max(1, int((stop - start) * share)))
        self.player.fetched([(LogPosition(place), self.log[place]) for place in range(start, stop)])

    @rule(entries=st.integers(1, 5), size=st.integers(1, 5))
    def play(self, entries: int, size: int) -> None:
        self.played += self.player.take(entries, size)

    @invariant()
    def what_was_played_is_a_prefix_of_the_log(self) -> None:
        assert [position for position, _ in self.played] == list(range(len(self.played)))
        assert [entry for _, entry in self.played] == self.log[: len(self.played)]
        assert self.player.cursor == len(self.played)

    @invariant()
    def either_something_can_be_done_or_all_that_is_committed_was_played(self) -> None:
        player = self.player
        assert player.can_play or player.missing or player.cursor == player.committed

    def teardown(self) -> None:
        self.player.commit(LogPosition(len(self.log)))
        while (missing := self.player.missing) is not None:
            self.read(1.0)
            assert self.player.missing != missing
        self.played += self.player.take(len(self.log), 1 << 20)
        assert len(self.played) == len(self.log)


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)


@given(st.binary(max_size=40), st.dictionaries(st.text(max_size=5), st.binary(max_size=9), max_size=3))
def test_entries_come_back_as_they_were(payload: bytes, headers: dict[str, bytes]) -> None:
    """For any content of the reads."""
    entry = Entry(payload, headers)
    assert parse_untrusted(entry.encode()) == entry
