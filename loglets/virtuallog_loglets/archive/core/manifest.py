"""Manifest of an archive: the list of its files. `manifest.json`, written last: without it there is
no archive.

    {"format": "virtuallog-archive", "version": 1, "cluster": "c3..", "start": 0, "stop": 150, "trimmed": 0,
     "columns": {"position": "int64", ...},
     "files": [{"name": "..", "start": 0, "stop": 150, "entries": 148, "gaps": 2, "bytes": 4711, "checksum": "sha256:..",
                "footer_bytes": 800, "footer_checksum": "sha256:..", "groups": [[0, 4, 2100], [90, 2100, 3911]],
                "content": "sha256:.."}],
     "entries": 148, "gaps": 2, "bytes": 4711, "content": "files-sha256:..", "writer": "virtuallog 0.1.0"}

Every position from start to stop is in one file, as an entry or in a gap. Files are adjacent and in
order. Every tool that writes an archive follows this. A reader refuses an unknown version and
ignores unknown fields. docs/howto/archive.md explains each field.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_loglets.archive.core.json_fields import integer, object_of, text

NAME: Final = "manifest.json"
FORMAT: Final = "virtuallog-archive"
VERSION: Final = 1
BYTES_MAX: Final = 16 << 20
"""Most bytes of a manifest: some 50,000 files, each of tens of MiB, more than a segment can hold.
Bounds the cost of a wrong file."""
_BEGINNING: Final = json.dumps({"format": FORMAT}).encode()[:-1]
_BY_FILE: Final = "files-sha256:"
COLUMNS: Final[Mapping[str, str]] = {
    "position": "int64",
    "payload": "binary",
    "time": "timestamp[ms, tz=UTC]",
    "session": "fixed_size_binary[16]",
    "sequence": "int64",
    "headers": "binary",
    "gap": "string",
    "gap_stop": "int64",
}
"""Arrow's names of the column types. docs/howto/archive.md describes the contents."""


def checksum(content: bytes | memoryview) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def content_of(files: Iterable[DataFile]) -> str:
    """Checksum of the contents of files, each of which has its own."""
    return f"{_BY_FILE}{hashlib.sha256(''.join(file.content for file in files).encode()).hexdigest()}"


@attrs.frozen
class RowGroup:
    """A part of a file that is read in one piece.

    It is listed here and not only in the footer. So no reader depends on statistics, which tools
    write in different ways, and a footer is opened only once its checksum is right.
    """

    start: int
    """First position in it. It reaches up to that of the next group, or to the end of the file."""
    first_byte: int
    stop_byte: int


@attrs.frozen(kw_only=True)
class DataFile:
    """One Parquet file."""

    name: str
    start: int
    stop: int
    entries: int
    gaps: int
    """Number of rows that are gaps."""
    bytes: int
    checksum: str
    footer_bytes: int
    """Bytes at its end: the Parquet footer, its length and the magic. A reader of a part of the
    file checks these; pages have checksums of their own."""
    footer_checksum: str
    groups: tuple[RowGroup, ...]
    """Row groups, in order."""
    content: str = ""
    """Checksum of the rows' content, however it is cut into batches (`content_digest.py`); empty if
    the writer did not compute it."""

    def plain(self) -> dict[str, Any]:
        fields = {**attrs.asdict(self, recurse=False), "groups": [attrs.astuple(group) for group in self.groups]}
        return {name: value for name, value in fields.items() if name != "content" or value}


