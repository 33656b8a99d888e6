"""The sequencer core: ordering, replication, acknowledgement, the end."""

from __future__ import annotations

import tracemalloc
from types import ModuleType

import pytest

from tests.loglets.native.core.log_server_bench import SEGMENT, batch_of, config_of, state_of, stored_of
from tests.loglets.native.core.sequencer_bench import S1, S2, S3, Bench
from virtuallog.contract.errors import (
    OutOfOrderError,
    OverloadedError,
    ReconfigurationNeededError,
    SealedError,
    UnavailableError,
    encode,
)
from virtuallog.exactly_once import session_table
from virtuallog_loglets.native.config import TransferLimits
from virtuallog_loglets.native.core import sequencer as module
from virtuallog_loglets.native.core.sequencer import AskState, NativeSend, Resume, Sequencer
from virtuallog_loglets.native.messages import NO_EXPECTATION, NativeAppended


def ticket(first_sequence: int, session: bytes = b"session.........") -> object:
    return session, first_sequence


def test_all_that_arrived_in_a_turn_becomes_one_wave_for_every_server() -> None:
    """One blob per wave, built once: the number of calls does not depend on the number of clients."""
    core = Sequencer(SEGMENT, config_of(3))
    one, two = batch_of(2, 0, b"a" * 16), batch_of(1, 0, b"b" * 16)
    assert core.offer(one, "one", 7, opens=True, expected_tail=NO_EXPECTATION) == []
    assert core.offer(two, "two", 7, opens=True, expected_tail=NO_EXPECTATION) == []

    (send,) = core.turn(7)

    assert isinstance(send, NativeSend)
    assert send.receivers == [(S2, 0), (S3, 0), (S1, 0)], "the own server comes last"
    wave = send.wave
    assert [(placed.places, placed.batch) for placed in wave.placed()] == [(range(2), one), (range(2, 3), two)]
    assert (wave.first, wave.stop, wave.time_ms, wave.known_tail) == (0, 3, 7, 0)


def test_committed_means_a_majority_of_all_servers_has_accepted() -> None:
    """P1 4.2.1: success from a majority; one server is not enough."""
    bench = Bench()
    bench.append(2)

    bench.ack(S2, 2)
    assert bench.outcomes == {}
    bench.ack(S2, 2)
    assert bench.outcomes == {}, "the same server twice is still one server"
    bench.ack(S1, 2)
    assert bench.outcomes == {ticket(0): NativeAppended(first=0, known_tail=2)}


def test_acks_are_cumulative_and_callers_are_resolved_in_order() -> None:
    """P1 4.2.1: all appends below a committed one are committed."""
    bench = Bench()
    for n in range(3):
        bench.append(1, n)

    bench.ack(S1, 3)
    bench.ack(S3, 2)

    assert list(bench.outcomes.items()) == [(ticket(n), NativeAppended(first=n, known_tail=2)) for n in range(2)]
    bench.ack(S2, 3)
    assert bench.outcomes[ticket(2)] == NativeAppended(first=2, known_tail=3)


def test_a_known_tail_from_others_commits_nothing() -> None:
    """It may come from a repair after a seal whose tail lies below: to acknowledge on it would lose the append."""
    bench = Bench()
    bench.append(1)
    bench.append(1, 1)

    for server in (S1, S2):
        bench.run(bench.core.stored(server, 0, stored_of(1, known_tail=2)))
    bench.run(bench.core.heard(S3, state_of(2, known_tail=2)))

    assert list(bench.outcomes) == [ticket(0)]
    assert bench.core.committed == 1


def test_what_is_queued_waits_while_enough_waves_are_in_flight() -> None:
    """Then it shares one wave: load makes waves larger."""
    bench = Bench()
    for n in range(module.WAVES_MAX + 3):
        bench.append(1, n)
    assert len(bench.sends[S1]) == module.WAVES_MAX
    assert not bench.has_work()

    bench.ack(S1, 1)
    bench.ack(S2, 1)
    assert bench.has_work()
    bench.turn()

    assert bench.sends[S1][-1] == (module.WAVES_MAX, 1)
    for server in (S1, S2):
        bench.ack(server, module.WAVES_MAX + 3)
    assert len(bench.outcomes) == module.WAVES_MAX + 3


def test_a_slow_server_catches_up_by_omission() -> None:
    """P1 4.2.1: it is not sent what is committed; the known tail tells it that it may leave a gap."""
    bench = Bench()
    bench.append(1, 0)
    bench.run(bench.core.unreachable(S3, 0))
    assert bench.others == [Resume(S3)]
    for n in range(1, 4):
        bench.append(1, n)
        bench.ack(S1, n)
        bench.ack(S2, n)

    bench.run(bench.core.resume(S3))

    assert bench.sends[S3] == [(0, 0), (3, 3)]


def test_a_wave_without_answer_is_sent_again_at_the_same_place() -> None:
    """For ever: a hole would block all that follows."""
    bench = Bench()
    bench.append(1)
    for run in range(5):
        bench.run(bench.core.unreachable(S1, run))
        bench.run(bench.core.resume(S1))

    assert bench.sends[S1] == [(0, 0)] * 6


