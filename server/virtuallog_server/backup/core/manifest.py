"""Manifest of a backup: what one run has saved, and what it rests on.

    URL/backup-0000000007.json                       the manifest, written last: without it there is no backup
    URL/archives/CLUSTER-START-STOP-backup-NUMBER/.. a range of the log: an archive (docs/howto/archive.md)
    URL/compacted/CLUSTER-POSITION..                 the state of the database at the start: a compaction

    full         |state|---range---|
    incremental  |state|---range---|--range--|       the same state and ranges, and what came since
                 start                       stop

Durable format, version 1: JSON,

    {"format": "virtuallog-backup", "version": 1, "number": 7, "base": 5, "cluster": "c3..", "database": true,
     "start": 1200, "stop": 4711, "covered_ms": 1793.., "digests": {"keys 6e": "9f..", ..},
     "state": {"position": 1200, "time_ms": 1793.., "pairs": 12, "bytes": 950, "checksum": "sha256:9f.."},
     "ranges": [{"start": 1200, "stop": 4711, "number": 7, "entries": 3500, "bytes": 8120, "first_ms": 1793..,
                 "last_ms": 1793.., "checksum": "sha256:3c.."}, ..],
     "writer": "virtuallog 0.1.0", "checksum": "sha256:77.."}

A manifest names everything that a restore needs, also what former runs have written. `checksum` in a
range is that of the archive's manifest, in the state that of the compaction's; the last one is that of
all other fields, as JSON with sorted keys and no spaces. Unknown fields are skipped; another version is refused.
A removal (`retention.py`) begins with the manifest: ranges and states that none names are of no use.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import attrs

from virtuallog.contract.errors import CorruptionError, MalformedError, TooLargeError
from virtuallog_loglets.archive.core.json_fields import integer, object_of, text

FORMAT: Final = "virtuallog-backup"
VERSION: Final = 1
BYTES_MAX: Final = 16 << 20
"""Largest manifest in bytes. Bounds the cost of a wrong file."""
RANGES_MAX: Final = 20_000
"""Most ranges of one manifest: an incremental backup each hour for two years. Then a full one is needed."""
NUMBER_MAX: Final = 10**10 - 1
_NAME: Final = re.compile(r"backup-(\d{10})\.json", re.ASCII)
_CLUSTER: Final = re.compile(r"[0-9a-f]{32}")
_CHECKSUM: Final = re.compile(r"sha256:[0-9a-f]{64}")


@attrs.frozen(kw_only=True)
class SavedRange:
    """A range of the log that is saved."""

    start: int
    stop: int
    number: int
    """Number of the run that has written it. Runs at the same time have the same number, and only one of them ends; so
    what has this number or a lower one and no manifest names it is of no use for ever."""
    entries: int
    bytes: int
    """Bytes of its data files."""
    first_ms: int
    """Wall-clock time of its first entry in milliseconds; 0 if it has none."""
    last_ms: int
    """Wall-clock time of its last entry in milliseconds; 0 if it has none."""
    checksum: str
    """Checksum of the archive's manifest."""


@attrs.frozen(kw_only=True)
class SavedState:
    """The state of the database that is saved."""

    position: int
    """Exactly everything below is applied."""
    time_ms: int
    """Wall-clock time in milliseconds of the last entry below, or of the next one that is there; 0 if unknown."""
    pairs: int
    bytes: int
    """Bytes of the store's files."""
    checksum: str
    """Checksum of the compaction's manifest."""


@attrs.frozen(kw_only=True)
class BackupManifest:
    """Content of a manifest: one backup."""

    number: int
    """Number of the run at its place, from 1 on."""
    base: int
    """Number of the full backup that it goes on from; its own number if it is full itself. The newest backup of a
    base names all that the others of this base name."""
    cluster: str
    """Id of the cluster in hexadecimal digits."""
    database: bool
    """True if the log has a database."""
    start: int
    """First position that the state can be restored to; of a log without a database, the first position saved."""
    stop: int
    """Position one past the last one saved."""
    covered_ms: int
    """Wall-clock time in milliseconds up to which every acknowledged entry is saved."""
    digests: Mapping[str, str]
    """Digests of the database's state at `stop`, part by part; empty without a database."""
    state: SavedState | None
    """State at `start`. None without a database, and if `start` is 0."""
    ranges: tuple[SavedRange, ...]
    """Ranges from `start` to `stop`: adjacent, in order."""
    writer: str
    """Program that wrote it, for human readers."""

    @property
    def full(self) -> bool:
        """True if it rests on no former run."""
        return self.base == self.number

    @property
    def size(self) -> int:
        """Bytes of all that it names."""
        return sum(each.bytes for each in self.ranges) + (self.state.bytes if self.state is not None else 0)

    @property
    def entries(self) -> int:
        """Entries of all ranges."""
        return sum(each.entries for each in self.ranges)

    @property
    def newest_ms(self) -> int:
        """Wall-clock time in milliseconds of the newest entry saved; 0 if there is none."""
        last = self.state.time_ms if self.state is not None else 0
        return next((each.last_ms for each in reversed(self.ranges) if each.last_ms), last)

    def encode(self) -> bytes:
        """Encode for the place. Raises TooLargeError: it has too many ranges."""
        if len(self.ranges) > RANGES_MAX:
            raise TooLargeError(what="ranges in a backup; make a full one", size=len(self.ranges), limit=RANGES_MAX)
        fields = {"format": FORMAT, "version": VERSION, **attrs.asdict(self), "digests": dict(self.digests)}
        return json.dumps({**fields, "checksum": _checksum(fields)}).encode()


