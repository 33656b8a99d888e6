"""Reopening: torn tails are cut; corruption is distinguished from them and named. After log-test of
Kudu and YugabyteDB."""

from __future__ import annotations

import pytest

from tests.loglets.wal.recorded_log import DATA, SMALL, User, opened, put_data, running, until
from tests.virtuallog.runtime.disk_beds import Bed
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_loglets.wal import Address, WalRecord
from virtuallog_loglets.wal.core import segment_format as fmt
from virtuallog_loglets.wal.core.record import address_of, offset_of
from virtuallog_loglets.wal.core.segment import Segment

FIRST, SECOND = fmt.name_of(1), fmt.name_of(2)


async def filled(bed: Bed, *payloads: bytes) -> list[int]:
    """A log with these records, each in a group of its own; returns the offsets of their headers."""
    async with running(bed.mount()) as user:
        addresses = [(await put_data(user, payload))[0] for payload in payloads]
    bed.unmount()
    return [offset_of(address) for address in addresses]


async def filled_together(bed: Bed, *payloads: bytes) -> list[int]:
    """The same, all in one group."""
    async with running(bed.mount()) as user:
        addresses = await put_data(user, *payloads)
    bed.unmount()
    return [offset_of(address) for address in addresses]


async def closed_first_segment(bed: Bed) -> list[int]:
    """A log whose first segment is closed, with records behind it; returns the offsets in the first one."""
    async with running(bed.mount()) as user:
        addresses: list[Address] = []
        while not addresses or addresses[-1] < address_of(2, 0):
            addresses += await put_data(user, bytes([len(addresses)]) * 700)
    bed.unmount()
    return [offset_of(address) for address in addresses if address < address_of(2, 0)]


def zero_from(bed: Bed, offset: int, name: str = FIRST) -> None:
    bed.overwrite(name, offset, bytes(SMALL.segment_bytes - offset))


def flip(bed: Bed, name: str, offset: int) -> None:
    bed.overwrite(name, offset, bytes([bed.image(name)[offset] ^ 0x10]))


async def reopened(bed: Bed) -> User:
    return await opened(bed.mount())


async def test_a_blank_segment_is_an_empty_log(bed: Bed) -> None:
    """BlankLogFile: a segment that was made and never written is reused."""
    bed.mount()
    bed.unmount()
    bed.overwrite(FIRST, 0, bytes(SMALL.segment_bytes))

    async with running(bed.mount()) as user:
        assert user.replayed == []
        await put_data(user, b"first")
        assert user.wal.statistics().segments == 1
    assert (await reopened(bed)).data == [b"first"]


async def test_a_short_blank_segment_is_made_anew(bed: Bed) -> None:
    """A crash in the middle of making the spare leaves a short one."""
    await filled(bed, b"one")
    bed.delete(SECOND)
    bed.overwrite(SECOND, 0, bytes(100))

    async with running(bed.mount()) as user:
        await put_data(user, *[bytes(700)] * 12)
        assert user.wal.statistics().segments == 2
    assert (await reopened(bed)).data == [b"one", *[bytes(700)] * 12]


@pytest.mark.parametrize("kept", [fmt.RECORD_HEADER_BYTES + 50, 7], ids=["in the entry", "in the header"])
async def test_a_tail_torn_in_a_record_is_cut(bed: Bed, kept: int) -> None:
    """TruncateLogInEntry / InHeader: the records before are there, the torn one is not."""
    offsets = await filled(bed, b"a" * 100, b"b" * 100, b"c" * 100)
    zero_from(bed, offsets[2] + kept)

    async with running(bed.mount()) as user:
        assert user.data == [b"a" * 100, b"b" * 100]
        await put_data(user, b"d")
    assert (await reopened(bed)).data == [b"a" * 100, b"b" * 100, b"d"]


