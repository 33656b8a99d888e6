"""The VirtualLog over memory loglets: delos.md section 11, items 1 to 18, as far as the client layer decides them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.virtuallog.worlds import World, active_loglet, contents, no_nodes, world
from virtuallog import chain
from virtuallog.api import Cluster, LogletProvider, Member
from virtuallog.batch import Batch, SessionId
from virtuallog.chain import SegmentId
from virtuallog.errors import (
    BeyondTailError,
    InvalidSettingError,
    SealedError,
    TailMismatchError,
    TooLargeError,
    UnavailableError,
    UnknownKindError,
    VirtualLogError,
)
from virtuallog.ports import Environment
from virtuallog.register import Register
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog.types import Gap, GapKind, LogletOffset, LogPosition, NodeId, Open, PlacedBatch, Sealed, Tail
from virtuallog.virtual_log import CONDITIONAL_MAX, VirtualLog
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
    """Three batches of almost 4 MiB: nobody gets less than the first one, or more than some 8 MiB at a time."""
    async with world() as w:
        log = w.client()
        for _ in range(3):
            await log.append(bytes((4 << 20) - 1024))

        assert len(await log.read(LogPosition(0), LogPosition(3), asked)) == given


async def test_an_entry_over_the_limit_is_refused_when_it_is_offered(autojump_clock: MockClock) -> None:
    """A batch that cannot fit is rejected at enqueue, never retried; the log takes the next one."""
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


async def test_racing_reconfigurers_all_get_their_way_one_after_the_other(autojump_clock: MockClock) -> None:
    """Item 1: every extend returns only when its own segment was decided; the chain has one segment per version."""
    async with world() as w:
        logs = [w.client() for _ in range(4)]
        async with trio.open_nursery() as nursery:
            for log in logs:
                nursery.start_soon(log.reconfig_extend, "sparse")

        assert w.register.version == 5
        for before, after in zip(w.registers, w.registers[1:], strict=False):
            chain.validate_successor(before.chain, after.chain)


async def test_a_client_that_meets_a_sealed_loglet_finishes_the_change_after_the_grace_period(
    autojump_clock: MockClock,
) -> None:
    """Item 2: the reconfigurer died after its seal. The others wait a while, then clone the last kind."""
    async with world() as w:
        log = w.client()
        await log.append(b"before")
        await active_loglet(log, w).seal()
        began = trio.current_time()

        position = await log.append(b"after")

        assert position == 1
        assert 1.0 <= trio.current_time() - began < 2.5
        assert boundaries(w) == [(0, 1), (1, None)]


async def test_a_cancelled_reconfigurer_does_not_leave_a_sealed_log_behind(autojump_clock: MockClock) -> None:
    """Item 16: the change belongs to a service task; the caller only stops waiting."""
    async with world() as w:
        log = w.client()
        await log.append(b"x")
        for checkpoints in range(1, 8):
            version = w.register.version
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(log.reconfig_extend, "memory")
                    for _ in range(checkpoints):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            await wait_all_tasks_blocked()
            assert isinstance(await log.check_tail(), Open)
            assert w.register.version in {version, version + 1}


async def test_a_change_under_way_when_the_client_ends_is_unknown(autojump_clock: MockClock) -> None:
    """Its service task is cancelled with the client. Whoever waits for it from outside hears that, and nothing else."""
    async with world() as w, trio.open_nursery() as service:
        log = w.client(service)
        w.metastore.lose_replies = 1
        raised: list[UnavailableError] = []

        async def extend() -> None:
            try:
                await log.reconfig_extend("memory")
            except UnavailableError as error:
                raised.append(error)

        w.nursery.start_soon(extend)
        for _ in range(4):
            await trio.lowlevel.checkpoint()
        service.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked()
        assert len(raised) == 1


async def test_a_put_whose_reply_is_lost_is_one_change_not_two(autojump_clock: MockClock) -> None:
    """Item 21: the unknown outcome is settled by the same attempt."""
    async with world() as w:
        log = w.client()
        await log.append(b"x")
        w.metastore.lose_replies = 2

        await log.reconfig_extend("memory")

        assert w.register.version == 2


async def test_with_the_metastore_down_only_changes_of_the_chain_fail(autojump_clock: MockClock) -> None:
    """Item 14: appends, tails and reads go on; a reconfiguration fails cleanly and succeeds later."""
    async with world() as w:
        log = w.client()
        await log.append(b"a")
        w.metastore.down = True

        assert await log.append(b"b") == 1
        assert await log.check_tail() == Open(2)
        assert len(await log.read(LogPosition(0), LogPosition(2))) == 2
        with pytest.raises(UnavailableError):
            await log.reconfig_extend("memory")
        w.metastore.down = False
        await log.reconfig_extend("memory")
        assert await log.append(b"c") == 2


async def test_a_log_closed_on_purpose_stays_closed_until_it_is_extended(autojump_clock: MockClock) -> None:
    """The marker in the register ends roll-forward: nobody reopens the log by accident."""
    async with world() as w:
        log, other = w.client(), w.client()
        await log.append(b"a")
        await other.append(b"b")
        await log.seal()

        with pytest.raises(SealedError):
            await other.append(b"refused")
        await trio.sleep(10)
        assert await other.check_tail() == Sealed(2)
        await log.seal()  # twice is no harm
        await log.reconfig_extend("memory")
        assert await other.append(b"c") == 2


async def test_zombies_beyond_the_stop_are_never_readable(autojump_clock: MockClock) -> None:
    """Item 7: what a sealed loglet holds beyond the decided stop is outside the virtual address space."""
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
    """Segments that others have trimmed away, and nodes have dropped, are not in the way; the answer says how far the
    log is trimmed, whoever did it."""
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
    """Drops what is trimmed in the background: readers see all of it for a while."""

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
    """It was looked for by reading, so one server that had not heard of the trim was enough to hide it, and an operator's
    truncate left a segment in the chain that was trimmed as a whole."""
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
    """What cannot be done is refused by type, changes nothing, and the log goes on."""
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


@attrs.define
class CopyProvider(MemoryProvider):
    """The config, not the segment, says which log it is: a copy can be made before the chain has it."""

    kind: str = "copy"

    def open(self, segment: chain.SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        return super().open(chain.SegmentId(1, int(config)), b"", environment)


@attrs.define
class FollowedMetaStore(MemoryMetaStore):
    """Nodes act on a decision before whoever put it hears of it: they drop loglets older than `version`."""

    provider: LogletProvider = attrs.field(kw_only=True)
    version: int = attrs.field(kw_only=True)

    async def put(
        self, value: bytes, expected_version: int, attempt: int, members: Sequence[NodeId] | None = None
    ) -> int:
        decided = await super().put(value, expected_version, attempt, members)
        await self.provider.forget(self.version)
        return decided


async def closed_and_copied(w: World) -> chain.Segment:
    """Entries 0 to 3 in a closed segment, and a copy of them with config 7 that nobody knows of."""
    w.providers = {**w.providers, "copy": CopyProvider()}
    log = w.client()
    await log.append_many([b"a", b"b", b"c", b"d"])
    await log.reconfig_extend("memory")
    closed = w.register.chain.segments[0]
    copy = w.providers["copy"].open(closed.id, b"7", log.view.environment)
    await copy.append(Batch.build(SessionId(b"c" * 16), 0, [b"a", b"b", b"c", b"d"]), opens=True)
    await copy.seal()
    return closed


async def test_a_modified_segment_is_read_from_its_new_loglet(autojump_clock: MockClock) -> None:
    """Item 18 without the copying: clients on the old chain may read either copy, both are right."""
    async with world() as w:
        closed = await closed_and_copied(w)
        log, stale = w.client(), w.client()
        await stale.check_tail()
        await log.reconfig_modify(closed.id, "copy", b"7")

        assert [payload for _, payload in await contents(stale)] == [b"a", b"b", b"c", b"d"]
        assert [payload for _, payload in await contents(log)] == [b"a", b"b", b"c", b"d"]
        assert w.register.chain.segments[0].stop == closed.stop


@pytest.mark.parametrize(("config", "sealed", "entries"), [(b"8", False, 4), (b"9", True, 3), (b"10", True, 0)])
async def test_a_copy_that_is_not_whole_is_refused(
    config: bytes, sealed: bool, entries: int, autojump_clock: MockClock
) -> None:
    """One that is open may grow, one that is too short would be a hole in the log. The chain stays as it is."""
    async with world() as w:
        closed, log = await closed_and_copied(w), w.client()
        copy = w.providers["copy"].open(closed.id, config, log.view.environment)
        for number in range(entries):
            await copy.append(Batch.build(SessionId(b"c" * 16), number, [b"x"]), opens=number == 0)
        if sealed:
            await copy.seal()
        before = w.register

        with pytest.raises(InvalidSettingError, match="has to be sealed at 4"):
            await log.reconfig_modify(closed.id, "copy", config)
        assert w.register == before


async def test_what_was_trimmed_while_a_copy_was_made_stays_trimmed(autojump_clock: MockClock) -> None:
    """The copy still has the entries; found by `virtuallog simulate --seed 264`."""
    async with world() as w:
        closed = await closed_and_copied(w)
        assert await w.client().prefix_trim(LogPosition(3)) == 3

        await w.client().reconfig_modify(closed.id, "copy", b"7")

        assert await w.client().prefix_trim(LogPosition(0)) == 3
        assert await contents(w.client()) == [(3, b"d")]


async def test_a_client_that_knows_only_what_was_replaced_and_dropped_finds_the_trim_point(
    autojump_clock: MockClock,
) -> None:
    """It asks an original that no trim has reached, learns that the log begins further on, and asks there."""
    async with world() as w:
        closed = await closed_and_copied(w)
        late, log = w.client(), w.client()
        await late.check_tail()
        await log.append_many([b"e", b"f"])
        await log.reconfig_modify(closed.id, "copy", b"7")
        assert await log.prefix_trim(LogPosition(5)) == 5
        assert w.register.chain.start == 4

        assert await late.find_trim_point() == 5


async def test_an_original_that_is_dropped_at_once_does_not_fail_the_change(autojump_clock: MockClock) -> None:
    """Nodes drop a loglet that no segment needs as soon as they hear of the new chain."""
    async with world() as w:
        closed = await closed_and_copied(w)
        assert await w.client().prefix_trim(LogPosition(3)) == 3
        w.metastore = FollowedMetaStore(
            w.metastore.values, w.metastore.attempts, provider=w.providers["memory"], version=closed.id.version + 1
        )

        await w.client().reconfig_modify(closed.id, "copy", b"7")

        assert await contents(w.client()) == [(3, b"d")]


async def test_a_trim_by_a_client_that_knows_the_original_reaches_the_copy(autojump_clock: MockClock) -> None:
    """Each trim looks at the chain once more when it is done."""
    async with world() as w:
        closed = await closed_and_copied(w)
        late = w.client()
        await late.check_tail()
        await w.client().reconfig_modify(closed.id, "copy", b"7")

        assert await late.prefix_trim(LogPosition(3)) == 3
        assert await contents(w.client()) == [(3, b"d")]


@pytest.mark.parametrize("trim", [2, 4])
async def test_a_client_that_knows_the_original_is_told_of_trims_of_the_copy(
    trim: int, autojump_clock: MockClock
) -> None:
    """A trim that has nothing to do there asks all the same; the original does not know, or is gone from the chain."""
    async with world() as w:
        closed = await closed_and_copied(w)
        late = w.client()
        await late.check_tail()
        await w.client().reconfig_modify(closed.id, "copy", b"7")
        assert await w.client().prefix_trim(LogPosition(trim)) == trim

        assert await late.find_trim_point() == trim


async def test_copies_are_made_again_while_the_register_is_full(autojump_clock: MockClock) -> None:
    """A rebuild names other servers of a segment that is there already. Refused, a log that nobody has trimmed for long would
    lose copy after copy, and each of them would be the last one some day."""
    async with world() as w:
        closed = await closed_and_copied(w)
        named = (await w.client().reconfig_modify(closed.id, "copy", b"7")).chain.segments[0]
        fill(w)

        await w.client().reconfig_modify(named.id, "copy", b"007")
        assert w.register.chain.segments[0].config == b"007"
        assert [payload for _, payload in await contents(w.client())] == [b"a", b"b", b"c", b"d"]


async def test_another_kind_under_a_segment_has_no_room_in_a_full_register(autojump_clock: MockClock) -> None:
    """Unless it takes less than what it replaces, which is what somebody who is told to make room does."""
    async with world() as w:
        closed = await closed_and_copied(w)
        fill(w)

        with pytest.raises(TooLargeError, match="bytes in the register"):
            await w.client().reconfig_modify(closed.id, "copy", b"7".rjust(100, b"0"))


def fill(w: World) -> None:
    """As much as planned changes may, and a little that nobody had planned."""
    nodes = {node: attrs.evolve(entry, addresses=("x" * (20 << 10),)) for node, entry in w.register.nodes.items()}
    w.metastore.values[-1] = attrs.evolve(w.register, nodes=nodes).encode()


async def test_a_conditional_append_lands_at_the_tail_it_expects_or_not_at_all(autojump_clock: MockClock) -> None:
    """A refused one says where the tail is; positions, and so expectations, go on across a swap."""
    async with world() as w:
        log = w.client()
        await log.append(b"a")

        assert await log.append_if_tail(b"b", LogPosition(1)) == 1
        with pytest.raises(TailMismatchError) as caught:
            await log.append_if_tail(b"c", LogPosition(1))
        assert (caught.value.expected, caught.value.found) == (1, 2)
        await log.reconfig_extend("memory")
        with pytest.raises(TailMismatchError):
            await log.append_if_tail(b"c", LogPosition(1))
        assert await log.append_if_tail(b"c", LogPosition(2)) == 2
        assert await contents(log) == [(0, b"a"), (1, b"b"), (2, b"c")]


@attrs.define
class StaleLoglet(MemoryLoglet):
    """Its sequencer does not know that servers have been sealed, and refuses at the tail that it knows."""

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        tail = (await self.check_tail()).tail
        if expected_tail is not None and expected_tail != tail:
            raise TailMismatchError(expected_tail, tail)
        return await super().append(batch, opens=opens, expected_tail=expected_tail)


class StaleProvider(MemoryProvider):
    def open(self, segment: chain.SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        opened = super().open(segment, config, environment)
        return StaleLoglet(opened._shared, opened._clock)


async def test_a_stale_sequencer_refuses_nothing_for_good(autojump_clock: MockClock) -> None:
    """The log has been extended, and has grown to the tail that is expected. A client that last appended before that asks
    the former sequencer, whose tail is behind: that says nothing about the log. One that has passed the tail does."""
    async with trio.open_nursery() as nursery:
        w = World(nursery, providers={"memory": StaleProvider()})
        late, other = w.client(), w.client()
        assert await late.append_if_tail(b"a", LogPosition(0)) == 0
        await other.reconfig_extend("memory")
        await other.append(b"b")

        with pytest.raises(TailMismatchError):
            await late.append_if_tail(b"c", LogPosition(0))
        assert await late.append_if_tail(b"c", LogPosition(2)) == 2
        assert await contents(other) == [(0, b"a"), (1, b"b"), (2, b"c")]
        nursery.cancel_scope.cancel()


async def test_conditional_appends_one_after_the_other_are_of_one_session(autojump_clock: MockClock) -> None:
    """A loglet remembers each session for minutes, and has room for so many: a session for each of 200 appends a second
    would leave none for new clients after a minute."""
    async with world() as w:
        log = w.client()
        for position in range(30):
            assert await log.append_if_tail(b"x", LogPosition(position)) == position

        found = [placed async for placed in log.reader(LogPosition(0), LogPosition(30)).batches()]
        assert len({placed.batch.session for placed in found if isinstance(placed, PlacedBatch)}) == 1
        assert len(log._appenders) == 1


async def test_conditional_appends_side_by_side_do_not_touch_each_other(autojump_clock: MockClock) -> None:
    """One of them wins, and the others are told for sure that nothing was done; few of their sessions are kept."""
    async with world() as w:
        log = w.client()
        outcomes: Counter[str] = Counter()

        async def attempt(number: int) -> None:
            try:
                await log.append_if_tail(b"%d" % number, LogPosition(0))
            except TailMismatchError:
                outcomes["refused"] += 1
            else:
                outcomes["placed"] += 1

        async with trio.open_nursery() as nursery:
            for number in range(CONDITIONAL_MAX + 10):
                nursery.start_soon(attempt, number)

        assert outcomes == {"placed": 1, "refused": CONDITIONAL_MAX + 9}
        assert len(await contents(log)) == 1
        assert len(log._appenders) == CONDITIONAL_MAX


async def test_a_conditional_append_whose_caller_left_has_a_session_to_itself(autojump_clock: MockClock) -> None:
    """It may still be on its way, and fail: nobody else's may lie behind it."""
    async with world() as w:
        log = w.client()
        for checkpoints in range(12):
            tail = LogPosition((await log.check_tail()).tail)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(log.append_if_tail, b"left", tail)
                for _ in range(checkpoints):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            with trio.fail_after(5), suppress(TailMismatchError):
                await log.append_if_tail(b"stays", tail)
        assert len(log._appenders) <= 2


