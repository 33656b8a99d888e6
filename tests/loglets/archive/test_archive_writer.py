"""Archives are made in order, resumable, never over another one, and trusted only once they were read back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.loglets.archive.archive_bench import (
    CLUSTER,
    SESSION,
    SMALL,
    URL,
    ArchivePlace,
    DictFiles,
    FixedLoglet,
    archiving,
    batches,
    environment,
    make,
    read_all,
    segment_of,
)
from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import (
    CorruptionError,
    InvalidSettingError,
    MalformedError,
    StorageError,
    UnavailableError,
)
from virtuallog.contract.types import Gap, GapKind, LogletOffset, PlacedBatch
from virtuallog_loglets.archive import ArchiveProvider
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.creation.archiver import verify_archive
from virtuallog_loglets.archive.creation.executor import SerialExecutor
from virtuallog_loglets.archive.creation.verification import ArchiveVerifier
from virtuallog_loglets.archive.drivers.trim_markers import marker

ITEMS = batches(60)
STOP = 180


def names(files: DictFiles) -> list[str]:
    return [name for name in sorted(files.content) if name.endswith(".parquet")]


async def test_the_manifest_comes_last(nursery: trio.Nursery) -> None:
    """Every data file is there before the manifest: half an archive does not count as one."""
    order = list[str]()
    shelf, hot = ArchivePlace(), FixedLoglet(ITEMS)
    files = DictFiles(before_write=order.append)
    shelf.directories[archiving(ArchiveProvider(shelf), environment(nursery)).location(segment_of(ITEMS))] = files
    archived = await archiving(ArchiveProvider(shelf), environment(nursery)).run(segment_of(ITEMS), hot)

    assert order == [*(file.name for file in archived.manifest.files), manifests.NAME]
    assert len(order) > 3


@pytest.mark.parametrize("seed", range(8))
async def test_whoever_comes_after_a_crash_goes_on(seed: int, nursery: trio.Nursery) -> None:
    """Killed at any write, as often as it takes: the result is the same as without, and no whole file is written twice."""
    whole = await make(nursery, ITEMS)
    source, written = random.Random(seed), list[str]()
    shelf, hot, segment = ArchivePlace(), FixedLoglet(ITEMS), segment_of(ITEMS)

    def crash(name: str) -> None:
        if source.random() < 0.4:
            if source.random() < 0.5:  # where a file is not made in one step
                files.content[name] = whole.shelf.only.content[name][: source.randrange(1, 300)]
            raise StorageError("killed")
        written.append(name)

    files = DictFiles(before_write=crash)
    shelf.directories[archiving(ArchiveProvider(shelf), environment(nursery)).location(segment)] = files
    while True:
        try:
            archived = await archiving(ArchiveProvider(shelf), environment(nursery)).run(segment, hot)
            break
        except StorageError:
            continue

    assert archived.manifest == whole.archived.manifest
    assert files.content == whole.shelf.only.content
    assert sorted(written) == sorted(files.content)


async def test_a_damaged_file_of_an_interrupted_archive_is_written_again(nursery: trio.Nursery) -> None:
    """It does not have the checksum that its name has."""
    whole = await make(nursery, ITEMS)
    files = whole.shelf.only
    expected = dict(files.content)
    del files.content[manifests.NAME]
    name = names(files)[1]
    files.content[name] = files.content[name][:-1] + b"x"

    archived = await archiving(whole.provider, whole.environment).run(whole.segment, whole.hot)
    assert files.content == expected
    assert archived.verified.entries == STOP


async def test_an_archive_that_is_there_is_taken(nursery: trio.Nursery) -> None:
    """Nothing is written; it is read back and compared all the same."""
    whole = await make(nursery, ITEMS)
    files = whole.shelf.only

    def refuse(name: str) -> None:
        raise AssertionError(name)

    files.before_write = refuse
    again = await archiving(whole.provider, whole.environment).run(whole.segment, whole.hot)
    assert (again.manifest, again.verified) == (whole.archived.manifest, whole.archived.verified)


async def test_two_at_once_make_one_archive(nursery: trio.Nursery) -> None:
    """Two operators, one of whom has met a trim: both end up with the manifest that was first."""
    shelf, segment, found = ArchivePlace(), segment_of(ITEMS), environment(nursery)
    made = list[str]()

    class Trimmed(FixedLoglet):
        async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> list[PlacedBatch | Gap]:
            items, self.trim = await super().read(start, stop, max_bytes), 30
            return list(items)

    async def run(hot: FixedLoglet) -> None:
        archived = await archiving(ArchiveProvider(shelf), found).run(segment, hot)
        made.append(archived.config.manifest)

    async with trio.open_nursery() as both:
        hot = Trimmed(ITEMS)
        both.start_soon(run, hot)
        both.start_soon(run, hot)
    assert len(set(made)) == 1
    assert made[0] == manifests.checksum(shelf.only.content[manifests.NAME])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cluster": "d2" * 16}, "cluster"),
        ({"start": 1}, r"\[1, 180\)"),
        ({"version": 2}, "version 2"),
        ({"format": "x"}, "format"),
    ],
)
async def test_another_archive_in_the_way_is_left_alone(
    change: dict[str, object], message: str, nursery: trio.Nursery
) -> None:
    """The archive of another cluster, of another part of the log, or one of a later version."""
    whole = await make(nursery, ITEMS)
    files = whole.shelf.only
    fields = json.loads(files.content[manifests.NAME])
    if "start" in change:
        fields["files"][0]["start"] = fields["files"][0]["groups"][0][0] = fields["trimmed"] = change["start"]
    files.content[manifests.NAME] = json.dumps({**fields, **change}).encode()
    before = dict(files.content)

    with pytest.raises(MalformedError, match=message):
        await archiving(whole.provider, whole.environment).run(whole.segment, whole.hot)
    assert files.content == before


@pytest.mark.parametrize("change", [{"stop": None}, {"stop": 0}, {"kind": "archive"}])
async def test_what_cannot_be_archived_is_refused(change: dict[str, object], nursery: trio.Nursery) -> None:
    """An open segment, an empty one, an archive; and a URL with a password in it. Nothing is written."""
    shelf = ArchivePlace()
    work = archiving(ArchiveProvider(shelf), environment(nursery))
    with pytest.raises(InvalidSettingError):
        await work.run(attrs.evolve(segment_of(ITEMS), **change), FixedLoglet(ITEMS))  # type: ignore[arg-type]
    for url in ("s3://user:secret@bucket/x", "nowhere", "simplecache::s3://key@bucket"):
        with pytest.raises(InvalidSettingError):
            await attrs.evolve(work, url=url).run(segment_of(ITEMS), FixedLoglet(ITEMS))
    assert shelf.directories == {}


async def test_a_loglet_that_does_not_answer_is_waited_for(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    """Some of its servers may be restarting; after a minute it is enough."""

    class Restarting(FixedLoglet):
        async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> list[PlacedBatch | Gap]:
            self.broken = self.reads % 3 != 0
            return list(await super().read(start, stop, max_bytes))

    shelf = ArchivePlace()
    archived = await archiving(ArchiveProvider(shelf), environment(nursery)).run(segment_of(ITEMS), Restarting(ITEMS))
    assert archived.verified.entries == STOP
    with pytest.raises(UnavailableError):
        await archiving(ArchiveProvider(ArchivePlace()), environment(nursery)).run(
            segment_of(ITEMS), FixedLoglet(ITEMS, broken=True)
        )


async def test_a_whole_manifest_that_came_meanwhile_stays(nursery: trio.Nursery) -> None:
    """Two operators meet half a manifest. The slower one must not replace what the faster one has put into the chain."""
    shelf, found, segment, started = ArchivePlace(), environment(nursery), segment_of(ITEMS), trio.Event()
    provider = ArchiveProvider(shelf)
    files = DictFiles({manifests.NAME: b'{"format": "virtuallog-archive", "ver'})
    shelf.directories[archiving(provider, found).location(segment)] = files

    class Waiting(FixedLoglet):
        async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> list[PlacedBatch | Gap]:
            await started.wait()
            return list(await super().read(start, stop, max_bytes))

    async with trio.open_nursery() as other:
        other.start_soon(archiving(provider, found).run, segment, Waiting(ITEMS, trim=30))
        await trio.testing.wait_all_tasks_blocked()
        first = await archiving(provider, found).run(segment, FixedLoglet(ITEMS))
        started.set()
    assert manifests.checksum(files.content[manifests.NAME]) == first.config.manifest


async def still_hot(segment: Segment) -> bool:
    return True


def damaged_data(files: DictFiles) -> None:
    name = names(files)[1]
    files.content[name] = files.content[name][:-1] + b"x"


def damaged_manifest(files: DictFiles) -> None:
    files.content[manifests.NAME] = files.content[manifests.NAME].replace(b'"trimmed": 0,', b'"trimmed": 8,')


def damaged_totals(files: DictFiles) -> None:
    files.content[manifests.NAME] = files.content[manifests.NAME].replace(b'"gaps": 0', b'"gaps": 1')


def damaged_checksum(files: DictFiles) -> None:
    files.content[manifests.NAME] = files.content[manifests.NAME].replace(
        b'"content": "sha256:', b'"content": "sha256;'
    )


@pytest.mark.parametrize("damage", [damaged_data, damaged_manifest, damaged_totals, damaged_checksum])
async def test_what_is_damaged_is_written_anew_as_long_as_no_chain_names_it(
    damage: Callable[[DictFiles], None], nursery: trio.Nursery
) -> None:
    """The next attempt gets an archive, instead of the same refusal for ever."""
    whole = await make(nursery, ITEMS)
    files = whole.shelf.only
    expected = dict(files.content)
    damage(files)
    assert files.content != expected

    work = attrs.evolve(archiving(whole.provider, whole.environment), is_still_hot=still_hot)
    again = await work.run(whole.segment, whole.hot)
    assert files.content == expected
    assert again.verified.entries == STOP


async def test_a_damaged_archive_that_a_chain_may_name_is_left_alone(nursery: trio.Nursery) -> None:
    """Its manifest must stay what the chain says."""
    whole = await make(nursery, ITEMS)
    damaged_data(whole.shelf.only)
    before = dict(whole.shelf.only.content)
    with pytest.raises(CorruptionError):
        await archiving(whole.provider, whole.environment).run(whole.segment, whole.hot)
    assert whole.shelf.only.content == before


async def test_an_archive_that_came_into_the_chain_meanwhile_is_left_alone(nursery: trio.Nursery) -> None:
    """Another archiver had verified it before it was damaged, and put it while it was written anew:
    its manifest stays."""
    whole, answers = await make(nursery, ITEMS), [True, False]
    files = whole.shelf.only
    damaged_data(files)
    before = files.content[manifests.NAME]
    whole.hot.trim = 30  # the file that is made anew has less

    async def hot_at_first(_: Segment) -> bool:
        return answers.pop(0)

    work = attrs.evolve(archiving(whole.provider, whole.environment), is_still_hot=hot_at_first)
    with suppress(CorruptionError):
        await work.run(whole.segment, whole.hot)
    assert answers == []
    assert files.content[manifests.NAME] == before


# -- what is read back ----------------------------------------------------------------------------------------------------


def other_payload() -> list[PlacedBatch | Gap]:
    found = list(ITEMS)
    found[30] = PlacedBatch(range(90, 93), Batch.build(SESSION, 90, [b"?"] * 3), 1_030)
    return found


def other_time() -> list[PlacedBatch | Gap]:
    found = list(ITEMS)
    found[30] = PlacedBatch(range(90, 93), ITEMS[30].batch, 5)  # type: ignore[union-attr]
    return found


def lost_entries() -> list[PlacedBatch | Gap]:
    return [*ITEMS[:30], Gap(90, 93, GapKind.LOST), *ITEMS[31:]]


@pytest.mark.parametrize("hot", [other_payload(), other_time(), lost_entries()], ids=["payload", "time", "gap"])
async def test_an_archive_that_differs_from_the_segment_is_no_archive_of_it(
    hot: list[PlacedBatch | Gap], nursery: trio.Nursery
) -> None:
    """Whole in itself, but not what the nodes have: it must not take their place."""
    whole = await make(nursery, ITEMS)

    with pytest.raises(CorruptionError, match="has not what the hot copy has"):
        await archiving(whole.provider, whole.environment).run(whole.segment, FixedLoglet(hot))


async def test_an_archive_that_claims_to_be_trimmed_is_none_of_what_is_not(nursery: trio.Nursery) -> None:
    """A marker is left from before the log was restored from a backup, or a manifest from one who saw it trimmed: the hot copy,
    which has all entries, must not go for it."""
    for trimmed in (70, STOP):
        shelf, found, segment = ArchivePlace(), environment(nursery), segment_of(ITEMS)
        provider = ArchiveProvider(shelf)
        files = DictFiles({marker(trimmed): b""})
        shelf.directories[archiving(provider, found).location(segment)] = files
        with pytest.raises(CorruptionError, match=f"below {trimmed} is trimmed"):
            await archiving(provider, found).run(segment, FixedLoglet(ITEMS))
        files.content.clear()
        await archiving(provider, found).run(segment, FixedLoglet(ITEMS, trim=trimmed))
        with pytest.raises(CorruptionError, match=f"below {trimmed} is trimmed"):
            await archiving(provider, found).run(segment, FixedLoglet(ITEMS))


async def test_every_byte_is_read_back(nursery: trio.Nursery) -> None:
    """A bit that flips anywhere in any file, or a file that is gone, is found."""
    whole = await make(nursery, batches(12))
    files, source = whole.shelf.only, random.Random(1)
    for name in names(files):
        content = files.content[name]
        for _ in range(20):
            at = source.randrange(len(content))
            files.content[name] = content[:at] + bytes([content[at] ^ (1 << source.randrange(8))]) + content[at + 1 :]
            with pytest.raises(CorruptionError):
                await verify_archive(whole.provider, whole.archived.config, whole.environment)
        del files.content[name]
        with pytest.raises(CorruptionError, match="missing"):
            await verify_archive(whole.provider, whole.archived.config, whole.environment)
        files.content[name] = content
    assert (await verify_archive(whole.provider, whole.archived.config, whole.environment)).compared


async def test_without_a_hot_copy_the_archive_is_compared_with_its_own_checksum(nursery: trio.Nursery) -> None:
    """A manifest with other files is detected by the checksum in the chain, or of the content."""
    whole = await make(nursery, ITEMS)
    alone = attrs.evolve(whole.archived.config, hot=None)
    assert not (await verify_archive(whole.provider, alone, whole.environment)).compared

    manifest = attrs.evolve(whole.archived.manifest, content="sha256:" + "0" * 64)
    with pytest.raises(CorruptionError, match="checksum of its content"):
        await ArchiveVerifier(
            manifest=manifest, files=whole.shelf.only, executor=SerialExecutor(None, whole.shelf.only)
        ).run()


async def test_a_trim_between_writing_and_reading_back_is_no_damage(nursery: trio.Nursery) -> None:
    """The nodes drop entries meanwhile, more and more: the rest is compared, and what was archived of it stays."""

    class Trimmed(FixedLoglet):
        async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> list[PlacedBatch | Gap]:
            if self.reads >= 60:  # it has been written
                self.trim = min(self.trim + 7, 100)
            return list(await super().read(start, stop, 500))

    shelf, hot, segment = ArchivePlace(), Trimmed(ITEMS), segment_of(ITEMS)
    provider = ArchiveProvider(shelf)
    archived = await archiving(provider, environment(nursery)).run(segment, hot)
    assert archived.manifest.trimmed < archived.verified.start == 100

    config = attrs.evolve(archived.config, hot=None)
    found = await read_all(provider.open(segment.id, config.encode(), environment(nursery)), 0, STOP)
    assert [item.clip(100, STOP) for item in ITEMS if item.stop > 100] == [
        part for item in found if (part := item.clip(100, STOP)) is not None
    ]


async def test_an_archive_of_what_was_trimmed_says_so(nursery: trio.Nursery) -> None:
    """Its trim point is that of the segment, also for who only reads the files."""
    shelf, segment = ArchivePlace(), segment_of(ITEMS)
    provider = ArchiveProvider(shelf)
    archived = await archiving(provider, environment(nursery)).run(segment, FixedLoglet(ITEMS, trim=50))
    config = attrs.evolve(archived.config, hot=None)
    loglet = provider.open(segment.id, config.encode(), environment(nursery))

    assert archived.manifest.trimmed == 50
    assert archived.manifest.entries == STOP - 50
    assert await loglet.prefix_trim(LogletOffset(0)) == 50
    assert (await read_all(loglet, 0, STOP))[0] == Gap(0, 50, GapKind.TRIMMED)


def test_directories_say_whose_they_are() -> None:
    """One for each part of each log, below one URL."""
    assert SMALL.group_bytes < SMALL.file_bytes
    work_url = archiving(ArchiveProvider(ArchivePlace()), None).location(segment_of(ITEMS, 70))  # type: ignore[arg-type]
    assert work_url == f"{URL}/{CLUSTER}-{70:020d}-{250:020d}"