async def test_a_tail_torn_at_a_sector_is_cut(bed: Bed) -> None:
    """The group spans sectors and only the first of them was written."""
    offsets = await filled_together(bed, *[bytes([65 + number]) * 300 for number in range(6)])
    zero_from(bed, 1024)
    whole = sum(offset + fmt.RECORD_HEADER_BYTES + 300 <= 1024 for offset in offsets)

    assert (await reopened(bed)).data == [bytes([65 + number]) * 300 for number in range(whole)]
    assert 0 < whole < 6


async def test_a_hole_in_the_last_group_is_torn(bed: Bed) -> None:
    """Sectors are written in any order: whole records behind a hole of the same group were never acknowledged."""
    offsets = await filled_together(bed, *[bytes([65 + number]) * 300 for number in range(6)])
    bed.overwrite(FIRST, 1024, bytes(512))

    async with running(bed.mount()) as user:
        assert len(user.data) == sum(offset + fmt.RECORD_HEADER_BYTES + 300 <= 1024 for offset in offsets)
    assert b"F" * 300 not in bed.image(FIRST)


async def test_stale_bytes_never_come_back(bed: Bed) -> None:
    """ReuseLastSegment: behind a short record in place of a long torn tail, the old records stay dead."""
    offsets = await filled_together(bed, *[bytes([65 + number]) * 100 for number in range(20)])
    flip(bed, FIRST, offsets[3] + 30)

    async with running(bed.mount()) as user:
        assert len(user.data) == 3
        await put_data(user, b"x" * 100)
        assert user.wal.statistics().segments == 1
    assert (await reopened(bed)).data == [b"A" * 100, b"B" * 100, b"C" * 100, b"x" * 100]


async def test_damage_below_a_later_group_is_corruption(bed: Bed) -> None:
    """In an open segment: the group behind proves that the damaged one had been synced. The message says where."""
    offsets = await filled(bed, b"a" * 100, b"b" * 100, b"c" * 100)
    for at in (offsets[1], offsets[1] + 5, offsets[1] + fmt.RECORD_HEADER_BYTES + 7):
        flip(bed, FIRST, at)
        with pytest.raises(CorruptionError, match=f"{FIRST}: damaged at offset {offsets[1]}"):
            await reopened(bed)
        bed.unmount()
        flip(bed, FIRST, at)
    assert len((await reopened(bed)).data) == 3


async def test_a_hole_of_zeros_below_a_later_group_is_corruption(bed: Bed) -> None:
    """Zeros look like the end of the log; the group behind says otherwise."""
    offsets = await filled(bed, b"a" * 100, b"b" * 2000, b"c" * 100)
    bed.overwrite(FIRST, offsets[1], bytes(1024))

    with pytest.raises(CorruptionError, match=f"offset {offsets[1]}"):
        await reopened(bed)


async def test_a_record_inside_a_payload_is_no_record(bed: Bed) -> None:
    """A payload that holds a log file, with proofs of durability in it, torn: still only a torn tail."""
    offsets = await filled(bed, b"a" * 100, b"b" * 100, b"c" * 100)
    inner = bed.image(FIRST)[: offsets[2] + 200]
    async with running(bed.mount()) as user:
        (address,) = await put_data(user, inner)
    bed.unmount()
    flip(bed, FIRST, offset_of(address))

    assert len((await reopened(bed)).data) == 3


@pytest.mark.parametrize("within", [3, fmt.RECORD_HEADER_BYTES + 9], ids=["in the header", "in the entry"])
async def test_damage_under_a_footer_is_corruption(bed: Bed, within: int) -> None:
    """CorruptLogInEntry / InHeader: any flipped bit of any record of a closed segment, the last one too."""
    offsets = await closed_first_segment(bed)
    for at in (offsets[0], offsets[-1]):
        flip(bed, FIRST, at + within)
        with pytest.raises(CorruptionError, match=f"{FIRST}: damaged at offset {at}"):
            await reopened(bed)
        bed.unmount()
        flip(bed, FIRST, at + within)