@pytest.mark.parametrize("call", [VirtualLog.check_tail, VirtualLog.seal, VirtualLog.find_trim_point])
async def test_calls_before_bootstrap_say_so(
    call: Callable[[VirtualLog], Awaitable[object]], autojump_clock: MockClock
) -> None:
    """A cluster without a register is not an empty log."""
    async with world() as w:
        w.metastore.values.clear()
        with pytest.raises(VirtualLogError, match="bootstrapped"):
            await call(w.client())


async def test_the_watchdog_finishes_what_nobody_else_meets(autojump_clock: MockClock) -> None:
    """An idle log whose reconfigurer died is made whole without any append."""
    async with world() as w:
        log, watch = w.client(), w.client()
        await log.append(b"a")
        w.nursery.start_soon(watch.chain_writer.run_watchdog)
        await active_loglet(log, w).seal()

        await trio.sleep(5)

        assert boundaries(w) == [(0, 1), (1, None)]


@attrs.define
class Deserted(MemoryProvider):
    """For a while, no node that could serve a new loglet answers in time."""

    deserted: bool = True

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        if self.deserted:
            raise InvalidSettingError("servers", "fewer than 2 nodes answer")
        return MemoryProvider.plan(self, cluster, settings, previous)


async def test_a_roll_forward_waits_for_nodes_that_are_slow_to_answer(autojump_clock: MockClock) -> None:
    """After a power loss nodes come back one by one. Too few of them for a new loglet: the watchdog, which is part of
    each node's process, and the appends that wait, try again until there are enough."""
    async with trio.open_nursery() as nursery:
        provider = Deserted()
        w = World(nursery, providers={"memory": provider})
        log, watch = w.client(), w.client()
        await log.append(b"before")
        await active_loglet(log, w).seal()
        nursery.start_soon(watch.chain_writer.run_watchdog)
        positions: list[LogPosition] = []

        async def append() -> None:
            positions.append(await log.append(b"after"))

        nursery.start_soon(append)
        await trio.sleep(10)
        assert not positions
        provider.deserted = False
        await trio.sleep(2)

        assert positions == [1]
        provider.deserted = True
        with pytest.raises(InvalidSettingError):  # what an operator asks for is refused, with its reason
            await log.reconfig_extend("memory")
        nursery.cancel_scope.cancel()


