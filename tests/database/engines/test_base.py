"""The base engine: delos.md section 11, cases 52 to 56, and what the log can do to it."""

from __future__ import annotations

import random

import attrs
import pytest
import trio
from crc32c import crc32c
from trio.testing import MockClock

from tests.database.engines.world import SETTINGS, ListApplication, Running, caught_up, only_base, replicas
from virtuallog.contract.errors import StorageError, TooLargeError, UnavailableError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.base.base_engine import BaseEngine
from virtuallog_database.engines.brain_doctor import BrainDoctorEngine
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.keys import read_cursor
from virtuallog_database.engines.layers.contract import FailedApply
from virtuallog_database.engines.layers.layer import Layer
from virtuallog_database.errors import BinaryTooOldError, SnapshotNeededError


async def wait_until(condition: object) -> None:
    while not condition():  # type: ignore[operator]
        await trio.sleep(0.01)


async def test_a_proposal_is_told_what_apply_returned_here(autojump_clock: MockClock) -> None:
    """Entries come into the store in the order of the log, at their proposer and elsewhere."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=only_base), await r.start(2, recipe=only_base)

        assert [await one.propose(b"a"), await two.propose(b"b"), await one.propose(b"c")] == [0, 1, 2]
        await caught_up(one, two)
        assert one.application.items == two.application.items == [b"a", b"b", b"c"]
        assert one.application.seen == [(0, b"a"), (1, b"b"), (2, b"c")]


async def test_heavy_entries_do_not_share_a_transaction(autojump_clock: MockClock) -> None:
    """Others have their turn between them; nothing is left out, or applied twice."""
    settings = attrs.evolve(SETTINGS, base=attrs.evolve(SETTINGS.base, transaction_operations=150))
    async with replicas() as r:
        one = await r.start(1, recipe=only_base)
        payloads = [b"heavy %d" % number for number in range(10)] + [b"%d" % number for number in range(60)]
        for payload in payloads:
            await one.propose(payload)
        two = await r.start(2, recipe=only_base, settings=settings)
        await caught_up(two)

        assert two.application.items == payloads
        assert [payload for _, payload in two.application.seen] == payloads
        base = two.replica.stack.find(BaseEngine)
        assert base is not None
        assert sum(base.meter.transaction_entries.distribution().counts) == 6


class Turns(trio.abc.Instrument):
    """Bounds the work between two turns of the event loop."""

    def __init__(self, application: ListApplication) -> None:
        self.most, self._application, self._seen = 0, application, 0

    def before_io_wait(self, timeout: float) -> None:
        seen = len(self._application.seen)
        self.most, self._seen = max(self.most, seen - self._seen), seen


async def test_heavy_entries_that_are_acknowledged_together_are_applied_in_turns(autojump_clock: MockClock) -> None:
    """Heavy entries are applied in turns, also where each is applied in the callback of its acknowledgement."""
    settings = attrs.evolve(SETTINGS, base=attrs.evolve(SETTINGS.base, transaction_operations=150))
    async with replicas() as r:
        one = await r.start(1, recipe=only_base, settings=settings)
        turns, told = Turns(one.application), list[object]()
        trio.lowlevel.add_instrument(turns)
        payloads = [b"heavy %d" % number for number in range(20)]
        for payload in payloads:
            one.replica.propose(payload, told.append)
        await wait_until(lambda: len(told) == 20)
        trio.lowlevel.remove_instrument(turns)

        assert told == list(range(20))
        assert one.application.items == payloads
        assert turns.most == 2


async def test_an_own_entry_that_is_next_is_not_read(autojump_clock: MockClock) -> None:
    """A replica that is alone applies what it has in memory."""
    async with replicas() as r:
        one = await r.start(recipe=only_base)
        for number in range(20):
            await one.propose(b"%d" % number)

        assert r.provider.reads == 0
        assert len(one.application.items) == 20


async def test_a_replica_waits_for_a_disk_that_is_behind(autojump_clock: MockClock) -> None:
    """Own entries and those of others are left in the log until then: one write more could hold up the whole event loop."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=only_base), await r.start(2, recipe=only_base)
        one.disk.is_behind = True
        r.nursery.start_soon(one.propose, b"a")
        assert await two.propose(b"b") in {0, 1}
        await trio.sleep(5)
        assert one.disk.writes == 0 and len(two.application.items) == 2

        one.disk.is_behind = False
        await caught_up(one, two)
        assert one.application.items == two.application.items