def test_failures_of_an_earlier_run_do_not_pause_a_server_again() -> None:
    """Four waves in flight to a server that went away fail together; that is one failure."""
    bench = Bench()
    for n in range(4):
        bench.append(1, n)
    for _ in range(4):
        bench.run(bench.core.unreachable(S1, 0))
    assert bench.others == [Resume(S1)]
    bench.run(bench.core.resume(S1))

    bench.run(bench.core.unreachable(S1, 0))

    assert bench.others == [Resume(S1)]
    assert bench.sends[S1] == [(n, 0) for n in (0, 1, 2, 3)] * 2


def test_acceptances_of_an_earlier_run_count() -> None:
    """A server has what it has accepted, however late the answer."""
    bench = Bench()
    bench.append(1)
    bench.run(bench.core.unreachable(S1, 0))
    bench.run(bench.core.resume(S1))

    bench.run(bench.core.stored(S1, 0, stored_of(1)))
    bench.ack(S2, 1)

    assert ticket(0) in bench.outcomes


def test_a_wave_that_came_too_early_is_sent_again_from_what_was_accepted() -> None:
    """The network lost or swapped an earlier one."""
    bench = Bench()
    for n in range(3):
        bench.append(1, n)
    bench.ack(S1, 1)
    bench.run(bench.core.stored(S1, 0, stored_of(1, accepted=False)))
    bench.run(bench.core.resume(S1))

    assert bench.sends[S1] == [(0, 0), (1, 0), (2, 0), (1, 0), (2, 0)]


def test_item_42_one_sealed_reply_makes_the_sequencer_ask_the_others_at_once() -> None:
    """A majority sealed: stop, and fail what is pending with an unknown outcome."""
    bench = Bench()
    bench.append(1)
    bench.offer("queued", batch_of(1, 1))

    bench.run(bench.core.stored(S1, 0, stored_of(0, accepted=False, sealed=True)))
    assert bench.others == [AskState(S2), AskState(S3)]
    assert bench.outcomes == {}, "one sealed server is no majority"
    bench.run(bench.core.heard(S2, state_of(0, sealed=True)))

    assert isinstance(bench.outcomes[ticket(0)], SealedError)
    assert isinstance(bench.outcomes["queued"], SealedError)
    bench.offer("late", batch_of(1, 2))
    assert encode(bench.outcomes["late"]) == encode(SealedError(refused=True))


def test_a_copy_of_a_batch_that_was_ordered_is_not_refused_after_the_seal() -> None:
    """The same offer may come twice. The answer to the second may arrive first, and "nothing was done" would be a lie."""
    bench = Bench()
    bench.append(1)
    bench.run(bench.core.stop(SealedError()))
    bench.offer("copy", batch_of(1, 0))
    bench.offer("new", batch_of(1, 1))

    assert encode(bench.outcomes["copy"]) == encode(SealedError(refused=False))
    assert encode(bench.outcomes["new"]) == encode(SealedError(refused=True))


def allocated_in(module: ModuleType) -> int:
    """Bytes that are in use, of what its code has allocated since tracing began."""
    assert module.__file__ is not None
    traces = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, module.__file__)])
    return sum(statistic.size for statistic in traces.statistics("filename"))


def test_a_sequencer_that_has_ended_remembers_sessions_and_not_where_their_batches_are() -> None:
    """It stays as long as its segment is in the chain; a log that is swapped often and trimmed rarely has many of them."""
    tracemalloc.start()
    try:
        bench = Bench()
        for sequence in range(session_table.BATCHES_MAX):
            for number in range(50):
                bench.append(1, sequence, number.to_bytes(16, "big"))
            bench.ack(S1, bench.core.tail)
            bench.ack(S2, bench.core.tail)
        held = allocated_in(session_table)
        bench.core.stop(SealedError())
        kept = allocated_in(session_table)
    finally:
        tracemalloc.stop()

    assert kept < held / 10


def test_a_seal_of_a_minority_does_not_stop_the_sequencer() -> None:
    """Its sealer may have died; a majority of all servers still accepts."""
    bench = Bench()
    bench.append(1)
    bench.run(bench.core.stored(S1, 0, stored_of(0, accepted=False, sealed=True)))
    bench.run(bench.core.heard(S2, state_of(0)))
    bench.ack(S2, 1)
    bench.ack(S3, 1)

    assert bench.outcomes == {ticket(0): NativeAppended(first=0, known_tail=1)}
    bench.append(1, 1)
    assert bench.sends[S1] == [(0, 0)], "a sealed server is left alone"


def test_an_acceptance_before_the_seal_counts_and_the_rest_of_the_unsealed_does_not() -> None:
    """The majority is one of all servers, never of those left unsealed: one acceptance and two
    seals acknowledge nothing."""
    bench = Bench()
    bench.append(1)
    bench.ack(S3, 1)
    for server in (S1, S2):
        bench.run(bench.core.stored(server, 0, stored_of(0, accepted=False, sealed=True)))

    assert isinstance(bench.outcomes[ticket(0)], SealedError)


