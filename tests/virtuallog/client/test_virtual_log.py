"""The VirtualLog over memory loglets: delos.md section 11, items 1 to 18, as far as the client layer decides them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.virtuallog.client.world import World, active_loglet, contents, world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract import chain
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    BeyondTailError,
    InvalidSettingError,
    TooLargeError,
    UnavailableError,
    UnknownKindError,
    VirtualLogError,
)
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import Gap, GapKind, LogletOffset, LogPosition, Open, PlacedBatch, Sealed, Tail
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider


def boundaries(w: World) -> list[tuple[int, int | None]]:
    return [(segment.start, segment.stop) for segment in w.register.chain.segments]


async def test_appends_land_in_order_and_are_read_back(autojump_clock: MockClock) -> None:
    """Positions count from zero, empty entries are entries, and the tail is the first position without one."""
    async with world() as w:
        log = w.client()
        positions = [await log.append(payload) for payload in (b"a", b"", b"c")]

        assert positions == [0, 1, 2]
        assert await contents(log) == [(0, b"a"), (1, b""), (2, b"c")]
        assert await log.check_tail() == Open(3)


@pytest.mark.parametrize(("asked", "given"), [(-1, 1), (0, 1), (1 << 40, 2)])
async def test_one_answer_to_a_read_is_bounded_whatever_is_asked_for(
    asked: int, given: int, autojump_clock: MockClock
) -> None:
    """Three batches of almost 4 MiB: a read gives at least the first one, and at most some 8 MiB."""
    async with world() as w:
        log = w.client()
        for _ in range(3):
            await log.append(bytes((4 << 20) - 1024))

        assert len(await log.read(LogPosition(0), LogPosition(3), asked)) == given


async def test_an_entry_over_the_limit_is_refused_when_it_is_offered(autojump_clock: MockClock) -> None:
    """An entry that cannot fit is rejected when offered, never retried; the log takes the next one."""
    async with world() as w:
        log = w.client()
        with pytest.raises(TooLargeError):
            await log.append(bytes((4 << 20) + 1))
        with pytest.raises(TooLargeError):
            await log.append_many([bytes(4 << 20)] * 2)
        assert await log.append(b"next") == 0


async def test_the_log_goes_on_across_kinds_and_is_read_as_one(autojump_clock: MockClock) -> None:
    """Reads span three and more segments, contiguous and sparse ones."""
    async with world() as w:
        log = w.client()
        for kind in ("sparse", "memory", "sparse"):
            await log.append_many([b"a", b"b"])
            await log.reconfig_extend(kind)
        await log.append(b"last")

        assert [payload for _, payload in await contents(log)] == [b"a", b"b"] * 3 + [b"last"]
        assert len(boundaries(w)) == 4


async def test_zombies_beyond_the_stop_are_never_readable(autojump_clock: MockClock) -> None:
    """Item 7: entries of a sealed loglet beyond the decided stop are outside the virtual address space."""
    async with world() as w:
        log, stale = w.client(), w.client()
        await log.append(b"a")
        await stale.check_tail()
        loglet = active_loglet(log, w)
        await log.reconfig_extend("memory")
        provider = w.providers["memory"]
        shared = provider._logs[w.registers[0].chain.last.id]  # type: ignore[attr-defined]
        shared.model.land(Batch.build(SessionId(b"z" * 16), 0, [b"zombie"]), range(1, 2))
        assert await loglet.check_tail() == Sealed(2)
        await log.append(b"b")

        assert await contents(log) == [(0, b"a"), (1, b"b")]
        assert await contents(stale) == [(0, b"a"), (1, b"b")]


@pytest.mark.parametrize(("trim", "chain_start"), [(1, 0), (2, 2), (3, 2), (4, 4), (99, 4)])
async def test_trims_below_at_and_above_a_boundary(trim: int, chain_start: int, autojump_clock: MockClock) -> None:
    """Item 12: at, one below and one above a boundary, and past the tail, which it does not move."""
    async with world() as w:
        log = w.client()
        for _ in range(2):
            await log.append_many([b"a", b"b"])
            await log.reconfig_extend("memory")
        await log.append(b"tail")

        effective = await log.prefix_trim(LogPosition(trim))

        assert effective == min(trim, 5)
        assert await log.prefix_trim(LogPosition(trim)) == effective
        assert w.register.chain.start == chain_start
        assert await log.check_tail() == Open(5)
        assert await log.find_trim_point() == effective
        first = (await log.read(LogPosition(0), LogPosition(5)))[0]
        assert isinstance(first, Gap)
        assert first.kind is GapKind.TRIMMED
        assert [position for position, _ in await contents(log)] == list(range(effective, 5))


async def test_a_trim_by_an_old_chain_goes_on_where_others_have_trimmed(autojump_clock: MockClock) -> None:
    """Segments that other clients have trimmed and nodes have dropped are skipped; the result is the trim point of the log,
    also if another client has moved it."""
    async with world() as w:
        log, late = w.client(), w.client()
        for kind in ("memory", "sparse"):
            await log.append_many([b"a", b"b"])
            await log.reconfig_extend(kind)
        await log.append_many([b"a", b"b"])
        await late.check_tail()
        assert await log.prefix_trim(LogPosition(5)) == 5
        for provider in w.providers.values():
            await provider.forget(w.register.chain.segments[0].id.version)

        assert await late.prefix_trim(LogPosition(3)) == 5
        assert await late.find_trim_point() == 5


@attrs.define
class LazyLoglet(MemoryLoglet):
    """A loglet that trims in the background: readers see the trimmed entries for a while."""

    trimmed: list[int] = attrs.field(kw_only=True)

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        self.trimmed.append(min(offset, (await self.check_tail()).tail))
        return LogletOffset(max(self.trimmed))


@attrs.define
class LazyProvider(MemoryProvider):
    trimmed: list[int] = attrs.field(factory=list)

    def open(self, segment: chain.SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        opened = super().open(segment, config, environment)
        return LazyLoglet(opened._shared, opened._clock, trimmed=self.trimmed)


async def test_the_trim_point_is_found_where_readers_still_see_what_is_trimmed(autojump_clock: MockClock) -> None:
    """Once it was found by reading. One server that did not know of the trim was enough to hide it, and an operator's
    truncate left a fully trimmed segment in the chain."""
    async with trio.open_nursery() as nursery:
        w = World(nursery, providers={"memory": LazyProvider()})
        log, late = w.client(), w.client()
        await log.append_many([b"a", b"b", b"c"])
        assert await log.prefix_trim(LogPosition(2)) == 2

        assert await late.find_trim_point() == 2
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("position", [0, 1, 2, 3])
async def test_a_trim_with_nothing_to_do_says_where_the_log_begins(position: int, autojump_clock: MockClock) -> None:
    """Others have trimmed further, in this segment or beyond it; found by `virtuallog simulate --seed 4`."""
    async with world() as w:
        log, late = w.client(), w.client()
        await log.append_many([b"a", b"b"])
        await log.reconfig_extend("memory")
        await log.append_many([b"c", b"d"])
        await late.check_tail()
        assert await log.prefix_trim(LogPosition(3)) == 3

        assert await late.prefix_trim(LogPosition(position)) == 3


async def test_a_client_with_a_stale_chain_finds_its_way(autojump_clock: MockClock) -> None:
    """Item 10: append, tail and read with a chain from before several extends and a truncation."""
    async with world() as w:
        log, stale = w.client(), w.client()
        await stale.append(b"old")
        for _ in range(3):
            await log.append(b"x")
            await log.reconfig_extend("sparse")
        await log.prefix_trim(LogPosition(2))

        assert isinstance((await stale.read(LogPosition(0), LogPosition(1)))[0], Gap | PlacedBatch)
        position = await stale.append(b"new")
        assert (await contents(stale))[-1] == (position, b"new")
        assert (await stale.check_tail()).tail > position


async def test_empty_segments_leave_the_chain(autojump_clock: MockClock) -> None:
    """Item 6: sealing an empty active segment several times in a row."""
    async with world() as w:
        log = w.client()
        for _ in range(3):
            await log.reconfig_extend("sparse")
        await log.append(b"a")
        for _ in range(3):
            await log.reconfig_extend("memory")

        assert [segment.kind for segment in w.register.chain.segments] == ["sparse", "memory"]
        assert [payload for _, payload in await contents(log)] == [b"a"]


async def test_reads_past_the_tail_and_unknown_kinds_are_typed_errors(autojump_clock: MockClock) -> None:
    """An impossible request raises a typed error, changes nothing, and the log goes on."""
    async with world() as w:
        log = w.client()
        await log.append(b"a")
        with pytest.raises(BeyondTailError) as caught:
            await log.read(LogPosition(0), LogPosition(5))
        assert caught.value.tail == 1
        with pytest.raises(UnknownKindError):
            await log.reconfig_extend("banana")
        with pytest.raises(InvalidSettingError):
            await log.reconfig_extend("memory", {"colour": "blue"})
        with pytest.raises(InvalidSettingError):
            await log.reconfig_modify(w.register.chain.last.id, "memory", b"")
        assert w.register.version == 1
        assert await log.append(b"b") == 1


@pytest.mark.parametrize("call", [VirtualLog.check_tail, VirtualLog.seal, VirtualLog.find_trim_point])
async def test_calls_before_bootstrap_say_so(
    call: Callable[[VirtualLog], Awaitable[object]], autojump_clock: MockClock
) -> None:
    """A cluster without a register is not an empty log."""
    async with world() as w:
        w.metastore.values.clear()
        with pytest.raises(VirtualLogError, match="bootstrapped"):
            await call(w.client())


@attrs.define
class OrphanedProvider(MemoryProvider):
    """A provider of loglets whose servers are gone for good."""

    gone: set[SegmentId] = attrs.field(factory=set)

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        loglet = MemoryProvider.open(self, segment, config, environment)
        return OrphanedLoglet(loglet._shared, loglet._clock, self.gone, segment)


@attrs.define
class OrphanedLoglet(MemoryLoglet):
    gone: set[SegmentId]
    segment: SegmentId

    async def check_tail(self) -> Tail:
        if self.segment in self.gone:
            raise UnavailableError("wrong data directory")
        return await MemoryLoglet.check_tail(self)


async def test_a_client_whose_loglet_has_lost_its_servers_looks_for_another_chain(autojump_clock: MockClock) -> None:
    """Its servers were replaced meanwhile: none is left to answer that the loglet is sealed. Without a newer chain, the
    client raises the error of the loglet."""
    async with trio.open_nursery() as nursery:
        provider = OrphanedProvider()
        w = World(nursery, providers={"memory": provider})
        old, operator = w.client(), w.client()
        await old.append(b"a")
        provider.gone.add(w.register.chain.last.id)
        with pytest.raises(UnavailableError, match="wrong data directory"):
            await old.check_tail()

        provider.gone.clear()
        first = w.register.chain.last.id
        await operator.reconfig_extend("memory")
        provider.gone.add(first)

        assert await old.check_tail() == Open(LogPosition(1))
        nursery.cancel_scope.cancel()