async def test_entries_of_others_reach_a_replica_at_which_nobody_waits(autojump_clock: MockClock) -> None:
    """The base plays by itself, so that watches fire there."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=only_base), await r.start(2, recipe=only_base)
        await one.propose(b"a")

        await wait_until(lambda: two.application.items)
        assert two.application.seen == [(0, b"a")]


async def test_entries_that_come_one_by_one_reach_other_replicas_at_once(autojump_clock: MockClock) -> None:
    """40 a second, for long: when a proposer has its answer, a read elsewhere finds the entry a moment later."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=only_base), await r.start(2, recipe=only_base)
        for number in range(200):
            await trio.sleep(0.025)
            await one.propose(b"%d" % number)
            await trio.sleep(0.0005)
            assert len(two.application.seen) == number + 1


async def test_a_stream_of_entries_is_followed_in_few_looks(autojump_clock: MockClock) -> None:
    """A proposal each 2 ms costs the other replica some looks at first, then one in 25 ms, each with many entries."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=only_base), await r.start(2, recipe=only_base)
        for number in range(1000):
            await trio.sleep(0.002)
            await one.propose(b"%d" % number)
        await caught_up(one, two)

        assert r.provider.reads < 32 + 1000 * 0.002 / 0.025 + 10


async def test_a_crash_between_commit_and_flush_is_played_again(autojump_clock: MockClock) -> None:
    """Case 52: the cursor falls back with the effects, and the log brings both back."""
    async with replicas() as r:
        one = await r.start(recipe=only_base)
        for number in range(10):
            await one.propose(b"%d" % number)
        await one.replica._base.context.store.flush()
        for number in range(10, 30):
            await one.propose(b"%d" % number)
        await one.crash(random.Random(3))

        assert 10 <= read_cursor(one.disk.content) < 30, "this seed loses something, and nothing that was flushed"
        again = await r.start(disk=one.disk, recipe=only_base)
        await caught_up(again)
        assert again.application.items == [b"%d" % number for number in range(30)]


async def test_a_deterministic_error_takes_back_what_the_upper_layer_wrote(autojump_clock: MockClock) -> None:
    """Cases 53 and 54: the proposer gets the error, play goes on, and `post_apply` is not called
    where `apply` failed."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=only_base), await r.start(2, recipe=only_base)
        with pytest.raises(ValueError, match="refuse"):
            await one.propose(b"refuse this")
        assert await one.propose(b"a") == 0

        await caught_up(one, two)
        assert one.application.items == two.application.items == [b"a"]
        assert one.application.seen == two.application.seen == [(1, b"a")]
        assert one.replica.cursor == 2, "the base has passed it"


async def test_the_error_of_one_layer_does_not_undo_the_layers_below(autojump_clock: MockClock) -> None:
    """Case 53: what the lower engine wrote for the entry stays, and its own `post_apply` is called."""

    class Counting(Layer):
        name = "counting"

        def apply(self, transaction, entry, position):  # type: ignore[no-untyped-def]
            transaction.put(b"\0counting", b"%d" % position)
            return self.apply_above(transaction, entry, position)

        def post_apply(self, entry, position, result):  # type: ignore[no-untyped-def]
            told.append(type(result))
            self.post_apply_above(entry, position, result)

    told: list[type] = []
    async with replicas() as r:
        one = await r.start(recipe=lambda context, _: [Counting(context)])
        with pytest.raises(ValueError, match="refuse"):
            await one.propose(b"refuse")

        assert one.disk.content.get(b"\0counting") == b"0"
        assert told == [FailedApply]
        assert one.application.seen == []


