"""The writer of one session by itself: batches in, requests out; and against a slow, obvious ZooKeeper that loses answers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import (
    OutOfOrderError,
    OverloadedError,
    ReconfigurationNeededError,
    SealedError,
    TailMismatchError,
    UnavailableError,
)
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.zookeeper.core import writer as writers
from virtuallog_loglets.zookeeper.core.records import CHUNK_BYTES, WriterState
from virtuallog_loglets.zookeeper.core.writer import (
    ABSENT,
    AskTail,
    Commit,
    Effect,
    Fence,
    ReadWriterState,
    ZooKeeperAnswer,
    ZooKeeperWriter,
)

SESSION = SessionId(b"s" * 16)


def batch(number: int, count: int = 1, size: int = 1) -> Batch:
    return Batch.build(SESSION, number, [b"x" * size] * count)


def opened(number: int = 0, slot: int = 0) -> ZooKeeperWriter:
    """A session that has one batch in the log."""
    writer = ZooKeeperWriter()
    writer.offer(batch(number), None, "first", opens=True)
    writer.committed(slot, 0)
    return writer


def outcome(effects: Sequence[Effect], ticket: Any) -> Any:
    (found,) = [
        effect.outcome for effect in effects if isinstance(effect, ZooKeeperAnswer) and ticket in effect.tickets
    ]
    return found


def commit_of(effects: Sequence[Effect]) -> Commit:
    (found,) = [effect for effect in effects if isinstance(effect, Commit)]
    return found


def test_a_session_that_opens_is_not_looked_for() -> None:
    """It is most likely new; if it is not, its znode exists and the transaction does nothing."""
    writer = ZooKeeperWriter()
    commit = commit_of(writer.offer(batch(7), None, "a", opens=True))
    assert (commit.version, commit.slot) == (ABSENT, None)
    assert commit.written == WriterState(next_sequence=8, placed=((7, None),))
    assert outcome(writer.committed(40, 0), "a") == range(40 * SLOT, 40 * SLOT + 1)
    assert writer.is_idle


def test_a_session_that_goes_on_is_looked_for() -> None:
    """By a client that does not know it."""
    writer = ZooKeeperWriter()
    assert writer.offer(batch(8), None, "a", opens=False) == [ReadWriterState()]
    commit = commit_of(writer.found(WriterState(next_sequence=8, placed=((7, 40),)), 3))
    assert commit.version == 3
    assert commit.written.placed == ((7, 40), (8, None))


def test_one_transaction_is_under_way_at_a_time() -> None:
    """Batches that come meanwhile wait, and share the next slot, in the order of their numbers."""
    writer = opened()
    commit_of(writer.offer(batch(1), None, 1, opens=False))
    assert writer.offer(batch(3), None, 3, opens=False) == []
    assert writer.offer(batch(2), None, 2, opens=False) == []
    effects = writer.committed(1, 1)
    assert [one.first_sequence for one in commit_of(effects).batches] == [2, 3]
    effects = writer.committed(5, 2)
    assert [outcome(effects, ticket).start for ticket in (2, 3)] == [5 * SLOT, 5 * SLOT + 1]


def test_a_slot_takes_what_fits() -> None:
    """By bytes and by entries; what is larger than a slot is alone."""
    writer = opened()
    writer.offer(batch(1, size=3 * CHUNK_BYTES), None, 1, opens=False)
    for number, size in ((2, CHUNK_BYTES // 2), (3, CHUNK_BYTES // 3), (4, CHUNK_BYTES // 3), (5, 2 * CHUNK_BYTES)):
        writer.offer(batch(number, size=size), None, number, opens=False)
    shared = []
    for slot in range(1, 5):
        effects = writer.committed(slot, slot)
        shared += [[one.first_sequence for one in effect.batches] for effect in effects if isinstance(effect, Commit)]
    assert shared == [[2, 3], [4], [5]]


def test_what_has_no_predecessor_is_refused() -> None:
    """Its predecessor may be waiting, or under way: then it waits, too."""
    writer = opened()
    assert repr(outcome(writer.offer(batch(2), None, "gap", opens=False), "gap")) == repr(OutOfOrderError(1))
    writer.offer(batch(1), None, 1, opens=False)
    writer.offer(batch(2), None, 2, opens=False)
    writer.offer(batch(9), None, 9, opens=False)
    effects = writer.committed(1, 1)
    assert repr(outcome(effects, 9)) == repr(OutOfOrderError(3))
    assert [one.first_sequence for one in commit_of(effects).batches] == [2]


def test_after_an_unknown_outcome_it_looks_and_goes_on() -> None:
    """Batches in the log are answered; the others are sent again, at the version that is there now."""
    writer = opened()
    writer.offer(batch(1), None, 1, opens=False)
    writer.offer(batch(2), None, 2, opens=False)
    assert writer.unknown() == [ReadWriterState()]
    effects = writer.found(WriterState(next_sequence=2, placed=((0, 0), (1, 6))), 1)
    assert outcome(effects, 1) == range(6 * SLOT, 6 * SLOT + 1)
    assert commit_of(effects).version == 1


def test_who_left_before_his_batch_was_sent_leaves_nothing() -> None:
    """The transaction in flight goes on; the withdrawn caller gets no answer."""
    writer = opened()
    writer.offer(batch(1), None, 1, opens=False)
    writer.offer(batch(2), None, 2, opens=False)
    writer.withdraw(1)
    writer.withdraw(2)
    effects = writer.committed(1, 1)
    assert not any(isinstance(effect, Commit) for effect in effects)
    assert writer.is_idle


def test_the_same_batch_has_one_place_for_all_who_offer_it() -> None:
    """While it is under way, and afterwards."""
    writer = opened()
    writer.offer(batch(1), None, "a", opens=False)
    assert writer.offer(batch(1), None, "b", opens=False) == []
    effects = writer.committed(4, 1)
    assert outcome(effects, "a") == outcome(effects, "b") == range(4 * SLOT, 4 * SLOT + 1)
    assert outcome(writer.offer(batch(1), None, "c", opens=False), "c") == range(4 * SLOT, 4 * SLOT + 1)


def test_a_seal_refuses_what_surely_did_nothing() -> None:
    """Not what had no answer before."""
    writer = opened()
    writer.offer(batch(1), None, 1, opens=False)
    writer.unknown()
    writer.offer(batch(2), None, 2, opens=False)
    effects = writer.sealed()
    assert [outcome(effects, ticket).refused for ticket in (1, 2)] == [False, True]
    assert isinstance(outcome(effects, 1), SealedError)


def test_a_condition_is_alone_and_says_which_slot() -> None:
    """Neither what is before nor what is behind it shares its slot."""
    writer = opened()
    writer.offer(batch(1), None, 1, opens=False)
    writer.offer(batch(2), 5 * SLOT, 2, opens=False)
    writer.offer(batch(3), None, 3, opens=False)
    commit = commit_of(writer.committed(4, 1))
    assert (len(commit.batches), commit.slot) == (1, 5)
    assert commit_of(writer.committed(5, 2)).slot is None


def test_a_condition_that_cannot_come_true_needs_no_fence() -> None:
    """The tail is past it; or no slot begins there."""
    writer = opened()
    writer.offer(batch(1), SLOT, 1, opens=False)
    assert repr(outcome(writer.mismatched(3 * SLOT), 1)) == repr(TailMismatchError(SLOT, 3 * SLOT))
    assert writer.offer(batch(1), 9 * SLOT + 1, 1, opens=False) == [AskTail()]
    assert repr(outcome(writer.mismatched(3 * SLOT), 1)) == repr(TailMismatchError(9 * SLOT + 1, 3 * SLOT))


def test_a_condition_that_may_come_true_is_fenced_first() -> None:
    """Only then is it refused, and the next batch is sent in the version of the fence."""
    writer = opened()
    writer.offer(batch(1), 9 * SLOT, 1, opens=False)
    (fence,) = writer.mismatched(3 * SLOT)
    assert isinstance(fence, Fence)
    assert (fence.written.next_sequence, fence.version) == (1, 0)
    assert repr(outcome(writer.fenced(1), 1)) == repr(TailMismatchError(9 * SLOT, 3 * SLOT))
    assert commit_of(writer.offer(batch(1), None, 1, opens=False)).version == 1


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crowd of batches waits for room elsewhere; without numbers for slots a successor is needed."""
    writer = opened()
    for number in range(1, writers.WAITING_MAX + 2):
        assert not any(
            isinstance(one, ZooKeeperAnswer) for one in writer.offer(batch(number), None, number, opens=False)
        )
    assert isinstance(outcome(writer.offer(batch(999), None, 999, opens=False), 999), OverloadedError)
    monkeypatch.setattr(writers, "SLOTS_MAX", 10)
    late = opened(slot=10)
    assert isinstance(outcome(late.offer(batch(1), None, 1, opens=False), 1), ReconfigurationNeededError)


