"""Any damage of the files: readers get the archived entries or one of our errors, and the process never ends.
`python -m tests.loglets.archive.test_damaged_files 20000` does as many rounds.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable

import attrs
import pyarrow as pa
import pytest

from tests.hostile.mutation import mutated
from tests.loglets.archive.archive_bench import CLUSTER, batches
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind, PlacedBatch
from virtuallog_loglets.archive.core import manifest as manifests
from virtuallog_loglets.archive.core import rows
from virtuallog_loglets.archive.core.content_digest import digest_of
from virtuallog_loglets.archive.core.manifest import ArchiveManifest, DataFile
from virtuallog_loglets.archive.core.parquet import ParquetPart, parse_footer_untrusted, read_group_untrusted
from virtuallog_loglets.archive.creation.data_files import data_file

ROUNDS = 400
ITEMS: list[Placed] = [*batches(6), Gap(18, 30, GapKind.FILLER)]


def specimen() -> tuple[DataFile, bytes]:
    """A file of two row groups."""
    part = ParquetPart()
    part.add(ITEMS[:3])
    part.add(ITEMS[3:])
    content, groups = part.finish()
    return data_file(content, 30, groups, 18, 1, digest_of(ITEMS)), content


FILE, CONTENT = specimen()
FOOTER = CONTENT[-FILE.footer_bytes :]
MANIFEST = ArchiveManifest(
    cluster=CLUSTER, start=0, stop=30, trimmed=0, files=(FILE,), content="sha256:00", writer="test"
).encode()


def read_manifest(blob: bytes) -> object:
    return manifests.decode_untrusted(blob)


def read_with_footer(tail: bytes) -> object:
    """Everything that a file has, by what a footer says."""
    content = CONTENT[: -len(FOOTER)] + tail
    footer = parse_footer_untrusted(attrs.evolve(FILE, bytes=len(content)), tail)
    return [
        read_group_untrusted(footer, index, content[group.first_byte : group.stop_byte])
        for index, group in enumerate(FILE.groups)
    ]


def read_rows(group: bytes) -> object:
    return read_group_untrusted(parse_footer_untrusted(FILE, FOOTER), 0, group)


def first_group() -> bytes:
    group = FILE.groups[0]
    return CONTENT[group.first_byte : group.stop_byte]


FORMS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "manifest": (MANIFEST, read_manifest),
    "footer": (FOOTER, read_with_footer),
    "row group": (first_group(), read_rows),
}


def attack(name: str, rounds: int, seed: int) -> Counter[str]:
    """Outcomes of so many mutations."""
    sound, read = FORMS[name]
    chooser, found = random.Random(seed), Counter[str]()
    for _ in range(rounds):
        try:
            read(mutated(chooser, sound))
        except (CorruptionError, MalformedError) as error:
            found[type(error).__name__] += 1
        else:
            found["read"] += 1
    return found


@pytest.mark.parametrize("name", FORMS)
def test_what_is_no_archive_is_refused_by_type(name: str) -> None:
    """Any mutation is an error of ours, or does no harm."""
    found = attack(name, ROUNDS, seed=6)

    assert found["CorruptionError"] + found["MalformedError"] > ROUNDS // 4


def test_rows_that_were_changed_are_never_other_entries() -> None:
    """Each bit of a row group, turned over: the same entries, or an error. Pages have checksums, and rows must fit."""
    footer, sound = parse_footer_untrusted(FILE, FOOTER), first_group()
    for at in range(0, len(sound), 3):
        damaged = sound[:at] + bytes([sound[at] ^ (1 << at % 8)]) + sound[at + 1 :]
        try:
            assert read_group_untrusted(footer, 0, damaged) == ITEMS[:3]
        except (CorruptionError, MalformedError):
            continue


# -- rows that a tool has written wrongly ---------------------------------------------------------------------------------

TABLE = rows.table_of(ITEMS)


def changed(column: str, row: int, value: object) -> pa.Table:
    values = TABLE.column(column).to_pylist()
    values[row] = value
    field = rows.SCHEMA.field(column)
    return TABLE.set_column(TABLE.schema.get_field_index(column), field, pa.array(values, type=field.type))


@pytest.mark.parametrize(
    ("table", "error"),
    [
        (changed("position", 4, 7), CorruptionError),
        (changed("position", 0, 1), CorruptionError),
        (changed("position", 0, -1), CorruptionError),
        (changed("gap_stop", 18, 18), CorruptionError),
        (changed("gap_stop", 18, 31), CorruptionError),
        (changed("gap_stop", 18, None), MalformedError),
        (changed("gap_stop", 3, 4), MalformedError),
        (changed("gap", 18, "elsewhere"), MalformedError),
        (changed("gap", 18, None), MalformedError),
        (changed("gap", 3, "filler"), MalformedError),
        (changed("payload", 3, None), MalformedError),
        (changed("payload", 18, b""), MalformedError),
        (changed("session", 5, b"x" * 16), MalformedError),
        (changed("session", 5, None), MalformedError),
        (changed("sequence", 5, 50), MalformedError),
        (changed("sequence", 3, -1), MalformedError),
        (changed("time", 4, 5), MalformedError),
        (changed("headers", 0, None), MalformedError),
        (changed("headers", 3, b"\x01"), MalformedError),
        (TABLE.slice(1), CorruptionError),
        (TABLE.slice(0, 0), CorruptionError),
        (TABLE.drop_columns(["time"]), MalformedError),
        (TABLE.set_column(0, "position", TABLE.column("position").cast(pa.int32())), MalformedError),
    ],
)
def test_rows_that_break_the_rules_are_refused(table: pa.Table, error: type[Exception]) -> None:
    """Holes, entries without a batch, batches that do not go on, gaps without an end, other columns."""
    with pytest.raises(error):
        rows.items_of_untrusted(table, 0, 30)


def test_other_columns_beside_ours_do_no_harm() -> None:
    """A tool may add what it needs itself."""
    table = TABLE.append_column("partition", pa.array([7] * TABLE.num_rows))

    assert rows.items_of_untrusted(table, 0, 30) == ITEMS


def test_a_tool_may_make_every_row_a_batch() -> None:
    """A tool that does not know of batches gives each row headers: readers see the same entries."""
    heads = [b"" if gap is None else None for gap in TABLE.column("gap").to_pylist()]
    index = TABLE.schema.get_field_index("headers")
    found = rows.items_of_untrusted(TABLE.set_column(index, "headers", pa.array(heads, type=pa.binary())), 0, 30)

    assert len(found) == 19
    singles = [record for item in found if isinstance(item, PlacedBatch) for record in item.records()]
    assert singles == [record for item in ITEMS if isinstance(item, PlacedBatch) for record in item.records()]


def test_a_row_that_is_too_large_is_no_batch() -> None:
    """A reader never gets what no batch can hold."""
    huge = pa.array([b"x" * (9 << 20)], type=pa.binary())
    small = rows.table_of([PlacedBatch(range(1), Batch.build(SessionId(b"s" * 16), 0, [b"x"]), 1)])
    table = small.set_column(small.schema.get_field_index("payload"), "payload", huge)

    with pytest.raises(MalformedError):
        rows.items_of_untrusted(table, 0, 1)


def wrong_groups(groups: list[list[int]], size: int) -> list[object]:
    (first, start, stop), (second, middle, end) = groups
    return [
        [], groups[1:], groups[::-1], [groups[0], groups[0]], [[first, start, size], [second, middle, end]],
        [[first, start, stop], [second, start, end]], [[first, start, stop], [30, middle, end]], [[first, start]], "all",
        [[first, start, stop], [second, middle, size]], [[first, stop, start], [second, middle, end]], [[first, start, None]],
    ]  # fmt: skip


def test_a_manifest_must_add_up() -> None:
    """Files side by side, totals that are right, names that stay within the directory, columns as they should be."""
    fields = json.loads(MANIFEST)
    file = fields["files"][0]
    wrong = [
        {**fields, "entries": 19}, {**fields, "bytes": 1}, {**fields, "stop": 31}, {**fields, "trimmed": 31},
        {**fields, "files": []}, {**fields, "files": [file, file]}, {**fields, "version": 2}, {**fields, "format": "tar"},
        {**fields, "columns": {**fields["columns"], "time": "int64"}}, {**fields, "files": "all"},
        *({**fields, "files": [{**file, "name": name}]} for name in ("../x", "", ".hidden", "a/b")),
        *({**fields, "files": [{**file, "footer_bytes": size}]} for size in (-1, file["bytes"] + 1)),
        *({**fields, "files": [{**file, "groups": groups}]} for groups in wrong_groups(file["groups"], file["bytes"])),
    ]  # fmt: skip

    assert manifests.decode_untrusted(json.dumps({**fields, "colour": "blue"}).encode()).files == (FILE,)
    for one in wrong:
        with pytest.raises(MalformedError):
            manifests.decode_untrusted(json.dumps(one).encode())


def test_half_a_manifest_is_known_as_such() -> None:
    """Wherever it ends; a whole one is not, nor is anything else, which is never written over."""
    assert all(manifests.is_damaged_untrusted(MANIFEST[:length]) for length in range(len(MANIFEST)))
    assert not any(map(manifests.is_damaged_untrusted, (MANIFEST, b"{}", b"hello", b'{"format": "other', b"[]")))


if __name__ == "__main__":
    for form in FORMS:
        sys.stdout.write(f"{form}: {dict(attack(form, int(sys.argv[1]), seed=7))}\n")
