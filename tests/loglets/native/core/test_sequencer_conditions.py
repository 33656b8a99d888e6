"""The core of the sequencer: conditional appends."""

from __future__ import annotations

import pytest

from tests.loglets.native.core.log_server_bench import batch_of, stored_of
from tests.loglets.native.core.sequencer_bench import S1, S2, Bench
from virtuallog.contract.errors import OverloadedError, SealedError, TailMismatchError, encode
from virtuallog.exactly_once import rejected_conditions, session_table
from virtuallog.rpc.session import SILENCE_SECONDS
from virtuallog_loglets.native.core import sequencer as module
from virtuallog_loglets.native.loglet import APPEND_SECONDS
from virtuallog_loglets.native.messages import NativeAppended


def test_a_conditional_append_is_placed_exactly_there_or_not_at_all() -> None:
    """The sequencer evaluates the condition, against what is ordered before it."""
    bench = Bench()
    bench.offer("a", batch_of(2, 0), opens=True, expected=0)
    bench.offer("b", batch_of(1, 2), expected=2)
    bench.turn()
    for server in (S1, S2):
        bench.ack(server, 3)

    assert bench.outcomes == {"a": NativeAppended(first=0, known_tail=3), "b": NativeAppended(first=2, known_tail=3)}
    bench.offer("c", batch_of(1, 3), expected=9)
    assert encode(bench.outcomes["c"]) == encode(TailMismatchError(9, 3))


def test_a_conditional_append_is_refused_only_once_what_it_lost_to_is_committed() -> None:
    """Until then that may never become part of the log, and the expectation may have been right."""
    bench = Bench()
    bench.append(2)
    bench.offer("conditional", batch_of(1, 0, b"c" * 16), opens=True, expected=0)
    assert bench.outcomes == {}
    for server in (S1, S2):
        bench.ack(server, 2)

    assert encode(bench.outcomes["conditional"]) == encode(TailMismatchError(0, 2))


def test_a_conditional_append_that_lost_to_what_never_committed_ends_with_the_seal() -> None:
    """Unknown, like everything that was pending."""
    bench = Bench()
    bench.append(2)
    bench.offer("conditional", batch_of(1, 0, b"c" * 16), opens=True, expected=0)
    for server in (S1, S2):
        bench.run(bench.core.stored(server, 0, stored_of(0, accepted=False, sealed=True)))

    assert isinstance(bench.outcomes["conditional"], SealedError)


def test_a_copy_of_a_refused_conditional_append_is_refused_as_well() -> None:
    """The tail has become what it expects, but its caller was told that nothing is done, and has gone on.

    Found by `virtuallog simulate --seed 65`: the network delivered the call a second time.
    """
    bench = Bench()
    bid = batch_of(1, 0, b"c" * 16)
    bench.offer("bid", bid, opens=True, expected=2)
    assert encode(bench.outcomes["bid"]) == encode(TailMismatchError(2, 0))
    bench.append(2)
    for server in (S1, S2):
        bench.ack(server, 2)

    bench.offer("copy", bid, opens=True, expected=2)
    assert encode(bench.outcomes["copy"]) == encode(TailMismatchError(2, 0))
    bench.offer("new bid", batch_of(1, 0, b"d" * 16), opens=True, expected=2)
    bench.turn()
    assert bench.core.tail == 3


def flood(bench: Bench, count: int, expected: int, first: int = 0) -> None:
    """Conditional appends of as many sessions, or copies of them; the outcome of the last copy counts."""
    for n in range(first, first + count):
        bench.outcomes.pop(n, None)
        bench.offer(n, batch_of(1, 0, b"%016d" % n), opens=True, expected=expected)


@pytest.mark.parametrize("expected", [0, 1000], ids=["too late", "too early"])
def test_a_flood_of_refused_conditional_appends_leaves_room_for_a_new_session(
    expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused conditions take nothing that a session needs. Those that come too early get OverloadedError once they are too many."""
    monkeypatch.setattr(session_table, "SESSIONS_MAX", 4)
    monkeypatch.setattr(rejected_conditions, "REJECTED_MAX", 8)
    bench = Bench()
    bench.append(1)
    for server in (S1, S2):
        bench.ack(server, 1)

    flood(bench, 20, expected)
    bench.append(1, session=b"new.............")
    for server in (S1, S2):
        bench.ack(server, 2)

    told = [type(bench.outcomes[n]) for n in range(20)]
    assert told == [TailMismatchError] * (20 if expected == 0 else 8) + [OverloadedError] * (0 if expected == 0 else 12)
    assert bench.outcomes[b"new.............", 0] == NativeAppended(first=1, known_tail=2)


def test_a_refusal_is_remembered_until_the_tail_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """From then on its copies are refused without it, so a full table has room again."""
    monkeypatch.setattr(rejected_conditions, "REJECTED_MAX", 2)
    bench = Bench()
    flood(bench, 2, expected=1)
    flood(bench, 1, expected=9, first=2)
    assert isinstance(bench.outcomes[2], OverloadedError)

    bench.append(2)
    for server in (S1, S2):
        bench.ack(server, 2)
    flood(bench, 2, expected=9, first=3)
    flood(bench, 2, expected=1)

    assert encode(bench.outcomes[3]) == encode(bench.outcomes[4]) == encode(TailMismatchError(9, 2))
    assert encode(bench.outcomes[0]) == encode(TailMismatchError(1, 2)), "a late copy"
    assert bench.core.tail == 2


def test_a_refusal_is_remembered_for_longer_than_a_copy_of_its_call_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Until then a full table tells newcomers to wait; they are not refused for good, as that could not be kept."""
    assert 1000 * 2 * (APPEND_SECONDS + SILENCE_SECONDS) < rejected_conditions.REJECTED_KEEP_MS
    monkeypatch.setattr(rejected_conditions, "REJECTED_MAX", 1)
    bench = Bench()
    flood(bench, 1, expected=1)
    bench.now = rejected_conditions.REJECTED_KEEP_MS - 1
    flood(bench, 1, expected=1, first=1)
    assert isinstance(bench.outcomes[1], OverloadedError)

    bench.now += 1
    flood(bench, 1, expected=1, first=1)

    assert encode(bench.outcomes[1]) == encode(TailMismatchError(1, 0))


def test_refusals_that_wait_for_a_commit_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a majority nothing is committed, and more and more callers would wait here."""
    monkeypatch.setattr(module, "MISMATCHES_MAX", 3)
    bench = Bench()
    bench.append(1)

    flood(bench, 4, expected=0)

    assert {key: type(outcome) for key, outcome in bench.outcomes.items()} == {3: OverloadedError}
