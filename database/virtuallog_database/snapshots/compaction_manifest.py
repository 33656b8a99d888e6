"""Manifest of a compaction: the state of a database at one position, as files at a location.

    PLACE/compacted/CLUSTER-POSITION.json       the manifest, written last: without it there is no compaction
    PLACE/compacted/CLUSTER-POSITION/...        its files: a whole RocksDB store, and the same pairs as Parquet

Durable format, version 1: JSON,

    {"format": "virtuallog-compaction", "version": 1, "cluster": "c3..", "position": 4711, "time_ms": 1793..,
     "engines": ["lease"], "pairs": 12, "digests": {"keys 6e": "9f..", ..},
     "store": [{"name": "000008.sst", "stored": "000000-9f..sst", "bytes": 812, "checksum": 2893..}, ..],
     "tables": [{"stored": "000000-9f..parquet", "bytes": 950, "checksum": 17.., "pairs": 12, "first": "00..", "last": "7a.."}, ..],
     "writer": "virtuallog 0.1.0"}

`store` lists the files of a checkpoint: RocksDB's names
(`virtuallog_database.ports.CheckpointFile`), and the name of each at the location. Each stored name
contains a checksum of the content, so two concurrent writers of the same compaction do not spoil
each other's files. Checksums are CRC32C. `engines` are those enabled at the position: a program
that does not know one of them ignores the compaction. Unknown fields are skipped; another version
is refused. `tables` is empty in what programs without Spark have made: a backup, or a restored state.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from virtuallog.contract.errors import MalformedError, WrongRecipientError
from virtuallog.contract.types import LogPosition
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.ports import CheckpointFile

DIRECTORY: Final = "compacted"
FORMAT: Final = "virtuallog-compaction"
VERSION: Final = 1
BYTES_MAX: Final = 16 << 20
"""Largest manifest: some 100,000 files of 16 MiB each. Bounds the cost of a wrong file."""
_MANIFEST: Final = re.compile(r"([0-9a-f]{32})-(\d{20})\.json")
_DIRECTORY: Final = re.compile(r"([0-9a-f]{32})-(\d{20})", re.ASCII)
_STORED: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


def directory_of(cluster: bytes, position: int) -> str:
    """Directory of the files of one compaction, below `DIRECTORY`."""
    return f"{cluster.hex()}-{position:020d}"


def manifest_name(cluster: bytes, position: int) -> str:
    """Name of the manifest in `DIRECTORY`."""
    return f"{directory_of(cluster, position)}.json"


def cluster_of(name: str) -> bytes | None:
    """Cluster id in a manifest's file name. None if it is no manifest."""
    match = _MANIFEST.fullmatch(name)
    return None if match is None else bytes.fromhex(match[1])


def position_of(name: str, cluster: bytes) -> LogPosition | None:
    """Position in a manifest's file name. None if it is no manifest of this cluster."""
    match = _MANIFEST.fullmatch(name)
    return LogPosition(int(match[2])) if match is not None and match[1] == cluster.hex() else None


def position_of_directory(name: str, cluster: bytes) -> LogPosition | None:
    """Position in the name of a directory of files. None if it is none of this cluster."""
    match = _DIRECTORY.fullmatch(name)
    return LogPosition(int(match[2])) if match is not None and match[1] == cluster.hex() else None


@attrs.frozen
class StoreFile:
    """One file of the store."""

    file: CheckpointFile
    stored: str
    """Name at the location."""


@attrs.frozen
class Table:
    """One Parquet file with pairs in order of their keys: columns `key` and `value`, both binary."""

    stored: str
    size: int
    checksum: int
    pairs: int
    first: bytes
    """Its least key. The tables of a compaction are in order, and do not overlap."""
    last: bytes