async def test_the_watchdog_outlives_a_chain_that_it_cannot_handle(autojump_clock: MockClock) -> None:
    """A kind that this node's software does not know: the log goes on without its watchdog, and later with it."""
    async with world() as w:
        log, watch = w.client(), w.client()
        watch.view.providers = {"memory": w.providers["memory"]}
        w.nursery.start_soon(watch.chain_writer.run_watchdog)
        await log.reconfig_extend("sparse")
        await trio.sleep(5)
        await log.reconfig_extend("memory")
        await active_loglet(log, w).seal()
        await trio.sleep(5)

        assert isinstance(await active_loglet(log, w).check_tail(), Open)


async def test_the_watchdog_says_what_it_cannot_look_after(autojump_clock: MockClock) -> None:
    """In the status of its node, once it is no passing matter: nobody heals a loglet that is kept elsewhere."""
    async with world() as w:
        log, watch = w.client(), w.client()
        providers = watch.view.providers
        watch.view.providers = {"memory": w.providers["memory"]}
        w.nursery.start_soon(watch.chain_writer.run_watchdog)
        await log.reconfig_extend("sparse")
        await trio.sleep(5)

        last = w.register.chain.last.id
        assert watch.chain_writer.problem.startswith(
            f"the open segment {last} (sparse) cannot be looked after: Unknown"
        )
        watch.view.providers = providers
        await trio.sleep(5)
        assert watch.chain_writer.problem == ""


