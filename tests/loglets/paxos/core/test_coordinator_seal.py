"""The core of the coordinator: seals."""

from __future__ import annotations

import pytest

from tests.loglets.paxos.core.coordinator_bench import B, Bench, batch_of, written
from virtuallog.contract.errors import SealedError, UnavailableError, encode
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.coordinator import CoordinatorState
from virtuallog_loglets.paxos.core.effects import Announce, LearnLocally
from virtuallog_loglets.paxos.core.values import ValueKind
from virtuallog_loglets.paxos.messages import NOWHERE, Verdict
from virtuallog_loglets.paxos.offsets import offset_of


def test_seal_is_the_last_position() -> None:
    """Earlier offers are decided below it. Later ones wait until it is decided and are refused.
    Then all replicas learn it at once."""
    bench = Bench.leading()
    bench.offer("flight", batch_of(0))
    bench.offer("queue", batch_of(1))
    bench.run(bench.core.seal_log("seal"))
    bench.run(bench.core.seal_log("sealed twice"))
    bench.offer("late", batch_of(2))
    bench.offer("copy", batch_of(1))
    bench.commit()
    bench.commit()
    assert bench.outcomes == {"flight": 0, "queue": SLOT}
    assert values.kind_of(bench.writes[2].values[0]) is ValueKind.SEAL
    bench.log.clear()
    bench.accept()

    assert bench.outcomes["seal"] == bench.outcomes["sealed twice"] == 3
    assert bench.told["late"] == encode(SealedError(refused=True))
    assert bench.told["copy"] == encode(SealedError(refused=False)), "this one is in the log"
    assert (bench.core.state, bench.core.seal) == (CoordinatorState.CLOSED, 3)
    assert [type(effect) for effect in bench.log[:2]] == [LearnLocally, Announce]
    assert len(bench.writes) == 3


def test_a_closed_log_answers_at_once() -> None:
    """Closed here, or by another coordinator: then nothing is known of the sessions."""
    own, other = Bench.leading(), Bench.leading()
    own.run(own.core.seal_log("seal"))
    own.turn()
    own.accept()
    other.run(other.core.resign("outbid"))
    other.run(other.core.close(1))

    for bench in (own, other):
        bench.run(bench.core.seal_log("again"))
        bench.run(bench.core.settle(NOWHERE, "tail"))
        bench.offer("x", batch_of())
        bench.run(bench.core.truncate(0, 0, b"", "trim"))
        assert bench.outcomes["again"] == 1
        assert bench.outcomes["tail"] == 0
        assert bench.told["trim"] == encode(SealedError())
    assert own.told["x"] == encode(SealedError(refused=True))
    assert other.told["x"] == encode(SealedError(refused=False))


def test_a_seal_that_fails_is_a_maybe_and_nobody_was_told_sealed() -> None:
    """Requests that waited behind it may be offered to the next leader."""
    bench = Bench.leading()
    bench.run(bench.core.seal_log("seal"))
    bench.turn()
    bench.offer("late", batch_of())

    bench.run(bench.core.written(B, bench.round, written(Verdict.REJECT, proposal=6)))

    assert bench.core.state is CoordinatorState.INITIAL
    assert all(isinstance(bench.outcomes[ticket], UnavailableError) for ticket in ("seal", "late"))


def test_a_truncation_has_a_position_of_its_own() -> None:
    """It carries the trim point and the dropped sessions; batches before and after it do not share the position."""
    bench = Bench.leading()
    bench.offer("before", batch_of(0))
    bench.commit()
    bench.run(bench.core.truncate(2, SLOT, b"digest", "trim"))
    bench.offer("after", batch_of(1))
    bench.commit()
    bench.commit()

    assert values.truncation_of(bench.writes[1].values[0]) == values.Truncation(2, SLOT, b"digest")
    assert bench.outcomes == {"before": 0, "trim": 2, "after": offset_of(3)}


def test_bytes_of_a_user_have_a_position_each() -> None:
    """Each append is resolved with its position, in order, as in Mesos."""
    bench = Bench.leading()
    for n in (b"a", b"b"):
        bench.run(bench.core.append(n, n))
    bench.turn()
    bench.commit()
    bench.commit()

    assert [values.payload_of(write.values[0]) for write in bench.writes] == [b"a", b"b"]
    assert list(bench.outcomes.items()) == [(b"a", 1), (b"b", 2)]


def test_stopped_is_for_good() -> None:
    """The log was dropped: all pending requests fail with that error."""
    bench = Bench.leading()
    bench.offer("x", batch_of())

    bench.run(bench.core.stop(SealedError("dropped")))

    assert bench.told == {"x": encode(SealedError("dropped"))}
    with pytest.raises(AssertionError):
        bench.core.elect(0)
