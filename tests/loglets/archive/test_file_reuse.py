"""Files that a former attempt has left are taken if they are right, from any writer; else they are
made anew."""

from __future__ import annotations

import attrs
import pytest
import trio

from tests.loglets.archive.archive_bench import SESSION, DictFiles, FixedLoglet, Made, batches, environment, make
from tests.loglets.archive.test_format import FOLDER, START, config, items, sample
from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import CorruptionError, MalformedError, UnavailableError
from virtuallog.contract.types import Gap, GapKind, PlacedBatch
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core.manifest import DataFile
from virtuallog_loglets.archive.creation.executor import SerialExecutor, reuse_file
from virtuallog_loglets.archive.creation.segment_source import SegmentSource
from virtuallog_loglets.archive.creation.spans import ArchiveSpan
from virtuallog_loglets.archive.creation.verification import ArchiveVerifier

ITEMS = [*batches(40), Gap(120, 150, GapKind.FILLER), Gap(150, 160, GapKind.LOST)]


async def left(nursery: trio.Nursery) -> tuple[Made, DataFile, ArchiveSpan]:
    """State after an attempt without a manifest, and one file of it."""
    made = await make(nursery, ITEMS)
    file = made.archived.manifest.files[1]
    return made, file, ArchiveSpan(file.start, file.stop, file.name)


def source(made: Made, hot: FixedLoglet | None = None) -> SegmentSource:
    return SegmentSource.of(hot or made.hot, made.segment, made.environment.clock)


async def test_every_file_is_described_as_its_maker_did(nursery: trio.Nursery) -> None:
    """Its rows, its row groups, its checksums: the manifest is the same, for any writer of the files."""
    made, _, _ = await left(nursery)
    for file in made.archived.manifest.files:
        adopted = await reuse_file(ArchiveSpan(file.start, file.stop, file.name), made.shelf.only, source(made))
        assert adopted is not None
        assert adopted.file == file
        assert adopted.trimmed == 0
    assert len(made.archived.manifest.files) > 3


async def test_a_file_of_a_trimmed_start_says_so(nursery: trio.Nursery) -> None:
    """A reused file of a trimmed start names its trim point, so that the manifest does, too."""
    made = await make(nursery, [Gap(0, 50, GapKind.TRIMMED), *[item for item in ITEMS if item.start >= 50][1:]][:1])
    file = made.archived.manifest.files[0]
    adopted = await reuse_file(ArchiveSpan(file.start, file.stop, file.name), made.shelf.only, source(made))

    assert adopted is not None
    assert (adopted.trimmed, made.archived.manifest.trimmed) == (50, 50)


