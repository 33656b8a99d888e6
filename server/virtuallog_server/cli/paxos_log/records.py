"""Listing of the records in the directory of a replica, position by position."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import click

from virtuallog_loglets.paxos.core.values import ValueKind, is_tombstone, kind_of, payload_of, truncation_of
from virtuallog_loglets.paxos.drivers.replica_service import LocalReplica
from virtuallog_loglets.paxos.messages import NOWHERE, PaxosRecord
from virtuallog_loglets.paxos.standalone.facade import open_replica
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.cli.common.options import echo_json

READ_BYTES: Final = 1 << 20
"""Bytes of values in one read of the replica."""


async def show(path: Path, first: int | None, last: int | None, as_json: bool) -> None:
    """Print the records from `first` (None: the beginning) to `last`, included (None: the end).

    Raises:
        Failure: the replica does not know of this range.
    """
    async with open_replica(path) as replica:
        begin, end = replica.core.begin, replica.core.end
        start, stop = begin if first is None else first, end + 1 if last is None else last + 1
        if start < begin or stop > end + 1 or stop < start:
            raise Failure(f"{start} to {stop - 1} is not within {begin} to {end}, which is what the replica knows of")
        async for position, record in _records(replica, start, stop):
            row = _row(position, record)
            if as_json:
                echo_json(row)
            else:
                click.echo("  ".join(str(value) for value in row.values()))


async def _records(replica: LocalReplica, first: int, stop: int) -> AsyncIterator[tuple[int, PaxosRecord | None]]:
    """Each position with its record. None if the replica has none."""
    while first < stop:
        for record in (await replica.read(first, stop, READ_BYTES)).records:
            yield first, record
            first += 1
        if first < stop and replica.core.missing(first, first + 1):
            yield first, replica.core.slots.open_record(first)
            first += 1


def _row(position: int, record: PaxosRecord | None) -> dict[str, Any]:
    if record is None:
        return {"position": position, "state": "missing"}
    state = "learned" if record.learned else "pending" if record.performed != NOWHERE else "promised"
    row: dict[str, Any] = {"position": position, "state": state}
    if not record.value:
        return row
    kind = kind_of(record.value)
    row["kind"] = "TOMBSTONE" if is_tombstone(record.value) else kind.name
    if kind is ValueKind.TRUNCATE:
        row["to"] = truncation_of(record.value).to
    elif kind is ValueKind.APPEND:
        row.update(_data(payload_of(record.value)))
    return row


def _data(data: bytes) -> dict[str, str]:
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(data).decode()}
