"""When a striped loglet acknowledges, and what it does about stripes that lag: stories over logs in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.loglets.striped.cluster import Board, Stripe, board
from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import (
    OutOfOrderError,
    ReconfigurationNeededError,
    SealedError,
    TooLargeError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
)
from virtuallog.contract.types import LogletOffset, Open
from virtuallog_loglets.striped.core.layout import offset_of

pytestmark = pytest.mark.usefixtures("autojump_clock")


@attrs.define
class Call:
    """An append that runs beside the test."""

    outcome: Any = None
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    async def run(self, call: Callable[[], Awaitable[Any]]) -> None:
        with self.scope:
            try:
                self.outcome = await call()
            except VirtualLogError as error:
                self.outcome = error


def start(nursery: trio.Nursery, call: Callable[[], Awaitable[Any]]) -> Call:
    running = Call()
    nursery.start_soon(running.run, call)
    return running


def count(stripe: Stripe, what: str) -> int:
    return stripe.asked.count(what)


# -- idle stripes -----------------------------------------------------------------------------------------------------


async def test_a_lone_append_is_acknowledged_though_the_other_stripes_are_idle() -> None:
    """Without fillers it would wait for ever: there is no other append (specs: Delos, section 6,
    "idle-stripe stall")."""
    async with board(3) as table:
        loglet, _ = table.client()

        places = await table.writer(loglet, 2).append(b"a", b"b")

        assert places == range(offset_of(2), offset_of(2) + 2)
        assert [model.tail for model in table.models] == [1, 1, 1]
        assert await loglet.check_tail() == Open(offset_of(3))


async def test_the_first_stripe_waits_for_none() -> None:
    """Below slot 0 there is nothing: no filler, no question."""
    async with board(2) as table:
        loglet, (_, other) = table.client()

        await table.writer(loglet, 0).append(b"a")

        assert other.asked == []


async def test_once_a_stripe_is_known_to_be_idle_its_filler_leaves_with_the_append() -> None:
    """A lone append takes no longer than on a single loglet: its filler and its own calls run at the same time."""
    async with board(2) as table, trio.open_nursery() as nursery:
        loglet, (idle, used) = table.client()
        writer = table.writer(loglet, 1)
        await writer.append(b"looks first")
        used.hold("append")
        looks = count(idle, "check_tail")

        call = start(nursery, lambda: writer.append(b"again"))
        await wait_all_tasks_blocked()

        assert table.models[0].tail == 2, "filled before the append has arrived"
        used.let_go("append")
        await wait_all_tasks_blocked()
        assert call.outcome == range(offset_of(3), offset_of(3) + 1)
        assert count(idle, "check_tail") == looks


async def test_own_appends_fill_the_stripes_for_each_other() -> None:
    """With sessions on every stripe no client has to check a tail or to fill."""
    async with board(2) as table, trio.open_nursery() as nursery:
        loglet, stripes = table.client()
        writers = [table.writer(loglet, number) for number in (0, 1)]

        calls = [start(nursery, lambda writer=writer: writer.append(b"x")) for writer in writers]  # type: ignore[misc]
        await wait_all_tasks_blocked()

        assert [call.outcome.start for call in calls] == [0, offset_of(1)]
        assert not any(count(stripe, "fill") + count(stripe, "check_tail") for stripe in stripes)


async def test_others_are_let_fill_the_stripe_first() -> None:
    """A client that finds the stripe written by another client adds nothing."""
    async with board(2) as table:
        (one, _), (other, ways) = table.client(), table.client()
        writer = table.writer(one, 0, b"one")
        for _ in range(3):
            await writer.append(b"x")

        await table.writer(other, 1, b"other").append(b"y")

        assert table.models[0].tail == 3
        assert count(ways[0], "fill") == 0


async def test_of_many_who_see_a_hole_one_fills_it() -> None:
    """A filler is on condition of the tail. What is filled twice, the other stripes would have to be filled up to."""
    async with board(2) as table, trio.open_nursery() as nursery:
        clients = [table.client() for _ in range(5)]
        for _, (idle, _) in clients:
            idle.hold("fill")
        calls = [
            start(nursery, lambda n=n, loglet=loglet: table.writer(loglet, 1, b"%d" % n).append(b"x"))  # type: ignore[misc]
            for n, (loglet, _) in enumerate(clients)
        ]
        await wait_all_tasks_blocked()

        for _, (idle, _) in clients:
            idle.let_go("fill")
        await trio.testing.wait_all_tasks_blocked(0.1)

        assert all(isinstance(call.outcome, range) for call in calls), calls
        assert [model.tail for model in table.models] == [5, 5]


async def test_a_filler_brings_the_stripe_up_to_all_that_others_wait_for() -> None:
    """One is enough for those who came meanwhile, too: as far as the farthest stripe."""
    async with board(2) as table, trio.open_nursery() as nursery:
        loglet, (idle, _) = table.client()
        idle.hold("check_tail")
        calls = [start(nursery, lambda n=n: table.writer(loglet, 1, b"%d" % n).append(b"x")) for n in range(20)]  # type: ignore[misc]
        await wait_all_tasks_blocked()

        idle.let_go("check_tail")
        await wait_all_tasks_blocked()

        assert all(isinstance(call.outcome, range) for call in calls)
        assert count(idle, "check_tail") == 1, "shared by all who wait"
        assert count(idle, "fill") == 1


async def test_a_stripe_where_others_are_always_first_is_filled_without_a_condition() -> None:
    """Every filler meets another tail than it expects: another client appends one entry at a time,
    and there is much to fill."""
    async with board(2) as table:
        loglet, (idle, _) = table.client()
        rival, model, far = table.writer(loglet, 0, b"rival"), table.models[0], table.models[1]
        for number in range(40):
            far.land(Batch.build(rival.session, number, [b"far"]), range(number, number + 1))
        first = 6

        def be_first(name: str) -> None:
            nonlocal first
            if name == "fill" and first:
                first -= 1
                model.append(rival.batch(b"first"), opens=model.tail == 0)

        idle.meddle = be_first
        places = await table.writer(loglet, 1, b"late").append(b"y")

        assert places.start == offset_of(81)
        assert model.tail == 6 + 41, (
            "the last filler did not ask whether it was the first, and was what had been refused"
        )


# -- order ------------------------------------------------------------------------------------------------------------


async def test_nothing_is_acknowledged_above_a_hole() -> None:
    """An append that begins after another one was acknowledged must get a higher place. With a hole below the first, the
    second could get that."""
    async with board(2) as table, trio.open_nursery() as nursery:
        (early, (idle, _)), (late, _) = table.client(), table.client()
        idle.hold("fill", "check_tail")

        above = start(nursery, lambda: table.writer(early, 1, b"early").append(b"x"))
        await wait_all_tasks_blocked()
        assert table.models[1].tail == 1, "it is durable"
        assert above.outcome is None, "and above slot 0, which no batch has filled"

        below = await table.writer(late, 0, b"late").append(b"y")
        assert below.start == 0
        idle.let_go("check_tail")
        await wait_all_tasks_blocked()
        assert above.outcome == range(offset_of(1), offset_of(1) + 1)


async def test_a_caller_who_goes_away_leaves_nobody_behind() -> None:
    """The check that its append caused serves the others; its slot is filled all the same."""
    async with board(2) as table, trio.open_nursery() as nursery:
        loglet, (idle, _) = table.client()
        idle.hold("check_tail")
        first, second = (
            start(nursery, lambda name=name: table.writer(loglet, 1, name).append(b"x"))  # type: ignore[misc]
            for name in (b"first", b"second")
        )
        await wait_all_tasks_blocked()

        first.scope.cancel()
        await wait_all_tasks_blocked()
        idle.let_go("check_tail")
        await wait_all_tasks_blocked()

        assert first.outcome is None
        assert isinstance(second.outcome, range)
        assert count(idle, "check_tail") == 1


async def test_who_waits_is_told_when_the_client_ends() -> None:
    """The fill tasks belong to the client's nursery. Without them the waiting appends would never wake."""
    async with trio.open_nursery() as nursery:
        async with board(2) as table:
            loglet, (idle, _) = table.client()
            idle.hold("check_tail")
            call = start(nursery, lambda: table.writer(loglet, 1).append(b"x"))
            await wait_all_tasks_blocked()

        await wait_all_tasks_blocked()
        assert isinstance(call.outcome, UnavailableError)