async def test_what_is_torn_or_damaged_is_not_taken(nursery: trio.Nursery) -> None:
    """A file is not reused if it is torn, damaged, gone, not Parquet, or named unlike its content."""
    made, file, span = await left(nursery)
    content = made.shelf.only.content
    sound = content[file.name]
    for damaged in (sound[:-1], sound[: len(sound) // 2], b"", sound[:99] + b"?" + sound[100:]):
        content[file.name] = damaged
        assert await reuse_file(span, made.shelf.only, source(made)) is None

    other = file.name.replace(f"{file.stop:020d}", f"{file.stop + 1:020d}")
    content[other] = sound
    assert await reuse_file(ArchiveSpan(file.start, file.stop + 1, other), made.shelf.only, source(made)) is None
    checksum = manifests.checksum(b"no Parquet").partition(":")[2][:16]
    content[f"{file.name[:42]}{checksum}.parquet"] = b"no Parquet"
    assert (
        await reuse_file(attrs.evolve(span, found=f"{file.name[:42]}{checksum}.parquet"), made.shelf.only, source(made))
        is None
    )
    del content[file.name]
    assert await reuse_file(span, made.shelf.only, source(made)) is None


async def test_what_the_nodes_do_not_have_is_not_taken(nursery: trio.Nursery) -> None:
    """A whole file, of a log in another life, or of an attacker: it is made anew, and the archive is right."""
    made, file, span = await left(nursery)
    others = list(ITEMS)
    index = next(index for index, item in enumerate(ITEMS) if item.start >= file.start)
    places = range(ITEMS[index].start, ITEMS[index].stop)
    others[index] = PlacedBatch(places, Batch.build(SESSION, places.start, [b"?"] * 3), 1_000 + index)
    hot = FixedLoglet(others)

    assert await reuse_file(span, made.shelf.only, source(made, hot)) is None
    executor = SerialExecutor(source(made, hot), made.shelf.only)
    (again,) = await executor.make([span], lambda position: None)
    assert again.file.name != file.name
    assert (again.file.start, again.file.stop) == (file.start, file.stop)


async def test_what_was_trimmed_since_is_taken_as_it_is(nursery: trio.Nursery) -> None:
    """It agrees with what is left in the nodes."""
    made, file, span = await left(nursery)
    hot = FixedLoglet(ITEMS, trim=file.start + 4)
    adopted = await reuse_file(span, made.shelf.only, source(made, hot))

    assert adopted is not None
    assert adopted.file == file


async def test_silence_is_no_answer(nursery: trio.Nursery) -> None:
    """A place that does not answer has not said that a file is wrong."""
    made, _, span = await left(nursery)
    made.shelf.only.broken = True
    with pytest.raises(UnavailableError):
        await reuse_file(span, made.shelf.only, source(made))


# -- checksums of the content -----------------------------------------------------------------------------------------------


def former() -> tuple[manifests.ArchiveManifest, DictFiles]:
    """An archive of a program that had one checksum for all entries."""
    files = sample(FOLDER)
    return manifests.decode_untrusted(files.content[manifests.NAME]), files


async def test_an_archive_of_a_former_program_is_verified(nursery: trio.Nursery) -> None:
    """By the checksum over all of its entries; and compared with the hot copy. A wrong one is found."""
    manifest, files = former()
    assert not manifest.is_by_file
    shifted = [item.shift(START) for item in items()]
    hot = SegmentSource(FixedLoglet(shifted), 0, environment(nursery).clock)
    verified = await ArchiveVerifier(manifest=manifest, files=files, executor=SerialExecutor(hot, files)).run()
    assert (verified.stop, verified.entries, verified.compared) == (config(b"").stop, 183, True)

    wrong = attrs.evolve(manifest, content="sha256:" + "0" * 64)
    with pytest.raises(CorruptionError, match="checksum of its content"):
        await ArchiveVerifier(manifest=wrong, files=files, executor=SerialExecutor(None, files)).run()


async def test_each_file_has_a_checksum_of_its_content(nursery: trio.Nursery) -> None:
    """The checksum must be that of its rows; and the manifest's is that of all of these."""
    made, file, _ = await left(nursery)
    manifest, files = made.archived.manifest, made.shelf.only
    assert manifest.is_by_file
    assert manifests.decode_untrusted(manifest.encode()) == manifest

    lying = tuple(attrs.evolve(one, content="sha256:0") if one == file else one for one in manifest.files)
    wrong = attrs.evolve(manifest, files=lying)
    with pytest.raises(MalformedError, match="checksum of the content"):
        manifests.decode_untrusted(wrong.encode())
    consistent = manifests.decode_untrusted(attrs.evolve(wrong, content=manifests.content_of(lying)).encode())
    with pytest.raises(CorruptionError, match="do not match their checksum"):
        await ArchiveVerifier(manifest=consistent, files=files, executor=SerialExecutor(None, files)).run()
    without = tuple(attrs.evolve(one, content="") for one in manifest.files)
    with pytest.raises(MalformedError, match="checksum of the content"):
        manifests.decode_untrusted(attrs.evolve(manifest, files=without).encode())
