"""The end of a striped loglet, and the state after a seal that stops half-way: stories over logs in memory."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.loglets.striped.cluster import Board, board
from tests.loglets.striped.test_appends import start
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import (
    ForbiddenError,
    ReconfigurationNeededError,
    SealedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.types import Gap, GapKind, LogletOffset, Open, PlacedBatch, Sealed
from virtuallog_loglets.striped.core.layout import offset_of
from virtuallog_loglets.striped.drivers import append_barrier

pytestmark = pytest.mark.usefixtures("autojump_clock")

ZERO = LogletOffset(0)


def land(table: Board, stripe: int, name: bytes = b"zombie") -> None:
    """An unacknowledged append takes effect, sealed or not."""
    model = table.models[stripe]
    batch = Batch.build(SessionId(name.ljust(16, b".")), 0, [b"an entry"])
    wrapped = Batch.build(batch.session, 0, [batch.blob])
    model.land(wrapped, range(model.tail, model.tail + 1))


# -- the first hole -----------------------------------------------------------------------------------------------------


async def test_the_tail_is_the_first_hole_of_all() -> None:
    """With holes on several stripes: entries behind are in no log, and no later read of the sealed
    loglet shows them."""
    async with board(3) as table:
        loglet, _ = table.client()
        await table.writer(loglet, 2).append(b"acknowledged")
        for stripe, more in ((0, 2), (2, 3)):
            for number in range(more):
                land(table, stripe, b"%d.%d" % (stripe, number))

        assert await loglet.check_tail() == Open(offset_of(4)), "stripe 1 has one place, stripe 0 three, stripe 2 four"
        await loglet.seal()
        assert await loglet.check_tail() == Sealed(offset_of(4))
        found = await loglet.read(ZERO, LogletOffset(offset_of(4)), 1 << 20)
        assert [item.batch.payloads for item in found if isinstance(item, PlacedBatch)] == [
            [b"acknowledged"], [b"an entry"],
        ]  # fmt: skip


# -- a seal of some stripes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sealed", [0, 1])
async def test_who_checks_the_tail_completes_a_seal_that_stopped_half_way(sealed: int) -> None:
    """The end is read once all stripes are sealed, and never before: the others still take appends."""
    async with board(2) as table:
        loglet, _ = table.client()
        await table.writer(loglet, 1).append(b"x")
        table.models[sealed].seal()

        assert await loglet.check_tail() == Sealed(offset_of(2))

        assert all(model.sealed for model in table.models)


async def test_an_end_that_was_read_before_all_were_sealed_does_not_count() -> None:
    """Stripe 0 is sealed, stripe 1 is read while it is open, and then takes an append that is acknowledged."""
    async with board(2) as table, trio.open_nursery() as nursery:
        (loglet, (_, way)), (writing, _) = table.client(), table.client()
        await table.writer(writing, 0, b"zero").append(b"a")
        land(table, 0)
        table.models[0].seal()
        way.hold("check_tail answer")
        check = start(nursery, loglet.check_tail)
        await wait_all_tasks_blocked()
        table.models[1].land(*_wrapped(b"one", table.models[1].tail))

        way.let_go("check_tail answer")
        await wait_all_tasks_blocked()

        assert check.outcome == Sealed(offset_of(3))


def _wrapped(name: bytes, place: int) -> tuple[Batch, range]:
    session = SessionId(name.ljust(16, b"."))
    return Batch.build(session, 0, [Batch.build(session, 0, [b"x"]).blob]), range(place, place + 1)


@pytest.mark.parametrize("own", [0, 1])
async def test_an_append_meets_a_seal_that_stopped_half_way(own: int) -> None:
    """On its own stripe, or on one below it: it fails at once, and all clients can go on from there."""
    async with board(2) as table:
        loglet, _ = table.client()
        table.models[0].seal()

        with pytest.raises(SealedError):
            await table.writer(loglet, own).append(b"x")

        assert await loglet.check_tail() == Sealed(0)


async def test_a_seal_fails_if_one_stripe_fails() -> None:
    """All of them are asked; the next client seals the rest."""
    async with board(3) as table:
        loglet, (_, broken, _) = table.client()
        broken.dead = UnavailableError("cut off")
        with pytest.raises(UnavailableError):
            await loglet.seal()
        assert [model.sealed for model in table.models] == [True, False, True]
        with pytest.raises(UnavailableError):
            await loglet.check_tail()

        broken.dead = None
        assert isinstance(await loglet.check_tail(), Sealed)


@pytest.mark.parametrize(
    ("sealed", "raised", "told"),
    [
        (False, ReconfigurationNeededError("in flight for ever"), ReconfigurationNeededError),
        (False, SealedError("dropped"), SealedError),
        (True, SealedError("dropped"), SealedError),
        (False, UnavailableError("cut off"), UnavailableError),
    ],
)
async def test_a_tail_needs_all_stripes(sealed: bool, raised: VirtualLogError, told: type[VirtualLogError]) -> None:
    """An unknown tail of one stripe leaves the tail of the loglet unknown."""
    async with board(2) as table:
        loglet, (_, other) = table.client()
        table.models[0].sealed, other.dead = sealed, raised
        with pytest.raises(told):
            await loglet.check_tail()


async def test_a_stripe_that_needs_a_successor_says_more_than_one_that_is_silent() -> None:
    """The error must ask for an extension of the chain; after a mere silence the client would ask
    again and again."""
    async with board(2) as table:
        loglet, (silent, stuck) = table.client()
        silent.dead, stuck.dead = UnavailableError("cut off"), ReconfigurationNeededError("in flight for ever")

        with pytest.raises(ReconfigurationNeededError):
            await loglet.check_tail()


async def test_a_stripe_that_was_sealed_and_tells_no_tail_is_told_of() -> None:
    """It takes the seal, and then says nothing about where it ends: the reason is its own."""
    async with board(2) as table:
        loglet, (_, other) = table.client()
        table.models[0].seal()

        def break_down(name: str) -> None:
            other.dead = UnavailableError("cut off") if name == "check_tail" else None

        other.meddle = break_down
        with pytest.raises(UnavailableError, match="cut off"):
            await loglet.check_tail()


async def test_a_client_that_may_not_seal_leaves_it_to_others() -> None:
    """As with a dropped loglet, the chain will say what follows."""
    async with board(2) as table:
        loglet, (_, other) = table.client()
        table.models[0].seal()

        async def forbidden() -> None:
            raise ForbiddenError("seal", "client", "node")

        other._loglet = type("Guarded", (), {"seal": staticmethod(forbidden), "check_tail": other._loglet.check_tail})()
        with pytest.raises(SealedError):
            await loglet.check_tail()


# -- zombies --------------------------------------------------------------------------------------------------------------


async def _acknowledged_after_the_end_was_read(table: Board) -> tuple[object, int]:
    """An append is durable on stripe 1, at slot 1, and waits for slot 0. Another client seals all, and ends the loglet at its first
    hole, slot 0. Then an append without an acknowledgement lands on stripe 0: its sealed tail grows. Then the check comes back."""
    async with trio.open_nursery() as nursery:
        (writing, (lower, _)), (sealing, _) = table.client(), table.client()
        lower.hold("check_tail")
        append = start(nursery, lambda: table.writer(writing, 1).append(b"x"))
        await wait_all_tasks_blocked()
        await sealing.seal()
        stop = (await sealing.check_tail()).tail
        land(table, 0)
        lower.let_go("check_tail")
        await wait_all_tasks_blocked()
    return append.outcome, stop


async def test_a_sealed_tail_is_no_evidence() -> None:
    """It has grown since another client took the end of the log from it: the append lies behind,
    and is no part of the log."""
    async with board(2) as table:
        outcome, stop = await _acknowledged_after_the_end_was_read(table)
        assert stop == 0
        assert isinstance(outcome, SealedError)


async def test_by_the_published_rule_an_acknowledged_entry_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the tails of sealed stripes count (specs: Delos, section 6: "recompute tail from all sealed stripes; L < tail ->
    acknowledge"). The append is acknowledged at slot 1, in a log that ends at slot 0."""
    monkeypatch.setattr(append_barrier, "Sealed", type(None))
    async with board(2) as table:
        outcome, stop = await _acknowledged_after_the_end_was_read(table)
        assert outcome == range(offset_of(1), offset_of(1) + 1)
        assert outcome.start >= stop


