"""Archives as Arrow tables: the same rows as the loglet reads, only what is wanted, and never what is damaged."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
import pyarrow as pa
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loglets.archive.archive_bench import CLUSTER, BlockingDictFiles, Made, batches, make
from tests.loglets.archive.test_round_trip import segments
from virtuallog.contract.errors import BeyondTailError, CorruptionError, MalformedError, UnsupportedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core import rows
from virtuallog_loglets.archive.core.content_digest import clipped
from virtuallog_loglets.archive.creation.data_files import DataFileSizes
from virtuallog_loglets.archive.drivers.fsspec_files import FsspecFiles
from virtuallog_loglets.archive.drivers.tables import ALL, ArchiveTables, open_archive, open_directory
from virtuallog_loglets.archive.drivers.trim_markers import marker

ITEMS = batches(60)
STOP = 180
BESIDE_HEADERS = [name for name in ALL if name != "headers"]
"""A range that begins in the middle of a batch has none in its first row."""


def opened(made: Made) -> tuple[ArchiveTables, BlockingDictFiles]:
    files = BlockingDictFiles(made.shelf.only.content)
    return open_archive(made.archived.config, files), files


def read(tables: ArchiveTables, start: int, stop: int, columns: Sequence[str] = ALL) -> pa.Table:
    found = list(tables.read(start, stop, columns))
    assert all(table.num_rows for table in found)
    return pa.concat_tables(found)


def joined(items: Sequence[Placed]) -> list[Placed]:
    """Gaps side by side as one, as archives have them."""
    found: list[Placed] = []
    for item in items:
        last = found[-1] if found else None
        if isinstance(last, Gap) and isinstance(item, Gap) and (last.stop, last.kind) == (item.start, item.kind):
            found[-1] = Gap(last.start, item.stop, item.kind)
        else:
            found.append(item)
    return found


def gaps(table: pa.Table) -> list[Placed]:
    found = table.filter(table.column("gap").is_valid()).select(["position", "gap_stop", "gap"]).to_pylist()
    return joined([Gap(row["position"], row["gap_stop"], GapKind(row["gap"])) for row in found])


@settings(max_examples=25, deadline=None)
@given(items=segments(), start=st.integers(0, 1 << 62), group=st.integers(1, 400), data=st.data())
def test_any_range_is_read_exactly(items: list[Placed], start: int, group: int, data: st.DataObject) -> None:
    """For any batches in any cuts: the rows of the range, gaps cut where it ends."""
    low = data.draw(st.integers(0, items[-1].stop - 1))
    high = data.draw(st.integers(low + 1, items[-1].stop))

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            made = await make(nursery, items, start, DataFileSizes(group_bytes=group, file_bytes=3 * group))
            found = read(opened(made)[0], start + low, start + high)
            expected = rows.table_of([item.shift(start) for item in clipped(joined(items), low, high)])
            assert found.schema.equals(rows.SCHEMA)
            assert gaps(found) == gaps(expected)
            entries = found.filter(found.column("gap").is_null()).select(BESIDE_HEADERS)
            assert entries.equals(expected.filter(expected.column("gap").is_null()).select(BESIDE_HEADERS))
            rows.check_cover_untrusted(found, start + low, start + high)
            nursery.cancel_scope.cancel()

    trio.run(run)


async def test_only_what_is_wanted_is_read(nursery: trio.Nursery) -> None:
    """Only the files with the range are read; of a file, its footer and the row groups with the
    range; of these, some columns."""
    made = await make(nursery, ITEMS)
    tables, files = opened(made)
    (file, *_) = [file for file in made.archived.manifest.files if file.start <= 100 < file.stop]
    found = read(tables, 100, 101, ["payload", "position"])

    assert found.to_pylist() == [{"position": 100, "payload": b"100 " + b"x" * 100}]
    (group,) = [group for group in file.groups if group.start <= 100][-1:]
    assert files.asked == [
        (file.name, file.bytes - file.footer_bytes, file.bytes),
        (file.name, group.first_byte, group.stop_byte),
    ]
    assert list(tables.read(100, 100)) == []
    for start, stop in ((-1, 5), (170, STOP + 1)):
        with pytest.raises(BeyondTailError):
            list(tables.read(start, stop))


async def test_what_was_trimmed_is_a_gap(nursery: trio.Nursery) -> None:
    """With or without its files; one that goes while it is read is no damage, one that is merely missing is."""
    made = await make(nursery, ITEMS)
    tables, files = opened(made)
    first, second, third, *_ = made.archived.manifest.files
    files.content[marker(second.start + 1)] = b""
    del files.content[first.name]
    found = read(tables, 5, STOP)
    assert found.slice(0, 1).select(["position", "gap", "gap_stop", "payload"]).to_pylist() == [
        {"position": 5, "gap": "trimmed", "gap_stop": second.start + 1, "payload": None}
    ]
    assert found.column("position")[1].as_py() == second.start + 1

    going_on = tables.read(second.start + 1, STOP, ["position", "gap"])
    next(going_on)
    files.content[marker(third.stop)] = b""
    for gone in (second, third):
        del files.content[gone.name]
    rest = pa.concat_tables(going_on)
    assert set(rest.column("gap").to_pylist()) == {"trimmed", None}
    assert rest.column("position").to_pylist()[-1] == STOP - 1

    for name in list(files.content):
        if name.startswith("trimmed-"):
            del files.content[name]
    with pytest.raises(CorruptionError, match="missing"):
        read(tables, 0, STOP)


async def test_files_are_named_for_others_once_their_footers_are_right(nursery: trio.Nursery) -> None:
    """Those that are trimmed are not; one that is missing, or has another footer, is an error."""
    made = await make(nursery, ITEMS)
    tables, files = opened(made)
    first, second, *others = made.archived.manifest.files
    assert tables.checked_files() == [first, second, *others]

    kept, name = files.content[second.name], second.name
    files.content[name] = kept[:-9] + bytes([kept[-9] ^ 1]) + kept[-8:]
    with pytest.raises(CorruptionError, match="checksum"):
        tables.checked_files()
    del files.content[name]
    with pytest.raises(CorruptionError, match="missing"):
        tables.checked_files()
    files.content[marker(second.stop)] = b""
    assert tables.checked_files() == others


async def test_damage_is_never_handed_out(nursery: trio.Nursery) -> None:
    """A bit turned over anywhere in a file: an error of this package, or, in unread parts, the same rows."""
    made = await make(nursery, ITEMS)
    tables, files = opened(made)
    file, chooser = made.archived.manifest.files[1], random.Random(4)
    sound, expected, refused = files.content[file.name], read(tables, file.start, file.stop), 0
    for _ in range(200):
        at = chooser.randrange(len(sound))
        files.content[file.name] = sound[:at] + bytes([sound[at] ^ 1 << chooser.randrange(8)]) + sound[at + 1 :]
        try:
            assert read(tables, file.start, file.stop).equals(expected)
        except CorruptionError:
            refused += 1
    assert refused > 150
    files.content[file.name] = sound[: len(sound) // 2]
    with pytest.raises(CorruptionError):
        read(tables, file.start, file.stop)


async def test_half_an_archive_or_another_one_is_refused(nursery: trio.Nursery) -> None:
    """No manifest, one that is not that of the chain, of another cluster, of another range, of a later version."""
    made = await make(nursery, ITEMS)
    files, config = BlockingDictFiles(made.shelf.only.content), made.archived.config
    assert open_directory(files, CLUSTER, 0, STOP).manifest == made.archived.manifest

    with pytest.raises(CorruptionError, match="checksum"):
        open_archive(attrs.evolve(config, manifest=manifests.checksum(b"")), files)
    with pytest.raises(MalformedError, match="cluster"):
        open_archive(attrs.evolve(config, cluster="d2" * 16), files)
    with pytest.raises(MalformedError, match=r"\[0, 180\)"):
        open_directory(files, CLUSTER, 0, STOP + 1)
    del files.content[manifests.NAME]
    with pytest.raises(CorruptionError, match="no manifest"):
        open_archive(config, files)


async def test_directories_of_fsspec_are_read_without_trio(tmp_path: object) -> None:
    """By the URL in the config alone; an unknown protocol is an error."""
    async with trio.open_nursery() as nursery:
        made = await make(nursery, ITEMS)
        nursery.cancel_scope.cancel()
    config = attrs.evolve(made.archived.config, url=f"file://{tmp_path}")
    files = FsspecFiles(config.location)
    for name, content in made.shelf.only.content.items():
        await files.write(name, content)

    found = await trio.to_thread.run_sync(lambda: read(open_archive(config), 3, STOP, ["position"]))
    assert found.column("position").to_pylist() == list(range(3, STOP))
    with pytest.raises(UnsupportedError):
        await trio.to_thread.run_sync(open_archive, attrs.evolve(config, url="gs://bucket/logs"))


async def test_gaps_of_any_kind_keep_their_kind(nursery: trio.Nursery) -> None:
    """Cut at both ends of the range."""
    items: list[Placed] = [Gap(0, 10, GapKind.LOST), Gap(10, 30, GapKind.FILLER)]
    tables, _ = opened(await make(nursery, items))

    found = read(tables, 4, 12, ["gap_stop", "gap", "position"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [(4, "lost", 10), (10, "filler", 12)]
