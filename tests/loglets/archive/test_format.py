"""The format stays: an archive that version 1 has written is read by this program and by any tool that knows Parquet.

Samples were made by `python -m tests.loglets.archive.test_format DIRECTORY`, each at the commit that added it: `data/archive-1`, and
`data/archive-1-by-file` when each file got a checksum of its content. They are never made again: what is written under a
version that has been released does not change.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import trio

from tests.loglets.archive.archive_bench import (
    CLUSTER,
    SMALL,
    DictFiles,
    FixedLoglet,
    environment,
    read_all,
    segment_of,
)
from tests.loglets.archive.test_round_trip import contents
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, PlacedBatch, Sealed
from virtuallog_loglets.archive import ArchiveProvider
from virtuallog_loglets.archive.config import ArchiveConfig
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core.rows import SCHEMA
from virtuallog_loglets.archive.creation.archiver import Archiver

FOLDER = Path(__file__).with_name("data") / "archive-1"
BY_FILE = FOLDER.with_name("archive-1-by-file")
START = 5_000
ONE, TWO = SessionId(b"first session, 1"), SessionId(b"other session, 2")


def items() -> list[Placed]:
    """Something of everything: gaps of each kind, two sessions, headers, empty entries, a batch in part, many row groups."""
    found: list[Placed] = [
        Gap(0, 3, GapKind.TRIMMED),
        PlacedBatch(range(3, 5), Batch.build(ONE, 7, [b"cut off", b"kept", b"kept, too"]), 1_700_000_000_000, 1),
        PlacedBatch(range(5, 6), Batch.build(TWO, 0, [b""], {"engine": b"\x00\x01", "": b""}), 1_700_000_000_001),
        Gap(6, 20, GapKind.FILLER),
        Gap(20, 22, GapKind.LOST),
    ]
    for number in range(60):
        payloads = [b"%d.%d " % (number, index) * 5 for index in range(3)]
        batch = Batch.build((ONE, TWO)[number % 2], 10 + 3 * (number // 2), payloads)
        found.append(PlacedBatch(range(22 + 3 * number, 25 + 3 * number), batch, 1_700_000_001_000 + number))
    return found


def config(blob: bytes) -> ArchiveConfig:
    stop = START + items()[-1].stop
    checksum = manifests.checksum(blob)
    return ArchiveConfig(url="file:///x", directory="y", start=START, stop=stop, manifest=checksum, cluster=CLUSTER)


def sample(folder: Path) -> DictFiles:
    """Contents of the directory of a sample."""
    return DictFiles({path.name: path.read_bytes() for path in folder.iterdir()})


@pytest.mark.parametrize("folder", [FOLDER, BY_FILE], ids=lambda folder: folder.name)
async def test_an_archive_of_the_first_version_is_read(folder: Path, nursery: trio.Nursery) -> None:
    """The same entries and gaps, cut as they were."""
    files = sample(folder)
    found = config(files.content[manifests.NAME])
    loglet = ArchiveProvider(lambda _: files).open(segment_of(items()).id, found.encode(), environment(nursery))

    assert await loglet.check_tail() == Sealed(found.stop)
    read = await read_all(loglet, START, found.stop)
    assert contents(read) == contents([item.shift(START) for item in items()])


def test_samples_differ_in_what_they_should() -> None:
    """The checksum of the content, and that of each file; data files are the same."""
    former, newer = (manifests.decode_untrusted((folder / manifests.NAME).read_bytes()) for folder in (FOLDER, BY_FILE))

    assert (former.is_by_file, newer.is_by_file) == (False, True)
    assert [file.checksum for file in former.files] == [file.checksum for file in newer.files]
    assert newer.content == manifests.content_of(newer.files)


def test_any_tool_reads_the_rows() -> None:
    """Without a line of ours: columns, types and values are those of docs/howto/archive.md."""
    tables = [pq.read_table(path) for path in sorted(FOLDER.glob("*.parquet"))]
    rows = [row for table in tables for row in table.to_pylist()]

    assert len(tables) > 1
    assert all(table.schema.equals(SCHEMA) for table in tables)
    assert [row["gap"] for row in rows[:6]] == ["trimmed", None, None, None, "filler", "lost"]
    assert rows[1]["payload"] == b"kept"
    assert rows[1]["position"] == START + 3
    assert rows[1]["time"].timestamp() == 1_700_000_000
    assert (rows[1]["session"], rows[1]["sequence"], rows[1]["headers"]) == (ONE, 8, b"")
    assert rows[2]["headers"] is None
    assert rows[3]["headers"] == Batch.build(TWO, 0, [b""], {"engine": b"\x00\x01", "": b""}).packed_headers
    assert (rows[4]["position"], rows[4]["gap_stop"]) == (START + 6, START + 20)
    assert sum(row["payload"] is not None for row in rows) == 183


async def write(folder: Path) -> None:
    """Make it with this program."""
    files = DictFiles()
    async with trio.open_nursery() as nursery:
        work = Archiver(
            provider=ArchiveProvider(lambda _: files), cluster=CLUSTER, url="file:///x", environment=environment(nursery),
            sizes=SMALL,
        )  # fmt: skip
        await work.run(segment_of(items(), START), FixedLoglet(items()))
    for name, content in files.content.items():
        await (trio.Path(folder) / name).write_bytes(content)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True)
    trio.run(write, target)