async def test_an_open_tail_is_evidence_however_late_it_comes() -> None:
    """It was read before any seal of its stripe was complete, so a sealing client reads at least as much."""
    async with board(2) as table, trio.open_nursery() as nursery:
        (writing, (lower, _)), (sealing, _) = table.client(), table.client()
        land(table, 0)
        lower.hold("check_tail answer")
        append = start(nursery, lambda: table.writer(writing, 1).append(b"x"))
        await wait_all_tasks_blocked()
        await sealing.seal()
        stop = (await sealing.check_tail()).tail
        lower.let_go("check_tail answer")
        await wait_all_tasks_blocked()

    assert append.outcome == range(offset_of(1), offset_of(1) + 1)
    assert append.outcome.start < stop


# -- waiting for news -------------------------------------------------------------------------------------------------------


async def test_waiting_parks_at_the_stripe_of_the_first_hole() -> None:
    """Elsewhere the tail cannot begin to move."""
    async with board(3) as table, trio.open_nursery() as nursery:
        (reading, ways), (writing, _) = table.client(), table.client()
        await table.writer(writing, 0).append(b"x")
        waiter = start(nursery, lambda: reading.wait_tail(ZERO))
        await wait_all_tasks_blocked()
        assert waiter.outcome == Open(offset_of(1))

        again = start(nursery, lambda: reading.wait_tail(LogletOffset(offset_of(1))))
        await wait_all_tasks_blocked()
        assert [way.asked.count("wait_tail") for way in ways] == [1, 1, 0]
        await table.writer(writing, 1, b"other").append(b"y")
        await wait_all_tasks_blocked()
        assert again.outcome == Open(offset_of(2))