def name_of(number: int) -> str:
    """Name of the manifest with this number."""
    return f"backup-{number:010d}.json"


def number_of(name: str) -> int | None:
    """Number in the name of a manifest. None if the name is no manifest's."""
    match = _NAME.fullmatch(name)
    return int(match[1]) if match is not None and int(match[1]) > 0 else None


def decode_untrusted(blob: bytes) -> BackupManifest:
    """Decode a manifest.

    Raises:
        MalformedError: not a manifest of a backup, one of another version, or one that contradicts itself.
        CorruptionError: damaged: its checksum does not match.
    """
    if len(blob) > BYTES_MAX:
        raise MalformedError(f"a manifest of a backup of {len(blob)} bytes, where {BYTES_MAX} is the most")
    try:
        fields = dict(object_of(json.loads(blob)))
        if fields.get("format") != FORMAT:
            raise MalformedError(f"not the manifest of a backup: {blob[:100]!r}")
        if fields.get("version") != VERSION:
            version = str(fields.get("version"))[:100]
            raise MalformedError(f"a backup of version {version}; this program reads version {VERSION}")
        if text(fields, "checksum") != _checksum({name: fields[name] for name in fields if name != "checksum"}):
            raise CorruptionError("the manifest of a backup does not match its checksum")
        manifest = _manifest_untrusted(fields)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedError(f"not the manifest of a backup ({error!r}): {blob[:100]!r}") from error
    _check(manifest)
    return manifest


def _checksum(fields: Mapping[str, Any]) -> str:
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def _manifest_untrusted(fields: Mapping[str, Any]) -> BackupManifest:
    state, ranges = fields["state"], fields["ranges"]
    if not isinstance(ranges, list) or len(ranges) > RANGES_MAX:
        raise TypeError(f"ranges is not a list of at most {RANGES_MAX}")
    return BackupManifest(
        number=integer(fields, "number"),
        base=integer(fields, "base"),
        cluster=_matching(_CLUSTER, fields, "cluster"),
        database=_flag(fields, "database"),
        start=integer(fields, "start"),
        stop=integer(fields, "stop"),
        covered_ms=integer(fields, "covered_ms"),
        digests={name: text(object_of(fields["digests"]), name) for name in object_of(fields["digests"])},
        state=None if state is None else _state_untrusted(object_of(state)),
        ranges=tuple(_range_untrusted(object_of(each)) for each in ranges),
        writer=text(fields, "writer"),
    )


def _state_untrusted(fields: Mapping[str, Any]) -> SavedState:
    numbers = {name: integer(fields, name) for name in ("position", "time_ms", "pairs", "bytes")}
    return SavedState(**numbers, checksum=_matching(_CHECKSUM, fields, "checksum"))


def _range_untrusted(fields: Mapping[str, Any]) -> SavedRange:
    names = ("start", "stop", "number", "entries", "bytes", "first_ms", "last_ms")
    numbers = {name: integer(fields, name) for name in names}
    return SavedRange(**numbers, checksum=_matching(_CHECKSUM, fields, "checksum"))


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields[name]
    if not isinstance(value, bool):
        raise TypeError(f"{name} is neither true nor false: {str(value)[:100]}")
    return value


def _matching(pattern: re.Pattern[str], fields: Mapping[str, Any], name: str) -> str:
    value = text(fields, name)
    if not pattern.fullmatch(value):
        raise ValueError(f"{name} is malformed: {value[:100]}")
    return value


def _check(manifest: BackupManifest) -> None:
    """Check that the parts fit together. Raises MalformedError."""
    edges = [manifest.start, *(each.stop for each in manifest.ranges)]
    starts = [each.start for each in manifest.ranges]
    if starts != edges[:-1] or edges[-1] != manifest.stop or any(low >= high for low, high in pairwise(edges)):
        raise MalformedError(f"the ranges of a backup do not cover [{manifest.start}, {manifest.stop})")
    if not 0 < manifest.base <= manifest.number <= NUMBER_MAX:
        raise MalformedError(f"a backup with the number {manifest.number}, on top of {manifest.base}")
    if not all(manifest.base <= each.number <= manifest.number for each in manifest.ranges):
        raise MalformedError(f"a backup with the number {manifest.number}, with ranges of other runs")
    has_state = manifest.state is not None
    if has_state != (manifest.database and manifest.start > 0) or bool(manifest.digests) != manifest.database:
        raise MalformedError("a backup whose state, digests and database do not fit together")
    if manifest.state is not None and manifest.state.position != manifest.start:
        raise MalformedError(f"a backup from {manifest.start} on with the state at {manifest.state.position}")
