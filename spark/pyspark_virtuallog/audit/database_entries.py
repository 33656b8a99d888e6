"""Observer of a database's entries: the keys that commands write, and the state reports of
replicas.

Commands are counted as they were proposed. Only a replay would know which of them succeeded: a
write to a missing key is counted as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_virtuallog.audit.core.anomalies import Anomalies
from pyspark_virtuallog.audit.core.observations import rows_of
from pyspark_virtuallog.audit.core.text import digests_text
from virtuallog.contract.errors import MalformedError
from virtuallog_database.engines import checksums
from virtuallog_database.engines.batching import commands_of_untrusted
from virtuallog_database.engines.core.entry import MAGIC, Entry, parse_untrusted
from virtuallog_database.errors import BinaryTooOldError
from virtuallog_database.tree import command_codec, commands

Numbers = npt.NDArray[Any]

STRAY: Final = "stray entry"
NEWER: Final = "entry of a newer version"
FOREIGN: Final = "unreadable entry"
COMPARED: Final = "states compared"
SESSIONS: Final = "(sessions)"
"""Stands for the prefix of commands about sessions; those of keys begin with a slash."""
_PREFIXES_MAX: Final = 10_000
"""Prefixes of one task at a time; with more, the counts leave for Spark to add up."""
_Counts = list[int]
"""Writes, deletes, bytes."""


@attrs.define
class DatabaseObserver:
    """Takes the entries of one task, some thousands at a time; `finish` yields the rest."""

    depth: int = 1
    """Components of a path that make a prefix."""
    _growth: defaultdict[tuple[int, str], _Counts] = attrs.field(
        factory=lambda: defaultdict(lambda: [0, 0, 0]), init=False
    )
    _reports: list[dict[str, Any]] = attrs.field(factory=list, init=False)

    def entries(self, entries: pa.RecordBatch, buckets: Numbers, remarks: Anomalies) -> Iterator[pa.RecordBatch]:
        """See `row_observer.PayloadObserver`."""
        positions = entries["position"].to_numpy(zero_copy_only=False)
        is_ours = pc.starts_with(entries["payload"], MAGIC).to_numpy(zero_copy_only=False)
        if (strays := positions[~is_ours]).size:
            remarks.add(STRAY, int(strays[0]), f"at {strays[0]}", strays.size)
        rows = np.flatnonzero(is_ours)
        payloads = entries["payload"].take(pa.array(rows)).to_pylist()
        for at, bucket, payload in zip(positions[rows].tolist(), buckets[rows].tolist(), payloads, strict=True):
            self._entry(at, bucket, payload, remarks)
        if len(self._growth) > _PREFIXES_MAX:
            yield self._take_growth()

    def finish(self) -> Iterator[pa.RecordBatch]:
        """See `row_observer.PayloadObserver`."""
        yield self._take_growth()
        yield rows_of("report", self._reports)

    def _entry(self, position: int, bucket: int, payload: bytes, remarks: Anomalies) -> None:
        try:
            entry = parse_untrusted(payload)
            self._checksums(entry, position, remarks)
            for command in commands_of_untrusted(entry):
                self._command(command, bucket)
        except BinaryTooOldError as error:
            remarks.add(NEWER, position, f"{position}: {error}")
        except MalformedError as error:
            remarks.add(FOREIGN, position, f"{position}: {error}")

    def _checksums(self, entry: Entry, position: int, remarks: Anomalies) -> None:
        header = entry.headers.get(checksums.NAME)
        if header is None:
            return
        command = checksums.ChecksumEngine.vocabulary.parse_untrusted(header)
        if isinstance(command, checksums.Compare):
            remarks.add(COMPARED, position, f"at {position}")
        else:
            digests = digests_text(command.digests)
            self._reports.append({"compared": command.compared, "replica": command.replica, "digests": digests})

    def _command(self, blob: bytes, bucket: int) -> None:
        for path, is_delete, size in changes(command_codec.parse_untrusted(blob).operation):
            counts = self._growth[bucket, prefix_of(path, self.depth)]
            counts[is_delete] += 1
            counts[2] += size

    def _take_growth(self) -> pa.RecordBatch:
        rows = [
            {"bucket": bucket, "prefix": prefix, "writes": writes, "deletes": deletes, "bytes": size}
            for (bucket, prefix), (writes, deletes, size) in self._growth.items()
        ]
        self._growth.clear()
        return rows_of("growth", rows)


def changes(operation: commands.Operation) -> Iterator[tuple[str, bool, int]]:
    """(path, True if deleted, bytes of path and data) for each key of an operation; the path is ""
    for sessions."""
    match operation:
        case commands.Create(path=path, data=data) | commands.SetData(path=path, data=data):
            yield path, False, len(path) + len(data or b"")
        case commands.SetAcl(path=path):
            yield path, False, len(path)
        case commands.Delete(path=path):
            yield path, True, len(path)
        case commands.Reap(paths=paths):
            yield from ((path, True, len(path)) for path in paths)
        case commands.Multi(operations=operations):
            for each in operations:
                yield from changes(each)
        case commands.Check():
            pass
        case _:
            yield "", False, 0


def prefix_of(path: str, depth: int) -> str:
    """First components of a path: "/a/b" of "/a/b/c", with a depth of two."""
    return "/".join(path.split("/", depth + 1)[: depth + 1]) or ("/" if path else SESSIONS)