# -- reading ----------------------------------------------------------------------------------------------------------------


async def test_gaps_that_touch_are_one() -> None:
    """The common trimmed part of all stripes is one gap, however long; behind it each slot is read."""
    async with board(2) as table:
        loglet, _ = table.client()
        writer = table.writer(loglet, 1)
        for _ in range(50):
            await writer.append(b"x")
        assert await loglet.prefix_trim(LogletOffset(offset_of(95) + 7)) == offset_of(95), "whole batches only"

        trimmed, *rest = await loglet.read(ZERO, LogletOffset(offset_of(100)), 1 << 20)

        assert trimmed == Gap(0, offset_of(95), GapKind.TRIMMED)
        assert sum(isinstance(item, PlacedBatch) for item in rest) == 3


async def test_a_stripe_that_is_trimmed_further_than_the_others_shows_gaps_between_entries() -> None:
    """Another client's trim has reached only one stripe. It is in force once it has reached all."""
    async with board(2) as table:
        loglet, _ = table.client()
        writers = [table.writer(loglet, stripe) for stripe in (0, 1)]
        for number in range(6):
            await writers[number % 2].append(b"%d" % number)
        table.models[0].prefix_trim(2)

        found = await loglet.read(ZERO, LogletOffset(offset_of(6)), 1 << 20)

        kinds = [item.kind.name if isinstance(item, Gap) else item.batch.payloads[0].decode() for item in found]
        assert kinds == ["TRIMMED", "1", "FILLER", "TRIMMED", "3", "FILLER", "4", "FILLER", "5", "FILLER"]
        assert await loglet.prefix_trim(ZERO) == offset_of(1)


async def test_a_trim_to_behind_the_last_entry_keeps_its_slot_and_one_to_the_tail_does_not() -> None:
    """The offsets up to the next slot belong to the batch: a trim names the first wanted entry, or
    the tail if no entry is wanted."""
    async with board(2) as table:
        loglet, _ = table.client()
        places = await table.writer(loglet, 0).append(b"a", b"b")

        assert await loglet.prefix_trim(LogletOffset(places.stop)) == ZERO
        assert await loglet.prefix_trim(LogletOffset((await loglet.check_tail()).tail)) == offset_of(1)


async def test_a_result_ends_where_the_first_stripe_ends() -> None:
    """Each gives as much as its share of the limit; the entries of one are larger. The first reads are of one slot, as batches might be large."""
    async with board(2) as table:
        loglet, _ = table.client()
        large, small = table.writer(loglet, 0), table.writer(loglet, 1)
        for _ in range(5):
            await large.append(bytes(1000))
            await small.append(b"s")

        at, reads = 0, 0
        while at < offset_of(10):
            found = await loglet.read(LogletOffset(at), LogletOffset(offset_of(10)), 2500)
            assert found[0].start == at
            at, reads = found[-1].stop, reads + 1

        assert reads == 5 + 3