@attrs.frozen(kw_only=True)
class ArchiveManifest:
    """Files and totals of an archive."""

    cluster: str
    start: int
    stop: int
    trimmed: int
    """Position below which everything had been trimmed when the archive was made."""
    files: tuple[DataFile, ...]
    content: str
    """Checksum of the checksums of the files' contents (`content_of`), or of all entries and gaps,
    however they are cut into batches and files."""
    writer: str
    """Name of the program, for people."""

    @property
    def entries(self) -> int:
        return sum(file.entries for file in self.files)

    @property
    def gaps(self) -> int:
        return sum(file.gaps for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def is_by_file(self) -> bool:
        """True if each file has a checksum of its rows' content."""
        return self.content.startswith(_BY_FILE)

    def encode(self) -> bytes:
        fields = {
            "format": FORMAT,
            "version": VERSION,
            **attrs.asdict(self, recurse=False),
            "files": [file.plain() for file in self.files],
            "columns": dict(COLUMNS),
            "entries": self.entries,
            "gaps": self.gaps,
            "bytes": self.size,
        }
        return json.dumps(fields).encode()

    def check_range(self, cluster: str, start: int, stop: int) -> None:
        """Check that this is the archive of that cluster and range.

        Raises:
            MalformedError: it is that of another log, or of another part of it.
        """
        if self.cluster != cluster:
            raise MalformedError(f"an archive of cluster {self.cluster}, not of {cluster}")
        if (self.start, self.stop) != (start, stop):
            raise MalformedError(f"an archive of [{self.start}, {self.stop}), not of [{start}, {stop})")


def decode_untrusted(blob: bytes, expected_checksum: str | None = None) -> ArchiveManifest:
    """Decode the manifest in `blob`.

    Args:
        blob: content of the file.
        expected_checksum: checksum in the chain; None if the chain does not have this archive.

    Raises:
        CorruptionError: it has another checksum.
        MalformedError: not a manifest, one of a later version, or one that contradicts itself.
    """
    if expected_checksum is not None and checksum(blob) != expected_checksum:
        raise CorruptionError(f"the manifest of an archive does not match its checksum {expected_checksum}")
    try:
        fields = object_of(json.loads(blob))
        _check_version(fields)
        found = _manifest(fields)
        totals = tuple(integer(fields, name) for name in ("entries", "gaps", "bytes"))
        columns = object_of(fields["columns"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedError(f"not the manifest of an archive ({error}): {blob[:100]!r}") from error
    if totals != (found.entries, found.gaps, found.size):
        raise MalformedError("the files of an archive do not add up to its totals")
    if any(columns.get(name) != kind for name, kind in COLUMNS.items()):
        raise MalformedError(f"an archive with the columns {dict(columns)}")
    _check_files(found)
    _check_content(found)
    return found


def is_damaged_untrusted(blob: bytes) -> bool:
    """True if `blob` was meant as a manifest of this version but is not valid.

    Its writer died where files are not written atomically, or it was damaged. The beginning of a
    JSON object is one such case.
    """
    if blob[: len(_BEGINNING)] != _BEGINNING[: len(blob)]:
        return False
    try:
        if object_of(json.loads(blob)).get("version") != VERSION:
            return False
        decode_untrusted(blob)
    except (ValueError, RecursionError, MalformedError):
        return True
    return False


def _check_version(fields: Mapping[str, Any]) -> None:
    if fields.get("format") != FORMAT:
        raise MalformedError(f"not the manifest of an archive: its format is {str(fields.get('format'))[:100]}")
    if fields.get("version") != VERSION:
        raise MalformedError(f"an archive of version {str(fields.get('version'))[:100]}; this program reads {VERSION}")


def _manifest(fields: Mapping[str, Any]) -> ArchiveManifest:
    if not isinstance(fields["files"], list):
        raise TypeError("files is not a list")
    return ArchiveManifest(
        cluster=text(fields, "cluster"),
        start=integer(fields, "start"),
        stop=integer(fields, "stop"),
        trimmed=integer(fields, "trimmed"),
        files=tuple(_file(object_of(file)) for file in fields["files"]),
        content=text(fields, "content"),
        writer=text(fields, "writer"),
    )


def _file(fields: Mapping[str, Any]) -> DataFile:
    return DataFile(
        name=text(fields, "name"),
        start=integer(fields, "start"),
        stop=integer(fields, "stop"),
        entries=integer(fields, "entries"),
        gaps=integer(fields, "gaps"),
        bytes=integer(fields, "bytes"),
        checksum=text(fields, "checksum"),
        footer_bytes=integer(fields, "footer_bytes"),
        footer_checksum=text(fields, "footer_checksum"),
        groups=tuple(_group(group) for group in fields["groups"]),
        content=text(fields, "content") if "content" in fields else "",
    )


def _group(numbers: object) -> RowGroup:
    if not isinstance(numbers, list) or len(numbers) < 3:
        raise TypeError("a row group is not a list of numbers")
    named = dict(zip(("start", "first_byte", "stop_byte"), numbers, strict=False))
    return RowGroup(*(integer(named, name) for name in named))


def _check_files(manifest: ArchiveManifest) -> None:
    at = manifest.start
    for file in manifest.files:
        if file.start != at or file.stop <= at:
            raise MalformedError(f"file {file.name} of an archive has [{file.start}, {file.stop}), where {at} is next")
        _check_groups(file)
        if "/" in file.name or not file.name or file.name.startswith("."):
            raise MalformedError(f"an archive with a file named '{file.name}'")
        at = file.stop
    if at != manifest.stop or not manifest.start <= manifest.trimmed <= manifest.stop:
        raise MalformedError(f"the files of an archive of [{manifest.start}, {manifest.stop}) end at {at}")


def _check_content(manifest: ArchiveManifest) -> None:
    has_all = all(file.content for file in manifest.files)
    if manifest.is_by_file and not (has_all and content_of(manifest.files) == manifest.content):
        raise MalformedError("the checksum of the content of an archive is not that of its files")


def _check_groups(file: DataFile) -> None:
    starts = [group.start for group in file.groups]
    edges = [edge for group in file.groups for edge in (group.first_byte, group.stop_byte)]
    if not starts or starts[0] != file.start or [*starts, file.stop] != sorted({*starts, file.stop}):
        raise MalformedError(f"the row groups of file {file.name} of an archive begin at {starts[:10]}")
    if edges != sorted(edges) or edges[-1] > file.bytes - file.footer_bytes:
        raise MalformedError(f"the row groups of file {file.name} of an archive are not in it")