async def test_an_error_of_this_disk_stops_the_replica_and_nothing_of_it_is_in_the_store(
    autojump_clock: MockClock,
) -> None:
    """Case 53: the error is no function of the log. All pending proposals end with an unknown
    outcome."""
    async with replicas() as r:
        one = await r.start(recipe=only_base)
        await one.propose(b"a")
        with pytest.raises(UnavailableError, match="disk of this replica"):
            await one.propose(b"disk")
        await one.ended.wait()

        assert isinstance(one.failure, StorageError)
        assert one.application.items == [b"a"]
        assert one.replica.cursor == 1
        with pytest.raises(UnavailableError, match="nothing was done"):
            await one.propose(b"later")


async def test_syncs_share_a_tail_check_unless_it_was_sent_before_them(autojump_clock: MockClock) -> None:
    """Case 55: what a check says holds for those who asked before it was sent."""
    async with replicas() as r:
        one = await r.start(recipe=only_base)
        r.provider.tail_seconds = 1.0
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(one.replica.sync)
            await trio.sleep(0.5)
            before = r.provider.tail_checks
            for _ in range(10):
                nursery.start_soon(one.replica.sync)
            await trio.sleep(0.1)
            assert (before, r.provider.tail_checks) == (1, 1), "the later ones wait for another check"

        assert r.provider.tail_checks == 2


async def test_a_sync_sees_what_was_completed_elsewhere_before_it(autojump_clock: MockClock) -> None:
    """A sync sees earlier writes also at a replica that hears nothing of the log by itself, while others write on."""
    async with replicas() as r:
        r.provider.secretive = True
        one, two = await r.start(1, recipe=only_base), await r.start(2, recipe=only_base)
        for number in range(5):
            await one.propose(b"%d" % number)
            assert len(two.application.items) == number
            await two.replica.sync()
            assert len(two.application.items) == number + 1


async def test_the_log_is_trimmed_to_the_least_that_any_layer_allows(autojump_clock: MockClock) -> None:
    """Case 56: each layer hands down the minimum of its own opinion and the one above."""

    class Cautious(Layer):
        name = "cautious"

        def set_trim_prefix(self, position: LogPosition) -> None:
            self.below.set_trim_prefix(min(position, LogPosition(4)))

    async with replicas() as r:
        one = await r.start(recipe=lambda context, _: [Cautious(context)])
        for number in range(10):
            await one.propose(b"%d" % number)
        one.replica.set_trim_prefix(LogPosition(3))
        await wait_until(lambda: r.provider.trims)
        one.replica.set_trim_prefix(LogPosition(7))
        await wait_until(lambda: len(r.provider.trims) > 1)

        assert r.provider.trims == [3, 4]


async def test_a_replica_behind_the_trim_point_asks_for_a_snapshot(autojump_clock: MockClock) -> None:
    """It cannot play on, says from where on the log is there, and has changed nothing."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=only_base), await r.start(2, recipe=only_base)
        await one.propose(b"a")
        await caught_up(two)
        await two.crash()
        for number in range(5):
            await one.propose(b"%d" % number)
        await one.log.prefix_trim(LogPosition(4))

        again = await r.start(2, disk=two.disk, recipe=only_base)
        await again.ended.wait()
        assert isinstance(again.failure, SnapshotNeededError)
        assert (again.failure.cursor, again.failure.first) == (1, 4)
        assert again.application.items == [b"a"]


async def test_entries_of_strangers_are_passed_over_by_all(autojump_clock: MockClock) -> None:
    """An entry appended by hand stops no replica, and the list has only proposed items."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=only_base), await r.start(2, recipe=only_base)
        await one.propose(b"a")
        broken = Entry(b"x").encode()[:3] + b"\xff" * 20
        for stray in (
            b"",
            b"hello",
            b"VE\x01",
            b"VE\x00\x00",
            broken,
            b"VE\x02\x00 and more",
            Entry(b"forged").encode(),
        ):
            await one.log.append(stray)
        await two.propose(b"b")
        await caught_up(one, two)

        assert one.application.items == two.application.items == [b"a", b"b"]


