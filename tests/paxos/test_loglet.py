"""A client of a replicated log, against replicas that do what a script says: the ugly cases, one by one.

Nodes 1, 2 and 3 are the replicas, and node 1 is asked first. What is asked is noted: (node, request). Time is simulated.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import attrs
import pytest
import trio

from virtuallog.batch import Batch, SessionId
from virtuallog.chain import SegmentId
from virtuallog.errors import (
    CorruptionError,
    DiskFullError,
    OutOfOrderError,
    OverloadedError,
    SealedError,
    StorageError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.ordering.slots import SLOT
from virtuallog.ports import Environment
from virtuallog.testing.clock import SimulatedClock
from virtuallog.testing.process import Process
from virtuallog.types import Gap, GapKind, LogletOffset, NodeId, Open, PlacedBatch, Sealed
from virtuallog_loglets.paxos import values
from virtuallog_loglets.paxos.config import PaxosConfig
from virtuallog_loglets.paxos.loglet import APPEND_SECONDS, PaxosLoglet
from virtuallog_loglets.paxos.messages import (
    NOBODY,
    NOWHERE,
    Append,
    GetStanding,
    ReadRecords,
    Record,
    Records,
    Seal,
    Settle,
    Standing,
    Status,
    Taken,
    TrimSealed,
    Truncate,
    WaitLearned,
)

SEGMENT = SegmentId(3, 7)
SESSION = SessionId(b"s" * 16)
ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)
SILENT = object()
"""A script's answer that never comes."""

Script: TypeAlias = Callable[[NodeId, Any], Any]


@attrs.define
class Stage:
    """The world of one client: services whose other side is a script."""

    script: Script
    clock: SimulatedClock = attrs.field(factory=lambda: SimulatedClock(Process(NodeId(99))))
    asked: list[tuple[NodeId, Any]] = attrs.field(factory=list)
    nursery: trio.Nursery | None = None

    def post(self, node: NodeId, request: Any, done: Callable[[Any], None], timeout_seconds: float) -> None:
        async def answer() -> None:
            try:
                done(await self.call(node, request, timeout_seconds))
            except VirtualLogError as error:
                done(error)

        assert self.nursery is not None
        self.nursery.start_soon(answer)

    async def call(self, node: NodeId, request: Any, timeout_seconds: float) -> Any:
        self.asked.append((node, request))
        answer = self.script(node, request)
        await self.clock.sleep(timeout_seconds if answer is SILENT else 0.001)
        if answer is SILENT:
            raise UnavailableError(f"node {node} does not answer")
        if isinstance(answer, VirtualLogError):
            raise answer
        return answer

    def errands(self) -> list[tuple[NodeId, bool]]:
        """(node, insisting) of what was asked of coordinators."""
        return [(node, request.insist) for node, request in self.asked if isinstance(request, Append | Seal | Truncate)]

    def loglet(self) -> PaxosLoglet:
        assert self.nursery is not None
        config = PaxosConfig(replicas=(ONE, TWO, THREE), coordinator=ONE)
        environment = Environment(services=self, clock=self.clock, random=random.Random(1), nursery=self.nursery)
        return PaxosLoglet(SEGMENT, config, environment)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with trio.open_nursery() as nursery:
        yield Stage(lambda node, request: SILENT, nursery=nursery)
        nursery.cancel_scope.cancel()


def batch(*payloads: bytes) -> Batch:
    return Batch.build(SESSION, 0, payloads or (b"a",))


def taken(place: int, coordinator: NodeId = NOBODY) -> Taken:
    return Taken(place=place, coordinator=coordinator)


def elsewhere(coordinator: NodeId = NOBODY) -> Taken:
    return Taken(place=NOWHERE, coordinator=coordinator)


def standing(end: int, learned: int | None = None, seal: int = NOWHERE, trim: int = 0, begin: int = 0) -> Standing:
    return Standing(status=Status.VOTING, incarnation=1, promised=1, begin=begin, learned=end + 1 if learned is None else learned,
                    end=end, uniform_from=end + 1, uniform=NOWHERE, seal=seal, trim=trim)  # fmt: skip


def record(position: int, value: bytes | None = None) -> Record:
    value = values.append(batch(b"%d" % position).blob, 5) if value is None else value
    return Record(position=position, promised=1, performed=1, value=value, learned=True)


# -- appends ----------------------------------------------------------------------------------------------------------


