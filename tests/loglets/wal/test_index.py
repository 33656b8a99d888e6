"""Indexes: what a recovery does not read, and that nothing depends on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import attrs
import pytest
import trio

from tests.loglets.wal.recorded_log import DATA, SMALL, put, until
from tests.virtuallog.runtime.disk_beds import Bed
from virtuallog.contract.errors import CorruptionError, TrimmedError
from virtuallog_loglets.wal import Address, WalRecord, WalSettings, WriteAheadLog
from virtuallog_loglets.wal.core import index_format
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core.record import offset_of, sequence_of
from virtuallog_loglets.wal.segment_check import check_closed_untrusted


@attrs.define(eq=False)
class Keeper:
    """Knows the payload at each address; an index is what it knows of one segment."""

    known: dict[Address, bytes] = attrs.Factory(dict)
    replayed: list[int] = attrs.Factory(list)
    """Segments whose records were replayed."""
    restored: list[int] = attrs.Factory(list)
    refuses: bool = False

    def replay(self, address: Address, record: WalRecord) -> None:
        self.known[address] = record.payload
        if sequence_of(address) not in self.replayed:
            self.replayed.append(sequence_of(address))

    def index(self, sequence: int) -> bytes:
        mine = [(offset_of(a), payload) for a, payload in self.known.items() if sequence_of(a) == sequence]
        return b"".join(b"%d %s\n" % pair for pair in mine)

    def restore_untrusted(self, sequence: int, index: bytes) -> bool:
        if self.refuses:
            return False
        for line in index.splitlines():
            offset, _, payload = line.partition(b" ")
            self.known[Address(sequence << 32 | int(offset))] = payload
        self.restored.append(sequence)
        return True


@attrs.define(eq=False)
class Opened:
    wal: WriteAheadLog
    keeper: Keeper

    async def put(self, count: int) -> None:
        for number in range(count):
            payload = str(number).encode().rjust(700, b".")
            (address,) = await put(self.wal, WalRecord(DATA, payload))
            self.keeper.known[address] = payload


@asynccontextmanager
async def running(bed: Bed, keeper: Keeper | None = None, settings: WalSettings = SMALL) -> AsyncIterator[Opened]:
    """A log whose user makes indexes."""
    keeper = keeper or Keeper()
    wal = await WriteAheadLog.open(bed.mount(), settings, keeper.replay, indexes=keeper)
    async with trio.open_nursery() as nursery:
        await nursery.start(wal.run, list)
        yield Opened(wal, keeper)
        nursery.cancel_scope.cancel()
    bed.unmount()


def indexed(bed: Bed) -> list[int]:
    """Segments that have an index, written or in the making."""
    return [sequence for name in bed.names() if (sequence := index_format.sequence_in(name)) is not None]


async def until_indexed(bed: Bed, wal: WriteAheadLog) -> None:
    """Wait for the index of every closed segment."""
    for sequence in wal.closed:
        await until(partial(_begins, bed, index_format.name_of(sequence), b"VLOG-IDX"))


def _begins(bed: Bed, name: str, start: bytes) -> bool:
    """Also while another program makes and removes the file."""
    with suppress(KeyError, FileNotFoundError):
        return bed.image(name).startswith(start)
    return False


async def filled(bed: Bed, count: int = 50) -> dict[Address, bytes]:
    """A log of some segments, all closed ones indexed; returns what is in it."""
    async with running(bed) as opened:
        await opened.put(count)
        await until_indexed(bed, opened.wal)
    return dict(opened.keeper.known)


async def test_closed_segments_are_not_read_again(bed: Bed) -> None:
    """Their indexes are, and give the same; only the last segment is replayed."""
    known = await filled(bed)

    async with running(bed) as opened:
        assert opened.keeper.known == known
        assert opened.keeper.restored == list(opened.wal.unread) == list(opened.wal.closed)
        assert opened.keeper.replayed == [opened.keeper.restored[-1] + 1]
        await opened.put(10)
        known = dict(opened.keeper.known)
    async with running(bed) as opened:
        assert opened.keeper.known == known


@pytest.mark.parametrize("damage", ["torn", "flipped", "missing", "newer", "another segment's"])
async def test_what_is_wrong_with_an_index_costs_time_only(bed: Bed, damage: str) -> None:
    """The segment is read, and the index is made anew."""
    known = await filled(bed)
    name = index_format.name_of(2)
    image = bed.image(name)
    bed.delete(name)
    match damage:
        case "torn":
            bed.overwrite(name, 0, image[: len(image) // 2] + bytes(len(image) - len(image) // 2))
        case "flipped":
            bed.overwrite(name, 0, image[:-1] + bytes([image[-1] ^ 1]))
        case "newer":
            bed.overwrite(name, 0, image[:8] + b"\x02" + image[9:])
        case "another segment's":
            bed.overwrite(name, 0, bed.image(index_format.name_of(1)))

    async with running(bed) as opened:
        assert opened.keeper.known == known
        assert opened.keeper.replayed[0] == 2
        assert 2 not in opened.keeper.restored
        await until(partial(_begins, bed, name, image))


async def test_an_index_that_its_user_refuses(bed: Bed) -> None:
    """For example of an unknown format: everything is read."""
    known = await filled(bed)

    async with running(bed, Keeper(refuses=True)) as opened:
        assert opened.keeper.known == known
        assert not opened.wal.unread


async def test_an_index_does_not_hide_a_damaged_end(bed: Bed) -> None:
    """A segment with an index is closed: header and footer are checked."""
    await filled(bed)
    image = bed.image(fmt.name_of(2))
    for at in (3, SMALL.segment_bytes - 60):
        bed.overwrite(fmt.name_of(2), at, bytes([image[at] ^ 1]))
        with pytest.raises(CorruptionError):
            await WriteAheadLog.open(bed.mount(), SMALL, Keeper().replay, indexes=Keeper())
        bed.unmount()
        bed.overwrite(fmt.name_of(2), at, image[at : at + 1])


async def test_logs_without_indexes_get_them(bed: Bed) -> None:
    """Those of the first version: read once, indexed in the background, not read again."""
    known = await filled(bed)
    for sequence in indexed(bed):
        bed.delete(index_format.name_of(sequence))
    async with running(bed) as opened:
        assert opened.keeper.known == known
        assert not opened.wal.unread
        await until_indexed(bed, opened.wal)

    async with running(bed) as opened:
        assert opened.keeper.known == known
        assert list(opened.wal.unread) == list(opened.wal.closed)


async def test_indexes_go_with_their_segments(bed: Bed) -> None:
    """When segments are dropped; one that is left over by a crash goes at the next start."""
    known = await filled(bed)
    keep = max(known)
    async with running(bed) as opened:
        opened.wal.drop_before(keep)
        await until(lambda: not indexed(bed) and fmt.name_of(1) not in bed.names())
    bed.overwrite(index_format.name_of(1), 0, b"left over")

    async with running(bed):
        assert not indexed(bed)


async def test_rot_in_a_segment_that_was_not_read_is_found(bed: Bed) -> None:
    """By who reads the record, and by the check, wherever it is; the rest is whole."""
    known = await filled(bed)
    (victim,) = [address for address in sorted(known) if sequence_of(address) == 2][2:3]
    at = offset_of(victim) + 300
    bed.overwrite(fmt.name_of(2), at, bytes([bed.image(fmt.name_of(2))[at] ^ 4]))
    parts: list[int] = []

    async def rest(size: int) -> None:
        parts.append(size)

    async with running(bed) as opened:
        assert opened.keeper.known == known
        with pytest.raises(CorruptionError):
            await opened.wal.read(victim)
        with pytest.raises(CorruptionError, match=f"damaged at offset {offset_of(victim)}"):
            await opened.wal.check(2, rest)
        await opened.wal.check(1, rest)
        await opened.wal.check(3, rest)
        assert parts
        opened.wal.drop_before(max(known))
        with pytest.raises(TrimmedError):
            await opened.wal.check(1, rest)


@pytest.mark.parametrize("part_bytes", [100, 1000, 5000])
async def test_a_check_in_parts_sees_every_record(bed: Bed, monkeypatch: pytest.MonkeyPatch, part_bytes: int) -> None:
    """Records longer than a part, and records across its end."""
    await filled(bed)
    monkeypatch.setattr("virtuallog_loglets.wal.segment_check.PART_BYTES", part_bytes)
    image = bed.image(fmt.name_of(1))
    end = len(image[: -fmt.FOOTER_BYTES].rstrip(b"\0"))

    async def rest(_size: int) -> None:
        pass

    storage = bed.mount()
    file = await storage.open(fmt.name_of(1))
    await check_closed_untrusted(file, 1, rest)
    for at in range(fmt.HEADER_BYTES, end, 197):
        await file.write_synced(at, [bytes([image[at] ^ 1])])
        with pytest.raises(CorruptionError):
            await check_closed_untrusted(file, 1, rest)
        await file.write_synced(at, [image[at : at + 1]])
    await check_closed_untrusted(file, 1, rest)