async def test_a_lost_end_of_a_closed_segment_is_corruption(bed: Bed) -> None:
    """Zeros from some record on look like an end; the footer knows better."""
    offsets = await closed_first_segment(bed)
    bed.overwrite(FIRST, offsets[-1], bytes(720))

    with pytest.raises(CorruptionError, match="under a footer"):
        await reopened(bed)


async def test_a_segment_that_is_not_the_last_needs_its_footer(bed: Bed) -> None:
    """It was durable before the next segment began."""
    await closed_first_segment(bed)
    flip(bed, FIRST, SMALL.segment_bytes - 60)

    with pytest.raises(CorruptionError, match="no valid footer"):
        await reopened(bed)


async def test_a_last_segment_with_a_footer_is_continued_in_the_next(bed: Bed) -> None:
    """A crash between the footer and the first group of the next segment."""
    offsets = await closed_first_segment(bed)
    for name in bed.names()[1:]:
        bed.delete(name)

    async with running(bed.mount()) as user:
        assert len(user.data) == len(offsets)
        await put_data(user, b"next")
        assert user.wal.statistics().segments == 2
    assert (await reopened(bed)).data[-1] == b"next"


@pytest.mark.parametrize(
    "kept", [0, 5, fmt.RECORD_HEADER_BYTES], ids=["no snapshot", "its header torn", "its state torn"]
)
async def test_a_torn_beginning_of_a_segment_is_as_if_it_never_began(bed: Bed, kept: int) -> None:
    """Without its whole snapshot a segment is not continued: else the state would go with the segments before it."""
    offsets = await closed_first_segment(bed)
    zero_from(bed, fmt.HEADER_BYTES + kept, SECOND)

    async with running(bed.mount()) as user:
        assert len(user.data) == len(offsets)
        (address,) = await put_data(user, b"again")
        user.wal.drop_before(address)
        await until(lambda: FIRST not in bed.names())
    again = await reopened(bed)
    assert (again.data, again.known) == ([b"again"], len(offsets) + 1)


@pytest.mark.parametrize("kept", [1, 8, 9, 20, fmt.HEADER_BYTES])
async def test_a_write_that_failed_within_the_header_is_as_if_it_never_began(bed: Bed, kept: int) -> None:
    """The disk took some bytes and no more. Nothing was acknowledged, so a restart is all that it takes."""
    offsets = await closed_first_segment(bed)
    zero_from(bed, kept, SECOND)

    assert len((await reopened(bed)).data) == len(offsets)


async def test_a_lost_header_of_a_torn_beginning(bed: Bed) -> None:
    """The first sector did not make it, the others did: never begun, and nothing of it comes back."""
    offsets = await closed_first_segment(bed)
    async with running(bed.mount()):
        pass
    bed.overwrite(SECOND, 0, bytes(512))

    assert len((await reopened(bed)).data) == len(offsets)
    assert SECOND not in bed.names()


async def test_a_damaged_header_is_corruption(bed: Bed) -> None:
    """Neither zeros nor a segment: such a file is not one that never began."""
    await filled(bed, b"a", b"b")
    for at in (0, 9, 14, 20, 24):
        flip(bed, FIRST, at)
        with pytest.raises((CorruptionError, MalformedError), match=FIRST):
            await reopened(bed)
        bed.unmount()
        flip(bed, FIRST, at)
    bed.overwrite(FIRST, 0, bytes(fmt.HEADER_BYTES))
    with pytest.raises(CorruptionError, match="offset 0"):
        await reopened(bed)


async def test_another_version_is_refused(bed: Bed) -> None:
    """With a message that names both versions, and without touching the file."""
    await filled(bed, b"a")
    bed.overwrite(FIRST, 8, b"\x09\0\0\0")
    before = bed.image(FIRST)

    with pytest.raises(MalformedError, match="format version 9; this program reads version 1"):
        await reopened(bed)
    assert bed.image(FIRST) == before


