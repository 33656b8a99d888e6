"""reconfig_modify through a VirtualLog."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from trio.testing import MockClock

from tests.virtuallog.client.world import World, contents, fill_register, world
from virtuallog.contract import chain
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import InvalidSettingError, TooLargeError
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.testing.memory_metastore import MemoryMetaStore
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider


@attrs.define
class CopyProvider(MemoryProvider):
    """A provider whose config, not segment, identifies the log: a copy can be made before the chain has it."""

    kind: str = "copy"

    def open(self, segment: chain.SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        return super().open(chain.SegmentId(1, int(config)), b"", environment)


@attrs.define
class FollowedMetaStore(MemoryMetaStore):
    """A MetaStore with nodes that act on a decision before its proposer learns it: they drop loglets older than `version`."""

    provider: LogletProvider = attrs.field(kw_only=True)
    version: int = attrs.field(kw_only=True)

    async def put(
        self, value: bytes, expected_version: int, attempt: int, members: Sequence[NodeId] | None = None
    ) -> int:
        decided = await super().put(value, expected_version, attempt, members)
        await self.provider.forget(self.version)
        return decided


async def closed_and_copied(w: World) -> chain.Segment:
    """Entries 0 to 3 in a closed segment, and a copy with config 7 that no client knows yet."""
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
    """Item 18 without the copying: clients on the old chain may read either copy, both are valid."""
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
    """An open copy may grow, a short one would be a hole in the log. The chain stays as it is."""
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
    """A trim without effect asks the loglet all the same; the original does not know, or is gone from the chain."""
    async with world() as w:
        closed = await closed_and_copied(w)
        late = w.client()
        await late.check_tail()
        await w.client().reconfig_modify(closed.id, "copy", b"7")
        assert await w.client().prefix_trim(LogPosition(trim)) == trim

        assert await late.find_trim_point() == trim


async def test_copies_are_made_again_while_the_register_is_full(autojump_clock: MockClock) -> None:
    """A rebuild only names other servers of a segment. If it were refused, a log that is never trimmed would lose copy after
    copy, and in the end the last one."""
    async with world() as w:
        closed = await closed_and_copied(w)
        named = (await w.client().reconfig_modify(closed.id, "copy", b"7")).chain.segments[0]
        fill_register(w)

        await w.client().reconfig_modify(named.id, "copy", b"007")
        assert w.register.chain.segments[0].config == b"007"
        assert [payload for _, payload in await contents(w.client())] == [b"a", b"b", b"c", b"d"]


async def test_another_kind_under_a_segment_has_no_room_in_a_full_register(autojump_clock: MockClock) -> None:
    """It is accepted only if it takes less room than the former one, as an operator does to make room."""
    async with world() as w:
        closed = await closed_and_copied(w)
        fill_register(w)

        with pytest.raises(TooLargeError, match="bytes in the register"):
            await w.client().reconfig_modify(closed.id, "copy", b"7".rjust(100, b"0"))
