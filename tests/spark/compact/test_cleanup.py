"""Remains of compactions are removed, and nothing that is still needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyspark_virtuallog.compact.chunks import name_of
from pyspark_virtuallog.compact.cleanup import clean, mark
from tests.loglets.archive.archive_bench import ArchivePlace, DictFiles
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.types import LogPosition
from virtuallog_database.rocks.directory_lock import locked_directory
from virtuallog_database.snapshots.compaction_manifest import Manifest
from virtuallog_database.snapshots.compaction_store import CompactionStore

CLUSTER = b"c" * 16
URL = "memory://place"


async def published(place: CompactionStore, files: DictFiles, position: int, *, manifest: bool = True) -> None:
    """A compaction with one file, as a job makes it; or one whose job is killed before the end."""
    await mark(files, LogPosition(position))
    await place.write_file(CLUSTER, position, "000001", b"%d" % position, ".sst")
    if manifest:
        await place.publish(
            Manifest(
                cluster=CLUSTER, position=LogPosition(position), time_ms=0, engines=(), pairs=0, digests={}, store=(),
                tables=(), writer="a test",
            )
        )  # fmt: skip
        await clean(place, files, CLUSTER, LogPosition(position))


async def there(place: CompactionStore) -> list[int]:
    """Positions at which there is a file."""
    return [position for position in range(100) if await place.files(CLUSTER, position).list()]


async def test_files_of_a_job_that_was_killed_go_when_two_newer_compactions_are_there() -> None:
    """Not before: its job may be at it still. Those of published ones go with them, the newest two stay."""
    place, files = CompactionStore(URL, ArchivePlace()), DictFiles()
    await published(place, files, 10)
    await published(place, files, 20, manifest=False)
    assert await there(place) == [10, 20]
    await published(place, files, 30)
    assert await there(place) == [10, 20, 30]
    await published(place, files, 40)
    assert await there(place) == [30, 40] and await place.positions(CLUSTER) == [30, 40]
    assert sorted(files.content) == [f"making-{position:020d}" for position in (30, 40)]


async def test_files_without_a_manifest_are_found_again_by_their_mark() -> None:
    """A process was killed while removing an old compaction: the manifest had gone, its files had
    not."""
    shelf = ArchivePlace()
    place, files = CompactionStore(URL, shelf), DictFiles()
    for position in (10, 20):
        await published(place, files, position)
    await mark(files, LogPosition(5))
    await place.write_file(CLUSTER, 5, "000001", b"5", ".sst")
    await published(place, files, 30)
    assert await there(place) == [20, 30]


async def test_states_of_backups_at_the_same_place_stay() -> None:
    """They are no compactions of a job: a backup rests on each of them, however old it is. The newest two compactions stay, too."""
    place, files = CompactionStore(URL, ArchivePlace()), DictFiles()
    for position in (5, 25, 35):
        await published(place, DictFiles(), position)
    for position in (10, 20, 30):
        await published(place, files, position)

    assert await there(place) == await place.positions(CLUSTER) == [5, 20, 25, 30, 35]


async def test_chunks_that_are_folded_go_and_those_of_the_next_compaction_stay() -> None:
    """With all their files."""
    place, files = CompactionStore(URL, ArchivePlace()), DictFiles()
    for name in (name_of(0, 5, 0), name_of(0, 5), name_of(5, 9), name_of(9, 12)):
        await files.write(name, b"")
    await clean(place, files, CLUSTER, LogPosition(9))
    assert list(files.content) == [name_of(9, 12)]


def test_one_process_at_a_time_works_in_a_directory(tmp_path: Path) -> None:
    """The second one gets an error; when the first has ended, the next one may run."""
    with (
        locked_directory(tmp_path / "work"),
        pytest.raises(InvalidSettingError, match="used by another process"),
        locked_directory(tmp_path / "work"),
    ):
        pass
    with locked_directory(tmp_path / "work"):
        pass