# -- against an obvious ZooKeeper -----------------------------------------------------------------------------------------


@attrs.define
class Obvious:
    """ZooKeeper's content for one session and its log: a list. Requests may be lost, and come back late."""

    written: WriterState | None = None
    version: int = ABSENT
    log: list[tuple[Batch, ...]] = attrs.field(factory=list)
    late: list[Commit | Fence] = attrs.field(factory=list)

    def execute(self, request: Commit | Fence) -> bool:
        if request.version != self.version:
            return False
        if isinstance(request, Commit):
            if request.slot not in {None, len(self.log)}:
                return False
            self.log.append(request.batches)
        known = request.written
        self.written = known if known.is_resolved else known.resolved(len(self.log) - 1)
        self.version += 1
        return True


@given(st.integers(0, 1 << 32))
def test_any_schedule_keeps_the_session(seed: int) -> None:
    """The log holds the session's batches once and in order, and an acknowledged batch is at the place that its caller got."""
    source, zookeeper = random.Random(seed), Obvious()
    clients = [_Client(zookeeper, source), _Client(zookeeper, source)]
    for _ in range(200):
        source.choice(clients).step()
        if zookeeper.late and source.random() < 0.1:
            zookeeper.execute(zookeeper.late.pop(source.randrange(len(zookeeper.late))))
        if source.random() < 0.05:
            zookeeper.log.append(())  # another client's

    held = [one.first_sequence for slot in zookeeper.log for one in slot]
    assert held == list(range(len(held)))
    for client in clients:
        for number, place in client.told.items():
            bundle = zookeeper.log[place // SLOT]
            assert bundle[place % SLOT].first_sequence == number


@attrs.define
class _Client:
    zookeeper: Obvious
    source: random.Random
    writer: ZooKeeperWriter = attrs.field(factory=ZooKeeperWriter)
    request: Effect | None = None
    told: dict[int, int] = attrs.field(factory=dict)
    refused: set[int] = attrs.field(factory=set)

    def step(self) -> None:
        if self.request is None or self.source.random() < 0.3:
            self._offer()
        else:
            request, self.request = self.request, None
            self._take(self._answer(request))

    def _offer(self) -> None:
        held = sum(len(slot) for slot in self.zookeeper.log)
        number = max(0, held + self.source.randint(-3, 2))
        tail = len(self.zookeeper.log)
        expected = (tail + self.source.randint(-1, 2)) * SLOT if self.source.random() < 0.2 and tail > 1 else None
        self._take(self.writer.offer(batch(number), expected, (number, expected), opens=number == 0))

    def _take(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if not isinstance(effect, ZooKeeperAnswer):
                assert self.request is None
                self.request = effect
            elif isinstance(effect.outcome, range):
                for number, _ in effect.tickets:
                    assert self.told.setdefault(number, effect.outcome.start) == effect.outcome.start

    def _answer(self, request: Effect) -> list[Effect]:
        if isinstance(request, AskTail):
            return self.writer.mismatched(len(self.zookeeper.log) * SLOT)
        if isinstance(request, ReadWriterState):
            return self.writer.found(self.zookeeper.written, self.zookeeper.version)
        assert isinstance(request, Commit | Fence)
        fate = self.source.random()
        if fate < 0.1:
            self.zookeeper.late.append(request)
            return self.writer.unknown()
        outdated = request.version != self.zookeeper.version
        done = self.zookeeper.execute(request)
        if fate < 0.25:
            return self.writer.unknown()
        if done:
            return self._done(request)
        return self.writer.outdated() if outdated else self.writer.mismatched(len(self.zookeeper.log) * SLOT)

    def _done(self, request: Commit | Fence) -> list[Effect]:
        if isinstance(request, Fence):
            return self.writer.fenced(request.version + 1)
        return self.writer.committed(len(self.zookeeper.log) - 1, request.version + 1)


def test_an_error_of_zookeeper_reaches_all_who_wait() -> None:
    """Requested and waiting batches fail; then the writer begins anew."""
    writer = opened()
    writer.offer(batch(1), None, 1, opens=False)
    writer.offer(batch(2), None, 2, opens=False)
    effects = writer.failed(UnavailableError("no"))
    assert [str(outcome(effects, ticket)) for ticket in (1, 2)] == ["no", "no"]
    assert writer.offer(batch(1), None, 1, opens=False) == [ReadWriterState()]