# -- stripes that take no more ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [SealedError("sealed", refused=True), ReconfigurationNeededError("its sequencer died")]
)
async def test_who_waits_for_a_stripe_that_takes_no_more_is_told_at_once(error: VirtualLogError) -> None:
    """A filler is refused. The append is durable on its own stripe, so it is a maybe, for any error
    of the filler."""
    async with board(2) as table:
        loglet, (idle, _) = table.client()
        idle.dead = error

        with pytest.raises(type(error)) as told:
            await table.writer(loglet, 1).append(b"x")

        assert not getattr(told.value, "refused", False)


async def test_who_waits_is_told_when_another_append_meets_the_seal() -> None:
    """Before any check has seen it: no stripe can do without the others."""
    async with board(2) as table, trio.open_nursery() as nursery:
        loglet, (lower, _) = table.client()
        lower.hold("check_tail")
        waiting = start(nursery, lambda: table.writer(loglet, 1).append(b"x"))
        await wait_all_tasks_blocked()
        table.models[0].seal()

        with pytest.raises(SealedError):
            await table.writer(loglet, 0, b"other").append(b"y")
        await wait_all_tasks_blocked()

        assert isinstance(waiting.outcome, SealedError)
        assert not waiting.outcome.refused


async def test_a_stripe_that_does_not_answer_makes_appends_unavailable() -> None:
    """They may be offered again, and get the place they have."""
    async with board(2) as table:
        loglet, (idle, _) = table.client()
        writer = table.writer(loglet, 1)
        batch = writer.batch(b"x")
        idle.dead = UnavailableError("cut off")
        with pytest.raises(UnavailableError):
            await loglet.append(batch, opens=True)

        idle.dead = None
        assert await loglet.append(batch, opens=True) == range(offset_of(1), offset_of(1) + 1)


