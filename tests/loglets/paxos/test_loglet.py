"""A client of a replicated log, against replicas that do what a script says: the ugly cases, one by one.

Nodes 1, 2 and 3 are the replicas, and node 1 is asked first. What is asked is noted: (node, request). Time is simulated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio

from tests.loglets.paxos.loglet_stage import (
    ONE,
    SESSION,
    SILENT,
    THREE,
    TWO,
    Stage,
    batch,
    elsewhere,
    standing,
    taken,
)
from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import (
    DiskFullError,
    OutOfOrderError,
    OverloadedError,
    SealedError,
    StorageError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.types import LogletOffset, NodeId, Open
from virtuallog.exactly_once.slot_offsets import SLOT
from virtuallog_loglets.paxos.loglet import APPEND_SECONDS
from virtuallog_loglets.paxos.messages import (
    GetStanding,
    PaxosSettle,
    PaxosTruncate,
    TrimSealed,
    WaitLearned,
)

# -- appends ----------------------------------------------------------------------------------------------------------


async def test_a_coordinator_that_dies_between_the_write_and_its_answer(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """The batch is decided and was not acknowledged. The next node is asked first whether it knows
    the leader, then to lead. It finds the batch at its place, so the append succeeds, once, at
    that place."""
    stage.script = lambda node, request: (
        SILENT if node == ONE else taken(4 * SLOT) if request.insist else elsewhere(ONE)
    )

    assert await stage.loglet().append(batch(b"a", b"b"), opens=True) == range(4 * SLOT, 4 * SLOT + 2)
    assert stage.errands() == [(ONE, False), (TWO, False), (TWO, True)]
    assert len({request.batch for _, request in stage.asked}) == 1
    assert stage.clock.monotonic() < 2.0


async def posted(stage: Stage) -> range | VirtualLogError:
    """Outcome of an append that is posted."""
    outcomes: list[range | VirtualLogError] = []
    over = trio.Event()

    def done(outcome: range | VirtualLogError) -> None:
        outcomes.append(outcome)
        over.set()

    stage.loglet().post_append(batch(b"a", b"b"), opens=True, done=done)
    assert not outcomes
    await over.wait()
    return outcomes[0]


async def test_a_posted_append_looks_for_the_leader_like_any_other(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """The first node does it; or it names another one, or is silent, and the search goes on from there."""
    for first, errands in (
        (taken(4 * SLOT), [(ONE, False)]),
        (elsewhere(TWO), [(ONE, False), (TWO, False)]),
        (elsewhere(), [(ONE, False), (ONE, True)]),
        (SILENT, [(ONE, False), (TWO, False)]),
        (StorageError("the disk failed"), [(ONE, False), (TWO, False)]),
    ):
        stage.asked.clear()
        answers = iter([first])
        stage.script = lambda node, request, answers=answers: next(answers, taken(4 * SLOT))  # type: ignore[misc]

        assert await posted(stage) == range(4 * SLOT, 4 * SLOT + 2)
        assert stage.errands() == errands


@pytest.mark.parametrize("error", [SealedError(refused=True), DiskFullError("full"), OutOfOrderError(3)])
async def test_an_error_of_the_leader_ends_a_posted_append(
    stage: Stage, error: VirtualLogError, autojump_clock: trio.testing.MockClock
) -> None:
    """The caller of the append decides what follows, and no other node is asked."""
    stage.script = lambda node, request: error

    assert await posted(stage) is error
    assert stage.errands() == [(ONE, False)]


async def test_all_that_was_in_flight_goes_to_the_same_successor(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """One client has several batches in flight and one leader falls silent: it never insists at two nodes."""
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
    """Nothing was done, and the node keeps the lead: no other node is asked to lead, and the caller gets no error."""
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
    """Callers know what to do about `UnavailableError`; `OverloadedError` is for appends alone."""
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
    """The copy at the first leader may arrive when the tail has come to fit. A tail beyond the
    expected one stays so."""
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
    """A repeated call after a missing answer may reach another coordinator. That one knows nothing
    of the first copy, which may wait for an election elsewhere: a client told "nothing was done"
    could find the entry in the log."""
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
    """Networks duplicate calls: a node that has sent the first copy on may take the second one, once it leads."""
    answers = {ONE: elsewhere(TWO), TWO: TailMismatchError(9 * SLOT, 4 * SLOT)}
    stage.script = lambda node, request: answers[node]

    with pytest.raises(UnavailableError, match="unknown, then the tail is"):
        await stage.loglet().append(batch(), opens=True, expected_tail=LogletOffset(9 * SLOT))
    assert [node for node, _ in stage.asked] == [ONE, TWO]


# -- tails ------------------------------------------------------------------------------------------------------------


# -- reads ------------------------------------------------------------------------------------------------------------


# -- seal and trim ----------------------------------------------------------------------------------------------------


async def test_a_seal_finds_another_leader(stage: Stage, autojump_clock: trio.testing.MockClock) -> None:
    """The seal is done with two of three replicas."""
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
        if isinstance(request, PaxosSettle):
            known.append(request.past)
            return taken(request.past * SLOT)
        return taken(min(request.offset, known[-1] * SLOT))

    stage.script = script
    assert await stage.loglet().prefix_trim(LogletOffset(5 * SLOT - 1)) == 5 * SLOT - 1
    assert known == [4, 5]


async def test_a_trim_of_a_sealed_log_has_a_majority_behind_it(
    stage: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    """A former trim had reached one replica only: that is the trim point now, and a majority stores it."""
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
        if isinstance(request, PaxosTruncate):
            sealed.append(6)
            return SealedError("over", refused=True)
        trim = request.offset if isinstance(request, TrimSealed) else 0
        return standing(6, seal=6, trim=trim) if sealed else standing(5)

    stage.script = script
    assert await stage.loglet().prefix_trim(LogletOffset(3)) == 3