async def test_a_missing_segment_is_corruption(bed: Bed) -> None:
    """In the middle, and before a spare that is all that is left."""
    async with running(bed.mount()) as user:
        await put_data(user, *[bytes(700)] * 30)
        await until(lambda: user.wal._segment_files.spare is not None)
    bed.unmount()
    names = bed.names()
    assert len(names) >= 4
    bed.delete(SECOND)
    with pytest.raises(CorruptionError, match="missing between wal-0000000001 and wal-0000000003"):
        await reopened(bed)
    bed.unmount()

    for name in names[:-1]:
        if name != SECOND:
            bed.delete(name)
    with pytest.raises(CorruptionError, match="the segments before it are missing"):
        await reopened(bed)


async def test_a_segment_under_the_name_of_another_is_corruption(bed: Bed) -> None:
    """Each segment knows its number, and so does each record."""
    await filled(bed, b"a")
    image = bed.image(FIRST)
    for name in bed.names():
        bed.delete(name)
    bed.overwrite(fmt.name_of(7), 0, image)

    with pytest.raises(CorruptionError, match="header is that of segment 1"):
        await reopened(bed)


async def test_high_addresses(bed: Bed) -> None:
    """ReadReplicatesHighIndex: addresses far beyond 32 bits, up to the last segment number but one."""
    number = (1 << 31) - 2
    segment, chunks = Segment.begin(number, SMALL.segment_bytes, [])
    (address,) = segment.encode([WalRecord(DATA, b"far")], chunks)
    bed.mount()
    bed.unmount()
    bed.overwrite(fmt.name_of(number), 0, b"".join(chunks).ljust(SMALL.segment_bytes, b"\0"))

    async with running(bed.mount()) as user:
        assert user.replayed == [(address, WalRecord(DATA, b"far"))]
        assert await user.wal.read(address) == WalRecord(DATA, b"far")
        (further,) = await put_data(user, b"further")
    assert (1 << 62) < address < further < (1 << 63)
    assert (await reopened(bed)).data == [b"far", b"further"]


async def test_a_damaged_record_is_not_read(bed: Bed) -> None:
    """A bit flips while the log is open: the reader gets an error."""
    async with running(bed.mount()) as user:
        addresses = [(await put_data(user, payload))[0] for payload in (b"a" * 100, b"b" * 100)]
        for at in (offset_of(addresses[0]) + 6, offset_of(addresses[1]) + 30):
            flip(bed, FIRST, at)
        for address in addresses:
            with pytest.raises(CorruptionError, match=f"offset {offset_of(address)}"):
                await user.wal.read(address)
        with pytest.raises(CorruptionError):
            await user.wal.read(Address(addresses[0] + 1))


async def test_segments_of_another_size_stay_readable(bed: Bed) -> None:
    """A change of `segment_bytes` concerns new segments; a spare of the old size is replaced."""
    await filled(bed, b"old")
    larger = type(SMALL)(segment_bytes=1 << 15, record_bytes_max=2048, group_bytes_max=4096, headroom_bytes=1024)
    async with running(bed.mount(), larger) as user:
        await put_data(user, *[bytes(700)] * 20)
    assert {len(bed.image(name)) for name in bed.names()} == {SMALL.segment_bytes, larger.segment_bytes}
    bed.unmount()

    assert (await opened(bed.mount(), SMALL)).data == [b"old", *[bytes(700)] * 20]


async def test_foreign_files_are_left_alone(bed: Bed) -> None:
    """Only names of segments are looked at."""
    await filled(bed, b"a")
    bed.overwrite("notes.txt", 0, b"hello")

    assert (await reopened(bed)).data == [b"a"]
    assert "notes.txt" in bed.names()


async def test_opening_twice_without_an_appender_changes_nothing(bed: Bed) -> None:
    """Recovery of a recovered log: the same records, the same bytes."""
    await filled(bed, b"a", b"b")
    await reopened(bed)
    bed.unmount()
    before = bed.image(FIRST)

    assert (await reopened(bed)).data == [b"a", b"b"]
    assert bed.image(FIRST) == before
