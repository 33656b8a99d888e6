"""Rows of a log that never was: sound ones, and ways to plant a fault in them."""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Any

import attrs
import pyarrow as pa

from virtuallog.contract.types import LogPosition
from virtuallog_database.engines import checksums
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.tree import command_codec, commands

SCHEMA = pa.schema(
    [
        ("position", pa.int64()),
        ("payload", pa.binary()),
        ("time", pa.timestamp("us", tz="UTC")),
        ("session", pa.binary()),
        ("sequence", pa.int64()),
        ("size", pa.int32()),
        ("segment", pa.string()),
        ("loglet", pa.string()),
        ("gap", pa.string()),
    ]
)
BEGIN_MS = 1_700_000_000_000
Rows = list[dict[str, Any]]


@attrs.define
class Log:
    """Appends rows; tests plant faults by changing `rows` afterwards."""

    rows: Rows = attrs.field(factory=list)
    segment: str = "1.a"
    loglet: str = "native"
    time_ms: int = BEGIN_MS
    position: int = 0
    sequences: dict[str, int] = attrs.field(factory=dict)

    def append(self, *payloads: bytes, session: str = "a") -> None:
        """A batch of one session, a millisecond after the one before."""
        self.time_ms += 1
        for payload in payloads:
            sequence = self.sequences.get(session, 0)
            self.sequences[session] = sequence + 1
            self._row(
                payload=payload,
                time=self.time_ms * 1000,
                session=session_id(session),
                sequence=sequence,
                size=len(payload),
            )

    def gap(self, kind: str, count: int = 1) -> None:
        self._row(gap=kind)
        self.position += count - 1

    def extend(self, segment: str, loglet: str) -> None:
        """Further rows are in another loglet."""
        self.segment, self.loglet = segment, loglet

    def _row(self, **fields: Any) -> None:
        row = dict.fromkeys(SCHEMA.names)
        self.rows.append({**row, "position": self.position, "segment": self.segment, "loglet": self.loglet, **fields})
        self.position += 1


def session_id(name: str) -> bytes:
    return name.encode().ljust(16, b"\0")


def sound_log() -> Log:
    """Two sessions take turns over two segments, with fillers in the second one."""
    log = Log()
    for _ in range(5):
        log.append(b"one", b"two", session="a")
        log.append(b"three", session="b")
    log.extend("2.b", "paxos")
    for _ in range(5):
        log.append(b"four", session="b")
        log.append(b"five", b"six", b"seven", session="a")
        log.gap("filler", 10)
    log.append(b"eight")
    return log


def batches(rows: Rows, size: int = 4) -> list[pa.RecordBatch]:
    """As a source would bring them, in small pieces."""
    return [pa.RecordBatch.from_pylist(rows[at : at + size], schema=SCHEMA) for at in range(0, len(rows), size)]


def database_entries(*, agree: bool = True) -> list[bytes]:
    """Commands that travel together and alone, a comparison of states, and what two replicas report."""
    operations: list[commands.Operation] = [
        commands.Create("/big/a", bytes(1000)),
        commands.Multi(
            (commands.SetData("/big/b", bytes(2000)), commands.Check("/small/x"), commands.Delete("/big/a"))
        ),
        commands.Create("/small/b", b"four"),
        commands.SetData("/big/c", b""),
    ]
    blobs = [command_codec.encode(commands.Command(each, commands.Origin(), BEGIN_MS)) for each in operations]
    ends = struct.pack("<3I", *accumulate(len(blob) for blob in blobs[:3]))
    vocabulary = checksums.ChecksumEngine.vocabulary
    reports = [
        checksums.Report(LogPosition(7), "1-a", {"keys 6e": "11"}),
        checksums.Report(LogPosition(7), "2-b", {"keys 6e": "11" if agree else "22"}),
    ]
    headers = [vocabulary.encode(each) for each in (checksums.Compare(), *reports)]
    return [
        Entry(b"".join(blobs[:3]), {"batching": ends}).encode(),
        Entry(blobs[3]).encode(),
        *(Entry(b"", {checksums.NAME: header}).encode() for header in headers),
    ]