@attrs.frozen(kw_only=True)
class Manifest:
    """Content of a manifest: one compaction."""

    cluster: bytes
    position: LogPosition
    """Cursor of the store: exactly everything below is applied."""
    time_ms: int
    """Wall-clock time of its last entry in milliseconds; 0 if unknown."""
    engines: tuple[str, ...]
    """Engines enabled at the position."""
    pairs: int
    digests: Mapping[str, str]
    """Digests of the whole store, part by part; see
    `virtuallog_database.engines.core.state_digests`."""
    store: tuple[StoreFile, ...]
    tables: tuple[Table, ...]
    """The same pairs as Parquet. Empty if only the store was written."""
    writer: str
    """Program that wrote it, for human readers."""

    @property
    def size(self) -> int:
        """Bytes of the store."""
        return sum(each.file.size for each in self.store)

    def stored(self, file: str) -> str:
        """Name at the location of a file of the store. Raises KeyError if there is no such file."""
        return next((each.stored for each in self.store if each.file.name == file), None) or _missing(file)

    def encode(self) -> bytes:
        fields = {
            "format": FORMAT,
            "version": VERSION,
            "cluster": self.cluster.hex(),
            "position": self.position,
            "time_ms": self.time_ms,
            "engines": list(self.engines),
            "pairs": self.pairs,
            "digests": dict(self.digests),
            "store": [_plain_file(each) for each in self.store],
            "tables": [_plain_table(table) for table in self.tables],
            "writer": self.writer,
        }
        return json.dumps(fields).encode()

    def check(self, cluster: bytes, known: Sequence[str]) -> None:
        """Check that a program with these engines can continue this cluster's log from here.

        Raises:
            WrongRecipientError: the compaction is of another cluster.
            BinaryTooOldError: an engine is enabled that the program does not know.
        """
        if self.cluster != cluster:
            raise WrongRecipientError("cluster", self.cluster.hex(), cluster.hex())
        if unknown := [engine for engine in self.engines if engine not in known]:
            raise BinaryTooOldError(f"the compaction uses {', '.join(unknown)}, which this program does not know")


def decode_untrusted(blob: bytes) -> Manifest:
    """Parse a manifest.

    Raises:
        MalformedError: not a manifest of a compaction, or damaged.
        BinaryTooOldError: a manifest of a later version.
    """
    try:
        fields = json.loads(blob)
        known = fields["format"] == FORMAT
        version = _number(fields["version"])
        if known and version == VERSION:
            return _manifest_untrusted(fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MalformedError(f"not the manifest of a compaction: {error!r}") from error
    if not known:
        raise MalformedError(f"not the manifest of a compaction: {blob[:100]!r}")
    raise BinaryTooOldError(f"a compaction of version {version}, where {VERSION} is the last one known")


def _manifest_untrusted(fields: Mapping[str, Any]) -> Manifest:
    manifest = Manifest(
        cluster=bytes.fromhex(fields["cluster"]),
        position=LogPosition(_number(fields["position"])),
        time_ms=_number(fields["time_ms"]),
        engines=tuple(map(_text, fields["engines"])),
        pairs=_number(fields["pairs"]),
        digests={_text(part): _text(digest) for part, digest in fields["digests"].items()},
        store=tuple(map(_store_file_untrusted, fields["store"])),
        tables=tuple(map(_table_untrusted, fields["tables"])),
        writer=_text(fields["writer"]),
    )
    if manifest.tables and sum(table.pairs for table in manifest.tables) != manifest.pairs:
        raise ValueError("its tables do not have as many pairs as it says")
    for former, table in zip(manifest.tables, manifest.tables[1:], strict=False):
        if not former.first <= former.last < table.first:
            raise ValueError("its tables overlap")
    return manifest


def _store_file_untrusted(fields: Mapping[str, Any]) -> StoreFile:
    file = CheckpointFile(_name(fields["name"]), _number(fields["bytes"]), _number(fields["checksum"]))
    return StoreFile(file, _name(fields["stored"]))


def _table_untrusted(fields: Mapping[str, Any]) -> Table:
    return Table(
        stored=_name(fields["stored"]),
        size=_number(fields["bytes"]),
        checksum=_number(fields["checksum"]),
        pairs=_number(fields["pairs"]),
        first=bytes.fromhex(fields["first"]),
        last=bytes.fromhex(fields["last"]),
    )


def _plain_file(each: StoreFile) -> dict[str, Any]:
    file = each.file
    return {"name": file.name, "stored": each.stored, "bytes": file.size, "checksum": file.checksum}


def _plain_table(table: Table) -> dict[str, Any]:
    return {
        "stored": table.stored,
        "bytes": table.size,
        "checksum": table.checksum,
        "pairs": table.pairs,
        "first": table.first.hex(),
        "last": table.last.hex(),
    }


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise TypeError(f"not a number: {str(value)[:100]}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {str(value)[:100]}")
    return value


def _name(value: object) -> str:
    """Check the name of a file, which becomes a part of a path."""
    name = _text(value)
    if not _STORED.fullmatch(name):
        raise ValueError(f"not the name of a file of a compaction: {name[:100]!r}")
    return name


def _missing(file: str) -> str:
    raise KeyError(file)
