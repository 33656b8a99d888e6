"""Group commit: delos.md section 11, case 60."""

from __future__ import annotations

import struct
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.database.engines.world import SETTINGS, Running, caught_up, replicas
from virtuallog.contract.errors import InvalidSettingError, TooLargeError, UnavailableError
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog_database.engines.batching import BatchingEngine, BatchingSettings
from virtuallog_database.engines.core.entry import PROPOSER, TOKEN_BYTES, Entry, HeavyEntry, parse_untrusted
from virtuallog_database.engines.layers.layer import Layer, LayerContext
from virtuallog_database.engines.stack import StackSettings


def batched(context: LayerContext, settings: StackSettings) -> list[Layer]:
    """The application on Batching on the base."""
    return [BatchingEngine(context, settings.batching)]


def small(**limits: int) -> StackSettings:
    return StackSettings(base=SETTINGS.base, batching=BatchingSettings(**limits))


async def propose_all(running: Running, payloads: list[bytes]) -> list[Any]:
    """Propose all in one turn; what each was told."""
    told: dict[int, Any] = {}
    finished = trio.Event()

    def note(number: int, outcome: Any) -> None:
        assert number not in told, "told once"
        told[number] = outcome
        if len(told) == len(payloads):
            finished.set()

    for number, payload in enumerate(payloads):
        running.replica.propose(payload, lambda outcome, number=number: note(number, outcome))  # type: ignore[misc]
    await finished.wait()
    return [told[number] for number in range(len(payloads))]


async def entries_of(running: Running) -> list[Entry]:
    """Entries in the log."""
    tail = LogPosition((await running.log.check_tail()).tail)
    found = await running.log.read(LogPosition(0), tail, 8 << 20)
    return [parse_untrusted(data.payload) for each in found if isinstance(each, PlacedBatch) for data in each.records()]


async def test_commands_of_one_turn_share_entries_and_each_hears_its_own_result(autojump_clock: MockClock) -> None:
    """The first one is alone and leaves at once; the crowd behind it is one group."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=batched), await r.start(2, recipe=batched)
        payloads = [b"%d" % number for number in range(100)]
        assert await propose_all(one, payloads) == list(range(100))
        await caught_up(two)

        assert len(await entries_of(one)) <= 3
        assert one.application.items == two.application.items == payloads
        assert [payload for _, payload in two.application.seen] == payloads


async def test_a_command_that_fails_takes_back_what_it_did_alone(autojump_clock: MockClock) -> None:
    """Partial failure: in the middle of a group one proposer gets its error, the others their
    results."""
    async with replicas() as r:
        one, two = await r.start(1, recipe=batched), await r.start(2, recipe=batched)
        told = await propose_all(one, [b"a", b"b", b"refuse 1", b"c", b"refuse 2", b"d"])
        await caught_up(two)

        assert [str(each) for each in told] == ["0", "1", "b'refuse 1'", "2", "b'refuse 2'", "3"]
        assert one.application.items == two.application.items == [b"a", b"b", b"c", b"d"]
        assert [payload for _, payload in two.application.seen] == [b"a", b"b", b"c", b"d"]


async def test_a_group_of_unknown_outcome_is_unknown_to_each_member(autojump_clock: MockClock) -> None:
    """All proposers get the error, in order, and the next command goes through."""
    async with replicas() as r:
        one = await r.start(recipe=batched)
        r.provider.deaf = True
        told = await propose_all(one, [b"%d" % number for number in range(50)])
        assert {type(outcome) for outcome in told} == {UnavailableError}
        r.provider.deaf = False

        assert await one.propose(b"next") == 0


async def test_groups_are_bounded_and_keep_their_order(autojump_clock: MockClock) -> None:
    """By bytes and by number; one that is larger than a group goes alone."""
    async with replicas() as r:
        one = await r.start(recipe=batched, settings=small(group_bytes=100, group_commands=7, window=2))
        payloads = [b"%02d" % number + bytes(20 * (number % 10)) for number in range(60)]
        assert await propose_all(one, payloads) == list(range(60))

        assert one.application.items == payloads
        for entry in await entries_of(one):
            count = len(entry.headers["batching"]) // 4
            assert count <= 7
            assert count == 1 or len(entry.payload) <= 100


async def test_a_command_of_many_operations_takes_the_room_of_as_many(autojump_clock: MockClock) -> None:
    """However short it is: what an entry does is done at a stretch. One that is larger than a group travels alone."""
    async with replicas() as r:
        one = await r.start(recipe=batched, settings=small(group_commands=100))
        told: list[Any] = []
        for number, weight in enumerate((1, 1, 60, 40, 1, 500, 1, 1)):
            one.application.engine.propose(HeavyEntry(b"%d" % number, operations=weight), told.append)
        while len(told) < 8:
            await trio.sleep(0.01)

        assert told == list(range(8))
        assert [entry.payload for entry in await entries_of(one)] == [b"0", b"12", b"34", b"5", b"67"]


async def test_a_command_that_is_too_large_is_refused_alone(autojump_clock: MockClock) -> None:
    """A definite answer, before it is in a group."""
    async with replicas() as r:
        one = await r.start(recipe=batched)
        told = await propose_all(one, [b"a", bytes(4 << 20), b"b"])

        assert isinstance(told[1], TooLargeError)
        assert [told[0], told[2]] == [0, 1]


async def test_no_more_groups_are_under_way_than_the_window_has_room_for(autojump_clock: MockClock) -> None:
    """Commands that arrive meanwhile wait and share a later group."""
    async with replicas() as r:
        one = await r.start(recipe=batched, settings=small(window=2))
        r.provider.slow = r.provider.secretive = True
        batching = one.replica.stack.find(BatchingEngine)
        assert batching is not None
        results: list[Any] = []
        for number in range(40):
            one.replica.propose(b"%d" % number, results.append)
            await trio.sleep(0.001)
            assert batching._groups <= 2
        r.provider.slow = False
        while len(results) < 40:
            await trio.sleep(0.01)

        assert results == list(range(40))


async def test_entries_with_headers_of_an_engine_above_keep_their_place(autojump_clock: MockClock) -> None:
    """They are no commands to be put in a group, and are not overtaken."""
    async with replicas() as r:
        one = await r.start(recipe=batched)
        results: list[Any] = []
        for number in range(10):
            headers = {"above": b"x"} if number % 3 == 2 else {}
            one.application.engine.propose(Entry(b"%d" % number, headers), results.append)
        while len(results) < 10:
            await trio.sleep(0.01)

        assert one.application.items == [b"%d" % number for number in range(10)]


@pytest.mark.parametrize(
    ("header", "payload"),
    [(b"abc", b""), (struct.pack("<2I", 5, 3), b"xxx"), (struct.pack("<I", 2), b"xxx"), (b"", b"x")],
)
async def test_a_group_that_does_not_add_up_is_refused_by_all(
    header: bytes, payload: bytes, autojump_clock: MockClock
) -> None:
    """Bytes from the log are not trusted; that they are wrong is a deterministic error."""
    async with replicas() as r:
        one = await r.start(recipe=batched)
        await one.log.append(Entry(payload, {PROPOSER: bytes(TOKEN_BYTES), "batching": header}).encode())
        assert await one.propose(b"a") == 0

        assert one.application.items == [b"a"]
        assert one.replica.cursor == 2


def test_groups_that_no_log_entry_holds_cannot_be_asked_for() -> None:
    """Settings are checked when they are made."""
    with pytest.raises(InvalidSettingError):
        BatchingSettings(command_bytes_max=4 << 20)