async def test_an_entry_of_a_later_version_stops_the_replica(autojump_clock: MockClock) -> None:
    """Others may know what it means: to pass it over would be to differ from them."""
    async with replicas() as r:
        one = await r.start(recipe=only_base)
        later = b"VE\x02\x00whatever"
        await one.log.append(later + crc32c(later).to_bytes(4, "little"))
        await one.ended.wait()

        assert isinstance(one.failure, BinaryTooOldError)


@pytest.mark.parametrize("kind", ["memory", "sparse"])
async def test_play_goes_on_across_swaps_of_the_log(kind: str, autojump_clock: MockClock) -> None:
    """Play goes on in the next loglet, also in one whose positions have gaps."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=only_base), await r.start(2, recipe=only_base)
        for number in range(6):
            await one.log.reconfig_extend(kind)
            await one.propose(b"one %d" % number)
            await two.propose(b"two %d" % number)
        await caught_up(one, two)

        assert one.application.items == two.application.items
        assert len(one.application.items) == 12


async def test_an_entry_that_is_read_before_its_acknowledgement_comes_is_completed_once(
    autojump_clock: MockClock,
) -> None:
    """Another replica's proposal makes it known; the proposer hears of it when it is applied."""
    async with replicas() as r:
        one = await r.start(1, recipe=only_base)
        await one.propose(b"first")
        r.provider.slow = True
        assert await one.propose(b"a") == 1, "told although the acknowledgement is held up"
        r.provider.slow = False
        assert await one.propose(b"b") == 2
        assert one.application.items == [b"first", b"a", b"b"]


async def test_what_is_too_large_for_the_log_is_refused(autojump_clock: MockClock) -> None:
    """A definite answer, and the next proposal goes through."""
    async with replicas() as r:
        one = await r.start(recipe=only_base)
        with pytest.raises(TooLargeError):
            await one.propose(bytes(5 << 20))

        assert await one.propose(b"a") == 0


async def test_those_who_wait_when_a_replica_ends_are_told(autojump_clock: MockClock) -> None:
    """In the order in which they asked: proposals are unknown, a sync is unavailable."""
    async with replicas() as r:
        one = await r.start()
        await one.propose(b"a")
        r.provider.deaf, r.provider.tail_seconds = True, 100.0
        told: list[object] = []
        for number in range(5):
            one.replica.propose(b"%d" % number, lambda outcome, number=number: told.append((number, type(outcome))))  # type: ignore[misc]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_expect_unavailable, one)
            await trio.sleep(0.1)
            one.scope.cancel()

        assert told == [(number, UnavailableError) for number in range(5)]


async def _expect_unavailable(running: Running) -> None:
    with pytest.raises(UnavailableError):
        await running.replica.sync()


async def test_raw_writes_reach_every_replica_at_the_same_place(autojump_clock: MockClock) -> None:
    """The brain doctor puts and deletes the given keys, except the cursor; then soft state is
    reloaded."""
    async with replicas() as r:
        one, two = await r.start(1), await r.start(2)
        await one.propose(b"a")
        key = b"item/" + bytes(8)
        doctor = one.replica.stack.find(BrainDoctorEngine)
        assert doctor is not None
        done = trio.Event()
        doctor.operate({key: b"mended", b"other": b"x", b"gone": None}, lambda _: done.set())
        await done.wait()
        await caught_up(two)

        for running in (one, two):
            assert running.disk.content.get(key) == b"mended"
            assert running.application.loads == 2
        assert await two.propose(b"b") == 1


async def test_an_engine_that_runs_into_an_error_stops_the_replica(autojump_clock: MockClock) -> None:
    """An error of its background work is not swallowed."""

    class Broken(Layer):
        name = "broken"

        async def run(self) -> None:
            raise StorageError("elsewhere")

    async with replicas() as r:
        one = await r.start(recipe=lambda context, _: [Broken(context)])
        await one.ended.wait()

        assert str(one.failure) == "elsewhere"
