"""An archive as a loglet: closed from the beginning, honest about trims and damage, with a hot copy to fall back on."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.loglets.archive.archive_bench import DictFiles, Made, batches, environment, make, read_all
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import (
    BeyondTailError,
    CorruptionError,
    MalformedError,
    SealedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.types import Gap, GapKind, LogletOffset, PlacedBatch, Sealed
from virtuallog.testing.logs import capture_logs
from virtuallog_loglets.archive.config import decode_untrusted
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.drivers.trim_markers import MARKERS_KEPT, marker
from virtuallog_loglets.archive.loglet import FILE_SECONDS, HOT_SECONDS, SILENT_SECONDS, ArchiveLoglet

START, STOP = 1_000, 1_120
ITEMS = batches(40)


async def made(nursery: trio.Nursery) -> Made:
    """Positions 1000 to 1119 in 40 batches and several files."""
    return await make(nursery, ITEMS, START)


def damage(files: DictFiles, name: str, how: str) -> None:
    content = files.content[name]
    match how:
        case "missing":
            del files.content[name]
        case "empty":
            files.content[name] = b""
        case "cut":
            files.content[name] = content[: len(content) // 2]
        case "flipped":
            files.content[name] = content[:50] + bytes(byte ^ 1 for byte in content[50:90]) + content[90:]
        case "longer":
            files.content[name] = content + b"x"


async def test_it_is_closed_from_the_beginning(nursery: trio.Nursery) -> None:
    """It takes no appends, and a seal has nothing to do; the tail is the end of the segment."""
    loglet = (await made(nursery)).open()
    batch = Batch.build(SessionId(bytes(16)), 0, [b"late"])

    await loglet.seal()
    assert await loglet.check_tail() == Sealed(STOP)
    assert await loglet.wait_tail(LogletOffset(STOP)) == Sealed(STOP)
    with pytest.raises(SealedError) as refused:
        await loglet.append(batch, opens=True)
    assert refused.value.refused
    with pytest.raises(BeyondTailError):
        await loglet.read(LogletOffset(STOP), LogletOffset(STOP + 1), 100)


async def test_reads_are_clipped_and_bounded(nursery: trio.Nursery) -> None:
    """A read begins at its start in the middle of a batch, ends at its stop, and brings at least one item."""
    loglet = (await made(nursery)).open()
    shifted = [item.shift(START) for item in ITEMS]

    for start, stop in ((START, START + 1), (START + 1, START + 5), (START + 4, STOP), (STOP - 1, STOP)):
        found = await read_all(loglet, start, stop)
        assert found == [part for item in shifted if (part := item.clip(start, stop)) is not None]
    assert len(await loglet.read(LogletOffset(START), LogletOffset(STOP), 1)) == 1
    assert len(await read_all(loglet, START, STOP, max_bytes=1)) == 40


async def test_a_row_group_is_read_once(nursery: trio.Nursery) -> None:
    """Readers go through it in many reads; only parts of files are ever asked for."""
    asked = list[int]()

    class Counting(DictFiles):
        async def read_range(self, name: str, start: int, stop: int) -> bytes | None:
            asked.append(stop - start)
            return await super().read_range(name, start, stop)

    archive = await made(nursery)
    files = Counting(archive.shelf.only.content)
    await read_all(ArchiveLoglet(archive.archived.config, files, archive.environment.clock, None), START, STOP, 1)

    groups = len(asked) - len(archive.archived.manifest.files)
    assert len(archive.archived.manifest.files) < groups < 40
    assert sum(asked) <= archive.archived.manifest.size


# -- trims ----------------------------------------------------------------------------------------------------------------


async def test_trims_add_up(nursery: trio.Nursery) -> None:
    """The trim point never goes back, for any client; it stays within the segment; the space comes back."""
    archive = await made(nursery)
    one, other, names = archive.open(), archive.open(), archive.shelf.only.content
    before = len(names)

    assert await one.prefix_trim(LogletOffset(0)) == START
    assert len(names) == before, "nothing was asked for, so nothing was written"
    assert await one.prefix_trim(LogletOffset(START + 50)) == START + 50
    assert await other.prefix_trim(LogletOffset(START + 10)) == START + 50
    assert await read_all(one, START, STOP) == [
        Gap(START, START + 50, GapKind.TRIMMED),
        *[part for item in ITEMS if (part := item.shift(START).clip(START + 50, STOP)) is not None],
    ]
    assert await other.prefix_trim(LogletOffset(STOP + 5)) == STOP
    assert await read_all(archive.open(), START, STOP) == [Gap(START, STOP, GapKind.TRIMMED)]
    assert [name for name in names if name.endswith(".parquet")] == []
    assert await one.check_tail() == Sealed(STOP)


async def test_a_reader_meets_a_trim(nursery: trio.Nursery) -> None:
    """A client that has not heard of it finds files missing: trimmed, and no damage. What is in memory may still be read."""
    archive = await made(nursery)
    late, trimming = archive.open(), archive.open()
    await late.read(LogletOffset(START), LogletOffset(STOP), 100)
    await trimming.prefix_trim(LogletOffset(STOP - 1))

    assert (await late.read(LogletOffset(START), LogletOffset(STOP), 100))[0] == ITEMS[0].shift(START)
    (gap,) = await late.read(LogletOffset(START + 60), LogletOffset(STOP), 100)
    assert gap == Gap(START + 60, STOP - 1, GapKind.TRIMMED)
    assert len(await read_all(late, START, STOP)) == 2


async def test_without_its_manifest_an_archive_is_still_trimmed(nursery: trio.Nursery) -> None:
    """As long as there is a hot copy: it knows how far the segment had been trimmed, and markers count in any case."""
    archive = await made(nursery)
    kept = archive.shelf.only.content.pop(manifests.NAME)
    archive.hot.trim = 5

    with pytest.raises(CorruptionError):
        await archive.open().prefix_trim(LogletOffset(START))
    assert await archive.open(with_hot=True).prefix_trim(LogletOffset(0)) == START + 5
    assert await archive.open(with_hot=True).prefix_trim(LogletOffset(START + 30)) == START + 30
    assert archive.hot.trim == 30
    archive.shelf.only.content[manifests.NAME] = kept
    assert await archive.open().prefix_trim(LogletOffset(0)) == START + 30


async def test_markers_do_not_pile_up(nursery: trio.Nursery) -> None:
    """The last of many trim markers stay."""
    archive = await made(nursery)
    loglet, names = archive.open(), archive.shelf.only.content
    for position in range(START + 1, START + 60):
        assert await loglet.prefix_trim(LogletOffset(position)) == position

    markers = sorted(name for name in names if name.startswith("trimmed-"))
    assert len(markers) <= MARKERS_KEPT + 1
    assert markers[-1] == marker(START + 59)


async def test_what_others_put_there_says_nothing(nursery: trio.Nursery) -> None:
    """Names that only look like markers are ignored; a marker beyond the end trims everything and no more."""
    archive = await made(nursery)
    for name in ("trimmed-", "trimmed-12", "trimmed-0000000000000000xxxx", "trimmed-" + "9" * 21, "_SUCCESS"):
        archive.shelf.only.content[name] = b""
    assert await archive.open().prefix_trim(LogletOffset(0)) == START

    archive.shelf.only.content[marker(1 << 62)] = b""
    assert await archive.open().prefix_trim(LogletOffset(0)) == STOP


# -- damage ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "flipped", "longer"])
@pytest.mark.parametrize("what", ["manifest", "data"])
async def test_damage_is_an_error_by_type_and_never_other_data(what: str, how: str, nursery: trio.Nursery) -> None:
    """Without a hot copy a read fails; everything before the damage is right."""
    archive = await made(nursery)
    name = manifests.NAME if what == "manifest" else archive.archived.manifest.files[1].name
    damage(archive.shelf.only, name, how)
    loglet, found = archive.open(), list[PlacedBatch | Gap]()
    harmless = what == "data" and how == "longer"  # readers take from a file what belongs to it

    with nullcontext() if harmless else pytest.raises(CorruptionError):
        at = START
        while at < STOP:
            found += await loglet.read(LogletOffset(at), LogletOffset(STOP), 1)
            at = found[-1].stop
    assert found == [item.shift(START) for item in ITEMS[: len(found)]]
    if not (what == "data" and how == "flipped"):  # for that one had to read the file
        with pytest.raises(CorruptionError):
            await archive.open().check_tail()


@pytest.mark.parametrize("how", ["missing", "cut", "flipped"])
@pytest.mark.parametrize("what", ["manifest", "data", "everything"])
async def test_the_hot_copy_serves_while_there_is_one(what: str, how: str, nursery: trio.Nursery) -> None:
    """Readers notice nothing, but the log does. A check of the tail still says what is wrong with the archive."""
    archive = await made(nursery)
    files = archive.shelf.only
    if what == "everything":
        files.broken = True
    else:
        name = manifests.NAME if what == "manifest" else archive.archived.manifest.files[1].name
        damage(files, name, how)
    loglet = archive.open(with_hot=True)

    with capture_logs() as logged:
        assert await read_all(loglet, START, STOP) == [item.shift(START) for item in ITEMS]
    assert any(line["log_level"] == "warning" and "hot copy" in line["event"] for line in logged)
    if what != "data" or how != "flipped":
        with pytest.raises((CorruptionError, UnavailableError)):
            await loglet.check_tail()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"cluster": "d2" * 16}, MalformedError),
        ({"stop": STOP + 1}, MalformedError),
        ({"start": START - 1}, MalformedError),
        ({"manifest": "sha256:" + "0" * 64}, CorruptionError),
    ],
)
async def test_another_archive_in_its_place_is_refused(
    change: dict[str, object], error: type[VirtualLogError], nursery: trio.Nursery
) -> None:
    """An archive of another cluster, another part of the log, or made otherwise than the one that
    the chain means."""
    archive = await made(nursery)
    config = attrs.evolve(archive.archived.config, hot=None, **change)  # type: ignore[arg-type]
    loglet = archive.provider.open(archive.segment.id, config.encode(), archive.environment)

    with pytest.raises(error):
        await loglet.check_tail()
    with pytest.raises(error):
        await loglet.read(LogletOffset(START), LogletOffset(STOP), 100)


async def test_a_place_that_never_answers_is_unavailable(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """A call that hangs is given up: what is unavailable may be there again later."""

    class Hanging(DictFiles):
        async def read(self, name: str) -> bytes | None:
            await trio.sleep_forever()

    archive = await made(nursery)
    found = environment(nursery)
    config = attrs.evolve(archive.archived.config, hot=None)
    loglet, before = ArchiveLoglet(config, Hanging(), found.clock, None), found.clock.monotonic()

    with pytest.raises(UnavailableError, match="has not answered"):
        await loglet.read(LogletOffset(START), LogletOffset(STOP), 100)
    assert found.clock.monotonic() - before == FILE_SECONDS


async def test_a_place_that_hangs_keeps_few_readers_waiting(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """While there is a hot copy one read waits for the files, and not for long. Later they are asked again."""

    class Hanging(DictFiles):
        hangs = True

        async def read(self, name: str) -> bytes | None:
            if self.hangs:
                await trio.sleep_forever()
            return await super().read(name)

    archive = await made(nursery)
    files, clock = Hanging(archive.shelf.only.content), archive.environment.clock
    loglet = ArchiveLoglet(archive.archived.config, files, clock, lambda: archive.hot)

    before = clock.monotonic()
    assert await read_all(loglet, START, STOP, max_bytes=1) == [item.shift(START) for item in ITEMS]
    assert clock.monotonic() - before == HOT_SECONDS

    files.hangs, reads = False, archive.hot.reads
    await clock.sleep(SILENT_SECONDS)
    assert await read_all(loglet, START, STOP) == [item.shift(START) for item in ITEMS]
    assert archive.hot.reads == reads


def mutated(config: dict[str, object]) -> list[dict[str, object]]:
    """Each field missing, of another type, or out of this world."""
    found: list[dict[str, object]] = []
    values: list[object] = [None, [], -1, 1 << 64, True, {}, "../x"]
    for name in config:
        found += [{key: value for key, value in config.items() if key != name}]
        found += [{**config, name: value} for value in values]
    return found


async def test_a_config_that_cannot_be_is_malformed(nursery: trio.Nursery) -> None:
    """Put there by hand, or by a program that is newer or broken. Unknown fields stay."""
    config = (await made(nursery)).archived.config
    fields = json.loads(config.encode())
    assert decode_untrusted(config.encode()) == config
    known = decode_untrusted(json.dumps({**fields, "colour": "blue"}).encode())
    assert json.loads(known.encode())["colour"] == "blue"

    for wrong in [*mutated(fields), *({**fields, "hot": hot} for hot in mutated(fields["hot"]))]:
        with suppress(MalformedError):  # or it is right all the same: no hot copy, say
            decode_untrusted(json.dumps(wrong).encode())
    for blob in (b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000):
        with pytest.raises(MalformedError):
            decode_untrusted(blob)
    with pytest.raises(MalformedError):
        decode_untrusted(json.dumps({**fields, "url": "s3://user:secret@bucket/x"}).encode())
