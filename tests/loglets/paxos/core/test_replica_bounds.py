"""The core of a replica: bounds on what a peer may ask for."""

from __future__ import annotations

import attrs
import pytest

from tests.loglets.paxos.core.replica_bench import LOG, K, N, decide, learn, promise, step, voting, write, written_to
from virtuallog.contract.errors import OverloadedError, SealedError
from virtuallog_loglets.paxos.core import learn_waiters, slots, values
from virtuallog_loglets.paxos.core import replica as replicas
from virtuallog_loglets.paxos.core.effects import PaxosAnswer
from virtuallog_loglets.paxos.messages import (
    NO_NODE,
    GetStanding,
    PaxosRecover,
    PaxosWrite,
    Promise,
    Verdict,
    WaitLearned,
)


def test_what_is_not_decided_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that hears of no decision takes no more; decisions make room."""
    monkeypatch.setattr(replicas, "OPEN_BYTES_MAX", 3000)
    replica = voting()
    first = 0
    while not isinstance(outcome := step(replica, _kilobyte(first)), OverloadedError):
        assert outcome.verdict is Verdict.ACCEPT
        first += 1
    assert first == 2
    assert replica.end == first - 1, "nothing of it was done"
    decide(replica, 1, 0, first)
    assert step(replica, _kilobyte(first)).verdict is Verdict.ACCEPT


def _kilobyte(first: int) -> PaxosWrite:
    return PaxosWrite(segment=LOG, proposal=1, coordinator=K, first=first, values=(values.append(bytes(1000), 1),))


def test_the_newest_decided_values_are_kept_for_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many are kept as there is room for, and none of a closed log."""
    monkeypatch.setattr(slots, "RECENT_BYTES_MAX", 4000)
    replica = voting()
    for first in range(10):
        step(replica, _kilobyte(first))
        decide(replica, 1, 0, first + 1)
    kept = [place for place in range(10) if replica.slots.recent(place) is not None]
    assert kept == [7, 8, 9]
    assert 0 < replica.slots.recent_bytes <= 4000
    assert replica.slots.open_bytes == 0

    learn(replica, 10, values.seal(1))
    assert [place for place in range(11) if replica.slots.recent(place) is not None] == []
    assert replica.slots.recent_bytes == 0


def test_positions_out_of_this_world_are_refused() -> None:
    """They would have to be filled one by one. What is decided there is taken in: a replica may have missed as much."""
    replica = written_to(1)
    far = replicas.LEAP_MAX + 1
    outcomes = [
        step(replica, PaxosWrite(segment=LOG, proposal=1, coordinator=K, first=far, values=(values.nop(),))),
        step(replica, Promise(segment=LOG, proposal=1, coordinator=K, first=far, stop=far + 1)),
    ]
    assert [type(outcome) for outcome in outcomes] == [OverloadedError, OverloadedError]
    assert replica.end == 0
    assert learn(replica, far, values.nop()).end == far
    assert write(replica, 1, far + 1, b"x").verdict is Verdict.ACCEPT


def test_numbers_out_of_this_world_are_refused() -> None:
    """The highest number could not be outbid: after one promise or write with it, the log would
    never have a coordinator again. Nothing is stored, also if only the number of one position
    went up."""
    replica, far = voting(), replicas.RAISE_MAX + 1
    value = (values.nop(),)
    outcomes = [
        step(replica, Promise(segment=LOG, proposal=far, coordinator=N)),
        step(replica, Promise(segment=LOG, proposal=far, coordinator=N, first=0, stop=1)),
        step(replica, PaxosWrite(segment=LOG, proposal=far, coordinator=N, first=0, values=value)),
    ]
    assert [type(outcome) for outcome in outcomes] == [OverloadedError] * 3
    assert (replica.promised, replica.coordinator, replica.end) == (0, NO_NODE, 0)
    assert replica.slots.open_record(0) is None

    assert promise(replica, far - 1, 0, 1).verdict is Verdict.ACCEPT
    assert write(replica, far, 0, b"a").verdict is Verdict.ACCEPT
    assert promise(replica, far - 1).verdict is Verdict.ACCEPT


def test_who_waits_is_bounded_in_number_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is answered at once, the others after some ticks, and all when the log is dropped."""
    monkeypatch.setattr(learn_waiters, "WAITERS_MAX", 2)
    replica = voting()
    waits = [replica.wait(WaitLearned(segment=LOG, past=5), number) for number in range(3)]
    assert [len(effects) for effects in waits] == [0, 0, 1]
    ticks = [replica.tick() for _ in range(learn_waiters.WAIT_TICKS)]
    assert [len(effects) for effects in ticks] == [0] * (learn_waiters.WAIT_TICKS - 1) + [2]
    assert replica.waiting == 0

    replica.wait(WaitLearned(segment=LOG, past=5), "last")
    (told,) = replica.dismiss(SealedError("dropped"))
    assert isinstance(told, PaxosAnswer)
    assert told.ticket == "last"


def test_a_standing_changes_nothing() -> None:
    """Any caller may ask at any time; nothing is written for it."""
    replica = written_to(3)
    assert replica.step(GetStanding(segment=LOG), "asker") == [PaxosAnswer("asker", replica.standing())]


@pytest.mark.parametrize("number", [-2, 1 << 63, (1 << 64) - 1])
def test_an_answer_with_a_number_out_of_this_world_is_none(number: int) -> None:
    """Such a number would go into the next request of its receiver, which could not be encoded and
    would fail uncaught. So the answer cannot be made, and reading one from the network fails
    like any malformed message."""
    promised, written = promise(voting(), 1), write(voting(), 1, 0, b"a")
    standing, recovered = voting().standing(), step(voting(), PaxosRecover(segment=LOG, node=N, incarnation=7))
    for answer, name in [
        *((promised, name) for name in ("proposal", "end")),
        *((written, name) for name in ("proposal", "end")),
        *((standing, name) for name in ("promised", "begin", "learned", "end", "seal", "seal_seen", "trim")),
        *((recovered, name) for name in ("promised", "begin", "end", "trim")),
    ]:
        with pytest.raises(ValueError, match=name):
            attrs.evolve(answer, **{name: number})