async def test_a_change_whose_loglet_was_dropped_meanwhile_starts_over(autojump_clock: MockClock) -> None:
    """Between the plan and the seal somebody else has replaced an empty segment, and the nodes have dropped it."""
    async with world() as w:
        log, other = w.client(), w.client()

        async def planned_late(register: Register) -> Cluster:
            if w.register.version == 1:
                await other.reconfig_extend("memory")
                await w.providers["memory"].forget(2)
            return await no_nodes(register)

        log.chain_writer._planner = planned_late
        await log.reconfig_extend("sparse")

        assert [segment.kind for segment in w.register.chain.segments] == ["sparse"]
        assert w.register.version == 3


async def test_a_roll_forward_does_not_reopen_a_log_that_is_being_closed(autojump_clock: MockClock) -> None:
    """A close is a seal first. Who rolls that forward while the marker is put finds it, and leaves the log closed."""
    async with world() as w:
        log, other = w.client(), w.client()
        await log.append(b"a")
        await other.check_tail()

        async def planned_late(register: Register) -> Cluster:
            await log.seal()
            return await no_nodes(register)

        other.chain_writer._planner = planned_late
        await active_loglet(log, w).seal()
        with pytest.raises(SealedError):
            await other.append(b"refused")

        assert await other.check_tail() == Sealed(1)
        assert await log.check_tail() == Sealed(1)


@pytest.mark.parametrize("members", [(), (1, 1, 2), (1, 2, 9), (2, 3, 4)])
async def test_members_that_could_not_decide_anything_are_refused(
    members: tuple[int, ...], autojump_clock: MockClock
) -> None:
    """None, one of them twice, a stranger, a set of which no majority answers: the register would be lost for good."""
    async with world() as w:
        log, before = w.client(), w.register

        async def two_of_four_live(_: Register) -> Cluster:
            nodes = [Member(node=NodeId(node), boot=1, roles=frozenset(), alive=node <= 2) for node in (1, 2, 3, 4)]
            return Cluster(members=tuple(nodes), planner=NodeId(1))

        log.chain_writer._planner = two_of_four_live
        with pytest.raises(InvalidSettingError, match="members"):
            await log.reconfig_members([NodeId(node) for node in members])
        assert w.register == before

        await log.reconfig_members([NodeId(3), NodeId(2), NodeId(1)])
        assert w.register.members == (1, 2, 3)


@attrs.define
class OrphanedProvider(MemoryProvider):
    """The servers of some loglets are gone for good."""

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
    """They were replaced meanwhile: nobody is left who could tell it that the loglet is sealed. With no other chain, it
    says what is wrong."""
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
