"""The work of `virtuallog read`, `tail` and `trim`."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import click

from virtuallog.admin.control import PrefixTrim
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.errors import BeyondTailError, TrimmedError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Data, Gap, GapKind, LogPosition, PlacedBatch, Sealed
from virtuallog.node_services import ask_living, open_services_to
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.cli.common.options import echo_json

TRIM_SECONDS = 30.0
"""Timeout of a trim, in seconds."""
Print: TypeAlias = Callable[[Placed], bytes]


def read(cluster: ClusterFile, start: int | None, stop: int | None, follow: bool, printer: Print) -> None:
    """Print entries from `start` (None: the trim point) to `stop` (None: the tail, or for ever with `follow`)."""
    event_loop.run(_read, cluster, start, stop, follow, printer)


def tail(cluster: ClusterFile, as_json: bool) -> None:
    """Print the tail of the log."""
    event_loop.run(_tail, cluster, as_json)


def trim(cluster: ClusterFile, position: int, force: bool, as_json: bool) -> None:
    """Trim the log, and print the effective trim point."""
    event_loop.run(_trim, cluster, PrefixTrim(position=position, force=force), as_json)


async def _read(cluster: ClusterFile, start: int | None, stop: int | None, follow: bool, printer: Print) -> None:
    lost = 0
    async with connect(cluster, brief=True) as log:
        first = await _first(log, start, stop)
        end = stop if follow else await _end(log, first, stop)
        reader = log.reader(first, None if end is None else LogPosition(end))
        out = sys.stdout.buffer
        async for placed in reader.batches():
            out.write(printer(placed))
            if follow:
                out.flush()
            if isinstance(placed, Gap) and placed.kind is GapKind.LOST:
                lost += placed.stop - placed.start
        out.flush()
    if lost:
        raise Failure(f"{lost} positions are lost: every copy is gone")


async def _first(log: VirtualLog, start: int | None, stop: int | None) -> LogPosition:
    """The position to begin at.

    Raises:
        TrimmedError: a named position has been trimmed. The command asks for the entry there, not for the rest of the log.
    """
    trim_point = await log.find_trim_point()
    if (start is not None and start < trim_point) or (stop is not None and stop < trim_point):
        raise TrimmedError(trim_point)
    return trim_point if start is None else LogPosition(start)


async def _end(log: VirtualLog, first: int, stop: int | None) -> int:
    tail = (await log.check_tail()).tail
    if (furthest := max(first, stop or 0)) > tail:
        raise BeyondTailError(furthest, tail)
    return tail if stop is None else stop


async def _tail(cluster: ClusterFile, as_json: bool) -> None:
    async with connect(cluster, brief=True) as log:
        found = await log.check_tail()
    sealed = isinstance(found, Sealed)
    if as_json:
        echo_json({"tail": found.tail, "sealed": sealed})
    else:
        click.echo(f"{found.tail} (closed)" if sealed else found.tail)


async def _trim(cluster: ClusterFile, request: PrefixTrim, as_json: bool) -> None:
    async with open_services_to(cluster) as services:
        trimmed = await ask_living(services, cluster, request, TRIM_SECONDS)
    if as_json:
        echo_json({"trim_point": trimmed.position})
    else:
        click.echo(trimmed.position)


def print_raw(placed: Placed) -> bytes:
    """The payloads, one a line. Nothing for a gap.

    Raises:
        TrimmedError: the log was trimmed here while it was read.
    """
    if isinstance(placed, Gap):
        if placed.kind is GapKind.TRIMMED:  # meanwhile: in the raw output a missing range would be invisible
            raise TrimmedError(placed.stop)
        return b""
    return b"\n".join([*_payloads(placed), b""])


def print_text(placed: Placed) -> bytes:
    """A line for each entry, with its position. One line for a gap."""
    if isinstance(placed, Gap):
        return f"{placed.start}..{placed.stop - 1}  ({placed.kind.value})\n".encode()
    places = zip(placed.places, _payloads(placed), strict=True)
    return "".join(f"{place}  {payload.decode(errors='backslashreplace')}\n" for place, payload in places).encode()


def print_json(placed: Placed) -> bytes:
    """A JSON object for each entry or gap, one a line."""
    if isinstance(placed, Gap):
        rows: list[dict[str, Any]] = [{"gap": placed.kind.value, "start": placed.start, "stop": placed.stop}]
    else:
        rows = [_plain(record) for record in placed.records()]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _plain(record: Data) -> dict[str, Any]:
    row: dict[str, Any] = {
        "position": record.position,
        "time_ms": record.time_ms,
        "session": record.session.hex(),
        "sequence": record.sequence,
    }
    try:
        row["payload"] = record.payload.decode()
    except UnicodeDecodeError:
        row["payload_base64"] = base64.b64encode(record.payload).decode()
    return row


def _payloads(placed: PlacedBatch) -> list[bytes]:
    return placed.batch.payloads[placed.first : placed.first + len(placed.places)]