async def test_a_filler_that_is_never_answered_is_given_up() -> None:
    """Its call is lost. Another one fills the hole in time, in a session of its own: padding may be there twice."""
    async with board(2) as table, trio.open_nursery() as nursery:
        loglet, (idle, _) = table.client()
        idle.hold("fill")
        call = start(nursery, lambda: table.writer(loglet, 1).append(b"x"))
        await wait_all_tasks_blocked()
        idle.gates.clear()

        await wait_all_tasks_blocked(1.0)

        assert isinstance(call.outcome, range)
        assert count(idle, "fill") == 2


async def test_a_filler_that_came_before_its_turn_is_offered_anew() -> None:
    """It counted on an append of ours, which it overtook. What was refused stays refused, also once the tail is what it expects, so the same
    filler again would be refused until one asks for no tail."""
    async with board(2) as table, trio.open_nursery() as nursery:
        loglet, (near, _) = table.client()
        far = table.writer(loglet, 1, b"far")
        await far.append(b"the other stripe is calm from now on")
        near.hold("append")

        def let_it_arrive(name: str) -> None:
            if name == "check_tail" and near.gates:
                near.let_go("append")

        near.meddle = let_it_arrive
        calls = [start(nursery, lambda: table.writer(loglet, 0, b"near").append(b"overtaken"))]
        await wait_all_tasks_blocked()
        for _ in range(2):
            calls.append(start(nursery, lambda: far.append(b"x")))
            await wait_all_tasks_blocked()
        await wait_all_tasks_blocked(0.1)

        assert all(isinstance(call.outcome, range) for call in calls)
        assert [model.tail for model in table.models] == [3, 3]
        assert count(near, "fill") <= 1 + 2


@pytest.mark.parametrize("error", [OutOfOrderError(7), ReconfigurationNeededError("forgotten")])
async def test_a_filler_session_in_trouble_is_replaced(error: VirtualLogError) -> None:
    """It is not worth a reconfiguration: only if a session that has just begun is refused, the stripe is at its end."""
    async with board(2) as table:
        loglet, (idle, _) = table.client()
        writer = table.writer(loglet, 1)
        await writer.append(b"x")
        honest = idle._loglet.append

        async def refuse_once(batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
            if opens:
                return await honest(batch, opens=opens, expected_tail=expected_tail)
            raise error

        idle._loglet = type(
            "Refusing", (), {"append": staticmethod(refuse_once), "check_tail": idle._loglet.check_tail}
        )()
        assert (await writer.append(b"y")).start == offset_of(3)


# -- what it refuses, and how batches are numbered ----------------------------------------------------------------------


async def test_conditional_appends_are_refused() -> None:
    """No single place knows where the loglet ends."""
    async with board(2) as table:
        loglet, stripes = table.client()
        with pytest.raises(UnsupportedError):
            await loglet.append(table.writer(loglet, 0).batch(b"x"), opens=True, expected_tail=LogletOffset(0))
        assert not any(stripe.asked for stripe in stripes)


async def test_a_batch_that_does_not_fit_with_its_wrapping_is_refused() -> None:
    """A batch as large as batches may be is too large for an entry; appenders leave room for it."""
    async with board(2) as table:
        loglet, _ = table.client()
        writer = table.writer(loglet, 0)
        with pytest.raises(TooLargeError):
            await loglet.append(writer.batch(bytes(4 << 20), bytes((4 << 20) - 60)), opens=True)
        writer.next_sequence = 0
        assert await writer.append(b"fits") == range(1)


async def _two_clients_of_a_session(table: Board) -> tuple[Any, Any]:
    first, second = table.client()[0], table.client()[0]
    writer = table.writer(first, 0)
    await writer.append(b"opens")
    await writer.append(b"second")
    writer.loglet = second
    return writer, second


async def test_a_client_that_does_not_know_a_session_guesses_nothing() -> None:
    """Only the client through which a batch came knows its number on the stripe."""
    async with board(2) as table:
        writer, _ = await _two_clients_of_a_session(table)
        with pytest.raises(OutOfOrderError):
            await writer.append(b"third")
        assert table.models[0].tail == 2