async def test_a_coordinator_that_dies_between_the_write_and_its_answer(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """The batch is decided and nobody was told. The next one is asked first whether it knows who leads, then to lead; it finds
    the batch where it is, so the append succeeds, once, at the place it has."""
    stage.script = lambda node, request: (
        SILENT if node == ONE else taken(4 * SLOT) if request.insist else elsewhere(ONE)
    )

    assert await stage.loglet().append(batch(b"a", b"b"), opens=True) == range(4 * SLOT, 4 * SLOT + 2)
    assert stage.errands() == [(ONE, False), (TWO, False), (TWO, True)]
    assert len({request.batch for _, request in stage.asked}) == 1
    assert stage.clock.monotonic() < 2.0


async def test_all_that_was_in_flight_goes_to_the_same_successor(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """One client, several batches, one leader that falls silent: nobody insists at two nodes."""
    leaders: set[NodeId] = set()

    def script(node: NodeId, request: Any) -> Any:
        if node == ONE:
            return SILENT
        leaders.update([node] if request.insist else [])
        return taken(0) if node in leaders else elsewhere(ONE)

    stage.script = script
    loglet = stage.loglet()

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(lambda: loglet.append(batch(), opens=True))
    assert leaders == {TWO}
    stage.asked.clear()
    await loglet.append(batch(), opens=False)
    assert stage.errands() == [(TWO, False)], "who leads is remembered"


async def test_hints_that_lead_in_a_circle(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """One says Two, Two says One, as after an election that failed. The second one is asked to stand."""
    stage.script = lambda node, request: taken(0) if request.insist else elsewhere(TWO if node == ONE else ONE)

    await stage.loglet().append(batch(), opens=True)
    assert stage.errands() == [(ONE, False), (TWO, False), (TWO, True)]


async def test_a_node_whose_role_is_closed_is_passed_over(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """Its disk has failed: it says so, and can do nothing. That is an answer like silence, only faster."""
    stage.script = lambda node, request: StorageError("poisoned") if node == ONE else taken(0)

    await stage.loglet().append(batch(), opens=True)
    assert stage.errands() == [(ONE, False), (TWO, False)]


async def test_on_the_wrong_side_of_a_partition_an_append_is_given_up(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """One replica can be reached; it stands, and gets no quorum. The outcome is unknown, after a bounded time and few
    elections."""
    stage.script = lambda node, request: (
        SILENT if node != THREE else UnavailableError("no quorum") if request.insist else elsewhere(ONE)
    )

    with pytest.raises(UnavailableError):
        await stage.loglet().append(batch(), opens=True)
    assert stage.clock.monotonic() <= APPEND_SECONDS + 0.1
    assert sum(insist for _, insist in stage.errands()) <= 5


@pytest.mark.parametrize("error", [OverloadedError("full"), DiskFullError("no room")])
@pytest.mark.parametrize("what", ["tail", "seal", "trim"])
async def test_a_leader_that_has_no_room_is_asked_again(
    stage: Stage, what: str, error: VirtualLogError, autojump_clock: trio.testing.MockClock
) -> None:
    """Nothing was done, and it goes on to lead: nobody else is asked to, and the caller hears of nothing."""
    full_until = 0.8
    seen: set[bool] = set()

    def script(node: NodeId, request: Any) -> Any:
        if isinstance(request, GetStanding | WaitLearned):
            decided = stage.clock.monotonic() > full_until
            return standing(2, learned=3 if decided or what == "trim" else 1)
        seen.add(request.insist)
        if stage.clock.monotonic() < full_until:
            return error
        return taken(2 * SLOT, ONE)

    stage.script = script
    loglet = stage.loglet()
    if what == "tail":
        assert await loglet.check_tail() == Open(LogletOffset(2 * SLOT))
    elif what == "seal":
        await loglet.seal()
    else:
        assert await loglet.prefix_trim(LogletOffset(2 * SLOT)) == 2 * SLOT
    assert seen == {False}
    assert {node for node, _ in stage.errands()} <= {ONE}


@pytest.mark.parametrize("error", [OverloadedError("full"), DiskFullError("no room")])
@pytest.mark.parametrize("what", ["tail", "seal", "trim"])
async def test_a_log_without_room_is_unavailable(
    stage: Stage, what: str, error: VirtualLogError, autojump_clock: trio.testing.MockClock
) -> None:
    """That is what callers know what to do about; `OverloadedError` is for appends alone."""
    stage.script = lambda node, request: (
        standing(2, learned=3 if what == "trim" else 1) if isinstance(request, GetStanding | WaitLearned) else error
    )
    loglet = stage.loglet()
    operations: dict[str, Callable[[], Awaitable[Any]]] = {
        "tail": loglet.check_tail,
        "seal": loglet.seal,
        "trim": partial(loglet.prefix_trim, LogletOffset(2 * SLOT)),
    }

    with pytest.raises(UnavailableError, match=r"full|no room"):
        await operations[what]()


async def test_replicas_that_cannot_be_reached_at_all_are_not_flooded(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """Connections are refused at once, again and again."""
    stage.script = lambda node, request: UnavailableError("refused")

    with pytest.raises(UnavailableError):
        await stage.loglet().append(batch(), opens=True)
    assert len(stage.asked) < 110


@pytest.mark.parametrize("error", [OutOfOrderError(3), OverloadedError("full"), SealedError("over", refused=True)])
async def test_what_a_leader_says_is_passed_on(
    stage: Stage, error: VirtualLogError, autojump_clock: trio.testing.MockClock
) -> None:
    """The appender knows what to do about it."""
    stage.script = lambda node, request: error

    with pytest.raises(type(error)) as caught:
        await stage.loglet().append(batch(), opens=True)
    assert caught.value is error
    assert len(stage.asked) == 1


async def test_a_seal_that_races_an_append(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """The first leader may have placed the batch before it died; the next one has learned a SEAL and did nothing. That is not
    "nothing was done": the batch must be looked for."""
    stage.script = lambda node, request: SILENT if node == ONE else SealedError("over", refused=True)

    with pytest.raises(SealedError) as caught:
        await stage.loglet().append(batch(), opens=True)
    assert not caught.value.refused


async def test_a_conditional_append_is_not_refused_for_good_while_a_copy_is_under_way(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """What was sent to the first leader may arrive when the tail has come to fit. A tail that has passed stays past."""
    stage.script = lambda node, request: SILENT if node == ONE else TailMismatchError(9 * SLOT, found[0])

    found = [4 * SLOT]
    with pytest.raises(UnavailableError):
        await stage.loglet().append(batch(), opens=True, expected_tail=LogletOffset(9 * SLOT))
    found = [10 * SLOT]
    with pytest.raises(TailMismatchError):
        await stage.loglet().append(batch(), opens=True, expected_tail=LogletOffset(9 * SLOT))
    stage.script = lambda node, request: TailMismatchError(9 * SLOT, 4 * SLOT)
    with pytest.raises(TailMismatchError):
        await stage.loglet().append(batch(), opens=True, expected_tail=LogletOffset(9 * SLOT))


async def test_a_conditional_append_is_refused_for_good_by_the_only_one_who_has_it(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """Who asks again after a call without an answer gets there by another coordinator. That one knows nothing of the first copy,
    which may wait for an election elsewhere: whoever is told "nothing was done" could find the entry in the log."""
    loglet, expected = stage.loglet(), LogletOffset(9 * SLOT)
    stage.script = lambda node, request: SILENT
    with pytest.raises(UnavailableError):
        await loglet.append(batch(), opens=True, expected_tail=expected)
    stage.script = lambda node, request: TailMismatchError(9 * SLOT, 4 * SLOT)
    with pytest.raises(UnavailableError, match="unknown, then the tail is"):
        await loglet.append(batch(), opens=True, expected_tail=expected)

    other = Batch.build(SESSION, 1, (b"b",))
    with pytest.raises(TailMismatchError):
        await loglet.append(other, opens=True, expected_tail=expected)
    stage.script = lambda node, request: taken(9 * SLOT)
    assert await loglet.append(batch(), opens=True, expected_tail=expected) == range(9 * SLOT, 9 * SLOT + 1)


async def test_a_conditional_append_that_was_sent_on_is_not_refused_for_good(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """Networks double calls: whoever has sent the first copy on may take the second one, once it leads."""
    answers = {ONE: elsewhere(TWO), TWO: TailMismatchError(9 * SLOT, 4 * SLOT)}
    stage.script = lambda node, request: answers[node]

    with pytest.raises(UnavailableError, match="unknown, then the tail is"):
        await stage.loglet().append(batch(), opens=True, expected_tail=LogletOffset(9 * SLOT))
    assert [node for node, _ in stage.asked] == [ONE, TWO]


# -- tails ------------------------------------------------------------------------------------------------------------


async def test_a_tail_of_one_replica_is_no_tail(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """The others are on the other side of a partition, where appends may go on."""
    stage.script = lambda node, request: standing(5) if node == ONE else SILENT

    with pytest.raises(UnavailableError):
        await stage.loglet().check_tail()


async def test_a_stale_replica_does_not_make_a_stale_tail(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """Node 2 lags; together with node 1 it is a quorum, and node 1 knows of more."""
    stage.script = lambda node, request: {ONE: standing(7), TWO: standing(2)}.get(node, SILENT)

    assert await stage.loglet().check_tail() == Open(7 * SLOT)


async def test_a_tail_check_waits_for_what_is_in_flight(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """Position 7 is on one replica, and about to be decided. Nobody is asked to settle it."""
    stage.script = lambda node, request: {
        ONE: standing(7) if isinstance(request, WaitLearned) else standing(7, learned=7),
        TWO: SILENT if isinstance(request, WaitLearned) else standing(6),
    }.get(node, SILENT)

    assert await stage.loglet().check_tail() == Open(7 * SLOT)
    assert not [request for _, request in stage.asked if isinstance(request, Settle)]


async def test_what_a_dead_coordinator_left_open_is_settled(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """Through the position that was seen, by whoever leads or can be made to."""
    settled: list[Settle] = []

    def script(node: NodeId, request: Any) -> Any:
        if isinstance(request, Settle):
            settled.append(request)
            return SILENT if node == ONE else taken(7 * SLOT) if request.insist else elsewhere(ONE)
        if isinstance(request, WaitLearned) or node == ONE:
            return SILENT
        return standing(7) if settled and settled[-1].insist else standing(7, learned=6)

    stage.script = script
    assert await stage.loglet().check_tail() == Open(7 * SLOT)
    assert {request.past for request in settled} == {7}


async def test_zombies_do_not_move_a_sealed_tail(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """Two replicas hold positions behind the SEAL that the third has learned."""
    stage.script = lambda node, request: standing(7, learned=5) if node != THREE else standing(9, seal=5)

    assert await stage.loglet().check_tail() == Sealed(4 * SLOT)


async def test_a_log_that_was_dropped_says_so(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """Like one that is sealed: the chain will tell what follows."""
    stage.script = lambda node, request: SealedError("dropped")
    loglet = stage.loglet()

    for operation in (loglet.check_tail(), loglet.read(LogletOffset(0), LogletOffset(9), 99), loglet.seal()):
        with pytest.raises(SealedError):
            await operation
    with pytest.raises(SealedError):
        await loglet.prefix_trim(LogletOffset(1))
    with pytest.raises(SealedError):
        await loglet.wait_tail(LogletOffset(1))


async def test_wait_tail_takes_the_word_of_the_first_that_has_news(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """Parked at two, as one may be cut off. What one has learned is decided."""
    stage.script = lambda node, request: SILENT if node == ONE else standing(7)

    assert await stage.loglet().wait_tail(LogletOffset(5 * SLOT + 3)) == Open(7 * SLOT)
    assert sorted((node, request.past) for node, request in stage.asked) == [(ONE, 6), (TWO, 6)]


async def test_wait_tail_without_news_ends_with_a_check(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """After some seconds, so that a chain that has changed elsewhere is noticed."""
    stage.script = lambda node, request: SILENT if isinstance(request, WaitLearned) else standing(3)

    assert await stage.loglet().wait_tail(LogletOffset(3 * SLOT)) == Open(3 * SLOT)
    assert stage.clock.monotonic() < 3.0


# -- reads ------------------------------------------------------------------------------------------------------------


async def test_a_reader_passes_over_who_lags_lies_or_is_down(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """One does not answer, one has a damaged copy, one is whole. Next time the silent one is asked last."""
    stage.script = lambda node, request: {
        ONE: SILENT,
        TWO: Records(records=(record(1, values.append(batch().blob, 5)[:-1]),), standing=standing(9)),
        THREE: Records(records=(record(1),), standing=standing(9)),
    }[node]
    loglet = stage.loglet()

    items = await loglet.read(LogletOffset(0), LogletOffset(1), 99)
    assert items == [PlacedBatch(range(1), batch(b"1"), 5)]
    stage.asked.clear()
    await loglet.read(LogletOffset(0), LogletOffset(1), 99)
    assert [node for node, _ in stage.asked] == [TWO, THREE]


async def test_a_reader_below_the_truncation(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """One replica has dropped it, one has not heard of the truncation and would still give it: either may be asked."""
    stage.script = lambda node, request: Records(records=(), standing=standing(9, begin=4, trim=3 * SLOT + 1))

    assert await stage.loglet().read(LogletOffset(5), LogletOffset(9 * SLOT), 99) == [
        Gap(5, 3 * SLOT + 1, GapKind.TRIMMED)
    ]


async def test_what_nobody_has_learned_is_settled_before_it_is_read(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """Decided, and its coordinator died before it told anybody. It is settled no further than somebody has seen, although the
    reader asks for more: settling fills what is free."""
    settled: list[Settle] = []

    def script(node: NodeId, request: Any) -> Any:
        if isinstance(request, Settle):
            settled.append(request)
            return taken(0)
        return Records(records=(record(5),) if settled else (), standing=standing(6, learned=5))

    stage.script = script
    items = await stage.loglet().read(LogletOffset(4 * SLOT), LogletOffset(99 * SLOT), 99)
    assert items[0] == PlacedBatch(range(4 * SLOT, 4 * SLOT + 1), batch(b"5"), 5)
    assert [request.past for request in settled] == [6]


async def test_a_reader_beyond_the_tail_fills_nothing(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """Nobody knows of the position: there is nothing to settle."""
    stage.script = lambda node, request: Records(records=(), standing=standing(6))

    with pytest.raises(UnavailableError):
        await stage.loglet().read(LogletOffset(50 * SLOT), LogletOffset(51 * SLOT), 99)
    assert {type(request) for _, request in stage.asked} == {ReadRecords}


@pytest.mark.parametrize("third", [SILENT, Records(records=(), standing=standing(0))], ids=["silent", "lags"])
async def test_corruption_is_told_only_if_every_copy_is_damaged(
    stage: Stage, third: Any, autojump_clock: trio.testing.MockClock
) -> None:
    """Who is silent, or lags, may have a whole copy one day."""
    damaged = Records(records=(record(1, values.nop()[:-1]),), standing=standing(9))
    rotten: dict[NodeId, Any] = {ONE: CorruptionError("rot"), TWO: damaged, THREE: third}
    stage.script = lambda node, request: rotten[node] if isinstance(request, ReadRecords) else SILENT

    with pytest.raises(UnavailableError):
        await stage.loglet().read(LogletOffset(0), LogletOffset(9), 99)
    stage.script = lambda node, request: damaged
    with pytest.raises(CorruptionError):
        await stage.loglet().read(LogletOffset(0), LogletOffset(9), 99)


# -- seal and trim ----------------------------------------------------------------------------------------------------


async def test_a_seal_finds_another_leader(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """With two of three it is done."""
    stage.script = lambda node, request: SILENT if node == ONE else taken(9) if request.insist else elsewhere(ONE)

    await stage.loglet().seal()
    assert stage.errands() == [(ONE, False), (TWO, False), (TWO, True)]


async def test_a_trim_never_passes_the_tail(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """The leader is asked for no more than what a check has found; what it says is the trim point."""
    trim = 3 * SLOT
    stage.script = lambda node, request: (
        standing(5) if isinstance(request, GetStanding) else taken(max(trim, request.offset))
    )

    assert await stage.loglet().prefix_trim(LogletOffset(99 * SLOT)) == 5 * SLOT
    assert await stage.loglet().prefix_trim(LogletOffset(7)) == trim


async def test_a_leader_that_lags_behind_a_tail_does_not_shorten_a_trim(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """A quorum has told of position 5, of which its coordinator has not heard. It is made to, and trims all that was asked for."""
    known = [4]

    def script(node: NodeId, request: Any) -> Any:
        if isinstance(request, GetStanding):
            return standing(5)
        if isinstance(request, Settle):
            known.append(request.past)
            return taken(request.past * SLOT)
        return taken(min(request.offset, known[-1] * SLOT))

    stage.script = script
    assert await stage.loglet().prefix_trim(LogletOffset(5 * SLOT - 1)) == 5 * SLOT - 1
    assert known == [4, 5]


async def test_a_trim_of_a_sealed_log_has_a_majority_behind_it(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """A former trim had reached one replica only: that is the trim point now, and a majority is told."""
    trims = {ONE: 7, TWO: 0, THREE: 0}

    def script(node: NodeId, request: Any) -> Any:
        if node == THREE:
            return SILENT
        if isinstance(request, TrimSealed):
            trims[node] = max(trims[node], request.offset)
        return standing(9, seal=9, trim=trims[node])

    stage.script = script
    assert await stage.loglet().prefix_trim(LogletOffset(3)) == 7
    assert (trims[ONE], trims[TWO]) == (7, 7)
    assert not stage.errands()


async def test_a_log_that_is_sealed_under_a_trim(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """The leader says so: the trim goes to the replicas instead."""
    sealed: list[int] = []

    def script(node: NodeId, request: Any) -> Any:
        if isinstance(request, Truncate):
            sealed.append(6)
            return SealedError("over", refused=True)
        trim = request.offset if isinstance(request, TrimSealed) else 0
        return standing(6, seal=6, trim=trim) if sealed else standing(5)

    stage.script = script
    assert await stage.loglet().prefix_trim(LogletOffset(3)) == 3
