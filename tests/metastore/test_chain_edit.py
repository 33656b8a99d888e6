"""A loglet is lost for good: an operator edits the exported register, and the log goes on without it."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from trio.testing import MockClock

from tests.virtuallog.client.world import World, contents, world
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import InvalidSettingError, RetryableError, UnavailableError
from virtuallog.contract.ports import Environment
from virtuallog.contract.register import decode_untrusted as decode_register
from virtuallog.contract.types import LogPosition
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider
from virtuallog_metastore.disaster_recovery.chain_edit import edit
from virtuallog_metastore.disaster_recovery.dump import decode_untrusted, dump
from virtuallog_server.cli import main


@attrs.define
class ElsewhereProvider(MemoryProvider):
    """Keeps its loglets in one place, which may be gone."""

    kind: str = "elsewhere"
    gone: bool = False

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        if self.gone:
            raise UnavailableError("the place does not answer")
        return super().open(segment, config, environment)


async def lost_world(w: World) -> None:
    """Put entries 0 and 1 on nodes, and entries 2 to 4 in an open loglet in a place that is gone."""
    elsewhere = ElsewhereProvider()
    w.providers = {**w.providers, "elsewhere": elsewhere}
    log = w.client()
    await log.append_many([b"a", b"b"])
    await log.reconfig_extend("elsewhere")
    await log.append_many([b"c", b"d", b"e"])
    elsewhere.gone = True


async def put_edited(w: World, close_at: int | None, start_at: int | None) -> None:
    """Put an edited register, as an import does on all nodes."""
    edited = edit(dump(w.metastore.values[-1]), close_at, start_at)
    while w.register.version < edited.register.version - 1:  # versions grow one by one here
        await w.metastore.put(w.register.next().encode(), w.register.version, attempt=w.register.version)
    await w.metastore.put(edited.value, edited.register.version - 1, attempt=99)


async def test_without_an_edit_nothing_goes_on(autojump_clock: MockClock) -> None:
    """Without an edit nothing goes on: changing to another loglet needs the seal of this one."""
    async with world() as w:
        await lost_world(w)

        with pytest.raises(RetryableError):
            await w.client().reconfig_extend("memory")
        assert w.register.chain.last.kind == "elsewhere"


async def test_the_log_goes_on_past_what_is_lost(autojump_clock: MockClock) -> None:
    """The log closes without a seal, past all acknowledged entries, and goes on there.

    Earlier entries are there, and new entries follow. Lost ones cannot be read, and nothing behind
    them can be trimmed.
    """
    async with world() as w:
        await lost_world(w)
        await put_edited(w, close_at=1000, start_at=None)
        log = w.client()

        await log.reconfig_extend("memory")

        assert await log.append(b"f") == 1000
        assert [(item.start, item.stop) for item in await log.read(LogPosition(0), LogPosition(2))] == [(0, 2)]
        with pytest.raises(UnavailableError):
            await log.read(LogPosition(2), LogPosition(5))
        with pytest.raises(UnavailableError):
            await log.prefix_trim(LogPosition(1000))


async def test_what_is_lost_leaves_the_chain_with_all_before_it(autojump_clock: MockClock) -> None:
    """The lost segment leaves the chain with all before it: the log is whole from there, and trims
    work again."""
    async with world() as w:
        await lost_world(w)
        await put_edited(w, close_at=1000, start_at=1000)
        log = w.client()

        await log.reconfig_extend("memory")

        assert await log.append(b"f") == 1000
        assert w.register.chain.start == 1000
        assert await contents(w.client()) == [(1000, b"f")]
        assert await log.prefix_trim(LogPosition(1001)) == 1001


async def test_a_closed_segment_that_is_lost_is_left_out(autojump_clock: MockClock) -> None:
    """A lost closed segment is left out. Appends go on all the time; only reads and trims below
    need the edit."""
    async with world() as w:
        await lost_world(w)
        await put_edited(w, close_at=5, start_at=None)
        log = w.client()
        await log.reconfig_extend("memory")
        await log.append(b"f")
        await put_edited(w, close_at=None, start_at=5)

        assert [segment.start for segment in w.register.chain.segments] == [5]
        assert await contents(w.client()) == [(5, b"f")]


async def test_edits_that_make_no_sense_are_refused(autojump_clock: MockClock) -> None:
    """Edits that would give a position twice, or change nothing, are refused."""
    async with world() as w:
        await lost_world(w)
        found = dump(w.metastore.values[-1])

        with pytest.raises(InvalidSettingError, match="begins at 2"):
            edit(found, 1, None)
        with pytest.raises(InvalidSettingError, match="no segment lies wholly below 1"):
            edit(found, None, 1)
        with pytest.raises(InvalidSettingError, match="nothing is to be changed"):
            edit(found, None, None)
        with pytest.raises(InvalidSettingError, match="closed already"):
            edit(edit(found, 9, None), 10, None)


async def test_an_operator_edits_a_file(tmp_path: Path, autojump_clock: MockClock) -> None:
    """An edited file is imported in place of the original, which stays (docs/howto/operate.md)."""
    async with world() as w:
        await lost_world(w)
        original, edited = tmp_path / "register", tmp_path / "edited"
        original.write_bytes(dump(w.metastore.values[-1]).encode())

        done = CliRunner().invoke(
            main, ["metastore", "edit", str(original), str(edited), "--close-at", "1000", "--start-at", "1000"]
        )

        assert done.exit_code == 0, done.output
        assert "1 segment: 1000 to 1000 (elsewhere)" in done.output
        assert original.read_bytes() == dump(w.metastore.values[-1]).encode()
        found = decode_untrusted(edited.read_bytes())
        assert found.register == decode_register(found.value)
        assert (found.register.chain.start, found.register.chain.last.stop) == (1000, 1000)
        assert found.register.version > w.register.version