def test_entries_of_another_sequencer_stop_this_one() -> None:
    """Another sequencer wrote to a server that has more than was ever ordered here."""
    bench = Bench()
    bench.append(1)
    bench.ack(S1, 2)

    assert isinstance(bench.outcomes[ticket(0)], ReconfigurationNeededError)


def test_item_33_a_batch_offered_again_gets_the_place_it_has() -> None:
    """Committed: at once. Pending: with the first caller."""
    bench = Bench()
    bench.append(2)
    bench.offer("pending", batch_of(2, 0))
    bench.turn()
    assert bench.sends[S1] == [(0, 0)], "ordered once"
    for server in (S1, S2):
        bench.ack(server, 2)
    bench.offer("committed", batch_of(2, 0))

    assert bench.outcomes["pending"] == bench.outcomes["committed"] == NativeAppended(first=0, known_tail=2)


def test_callers_of_one_batch_are_bounded() -> None:
    """The earliest has given up long ago."""
    bench = Bench()
    bench.append(1)
    for n in range(module.TICKETS_MAX):
        bench.offer(n, batch_of(1, 0))

    assert list(bench.outcomes) == [ticket(0)]
    assert isinstance(bench.outcomes[ticket(0)], UnavailableError), "its batch has been ordered: never 'nothing done'"


def test_a_gap_in_a_session_is_refused_unless_the_session_is_new_and_opens() -> None:
    """A sequencer cannot tell a gap from a beginning otherwise."""
    bench = Bench()
    bench.offer("unknown", batch_of(1, 5))
    bench.offer("opens", batch_of(1, 5), opens=True)
    bench.offer("gap", batch_of(1, 8))

    assert encode(bench.outcomes["unknown"]) == encode(OutOfOrderError(0))
    assert encode(bench.outcomes["gap"]) == encode(OutOfOrderError(6))
    assert "opens" not in bench.outcomes
    bench.offer("gap opens", batch_of(1, 8), opens=True)
    assert encode(bench.outcomes["gap opens"]) == encode(OutOfOrderError(6))


def test_the_queue_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused when offered, before it has a place: nothing was done, and the session can go on."""
    monkeypatch.setattr(module, "QUEUE_BYTES_MAX", 150)
    bench = Bench()
    bench.offer("a", batch_of(1, 0), opens=True)
    bench.offer("b", batch_of(20, 1))
    bench.turn()
    bench.offer("c", batch_of(1, 1))

    assert [type(outcome) for outcome in bench.outcomes.values()] == [OverloadedError]
    assert bench.core.tail == 2


def test_a_wave_is_bounded_in_bytes() -> None:
    """One larger batch is a wave of its own."""
    bench = Bench(core=Sequencer(SEGMENT, config_of(3), TransferLimits(wave_bytes=150)))
    for n, count in ((0, 1), (1, 1), (2, 200), (202, 1)):
        bench.offer(n, batch_of(count, n), opens=n == 0)
    bench.turn()

    assert [first for first, _ in bench.sends[S1]] == [0, 2, 202]


def test_time_never_goes_back() -> None:
    """The wall clock may jump; readers are promised ascending times per sequencer."""
    core = Sequencer(SEGMENT, config_of(1))
    times = []
    for n, now in enumerate((50, 20, 60)):
        core.offer(batch_of(1, n), n, now, opens=n == 0, expected_tail=NO_EXPECTATION)
        times += [effect.wave.time_ms for effect in core.turn(now) if isinstance(effect, NativeSend)]

    assert times == [50, 50, 60]


def test_item_36_pending_waves_survive_their_callers() -> None:
    """Replication goes on until the commit, even without callers: nothing in the core can take an
    offset back."""
    bench = Bench()
    bench.append(1)
    bench.append(1, 1)
    bench.ack(S1, 2)
    bench.ack(S2, 2)

    assert bench.core.committed == bench.core.tail == 2


def test_a_lone_batch_hurries_and_a_crowd_does_not() -> None:
    """A lone batch need not wait out the turn; where many come together, a wave of each would cost far more."""
    core = Sequencer(SEGMENT, config_of(3))
    core.offer(batch_of(1, 0), "first", 7, opens=True, expected_tail=NO_EXPECTATION)
    assert not core.may_hurry, "nobody knows yet how many come"
    core.turn(7)
    core.offer(batch_of(1, 1), "second", 7, opens=False, expected_tail=NO_EXPECTATION)
    assert not core.may_hurry, "a wave is on its way, and what comes meanwhile shares the next one"

    for server in (S1, S2):
        core.stored(server, 0, stored_of(1))
    hurries: bool = core.may_hurry
    assert hurries

    core.offer(batch_of(1, 2), "third", 7, opens=False, expected_tail=NO_EXPECTATION)
    core.turn(7)
    for server in (S1, S2):
        core.stored(server, 0, stored_of(3))
    core.offer(batch_of(1, 3), "fourth", 7, opens=False, expected_tail=NO_EXPECTATION)
    assert not core.may_hurry, "the last wave had two"
