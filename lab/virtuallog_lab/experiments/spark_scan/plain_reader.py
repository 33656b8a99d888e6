"""A plain reader of a log, in a process of its own, with which Spark is compared.

    python -m virtuallog_lab.experiments.spark_scan.plain_reader CLUSTER.toml STOP

*The plain single-process reader* is this, and nothing else: `BlockingLog.scan` from the start of the log to STOP, and for each entry,
one after the other, as `Record`s come out of it: count it, add up the bytes of its payload and the CRC32 of its payload. That is what
the query of Spark does with each row, in the simplest program that does it.

`--batches` is another one, for comparison: it looks at no entry, and adds up what batches say of themselves. No program that wants
to know anything about entries can be faster with this client.

The first piece is read before the clock starts: neither the start of Python nor the connection counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Final

import attrs
import click
import trio

from virtuallog.blocking import connect_blocking
from virtuallog.client.reader import records
from virtuallog.client.virtual_log import READS_ONLY
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Data, LogPosition, PlacedBatch
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.experiments.spark_scan.contents import Contents, contents_of
from virtuallog_lab.harness.trial import set_up_client

LIMIT_SECONDS: Final = 1800.0
"""Seconds for one run, on a busy machine."""


@attrs.frozen(kw_only=True)
class PlainRun:
    """Result of a plain reader."""

    contents: Contents
    seconds: float
    cpu_seconds: float


def by_entries(piece: Sequence[Placed]) -> Contents:
    """Look at each entry."""
    found = (record for placed in piece for record in records(placed))
    return contents_of(record.payload for record in found if isinstance(record, Data))


def by_batches(piece: Sequence[Placed]) -> Contents:
    """Look at no entry; there is no checksum then. Batches that are clipped are not expected here."""
    batches = [placed.batch for placed in piece if isinstance(placed, PlacedBatch)]
    return Contents(sum(batch.count for batch in batches), sum(len(batch.packed_payloads) for batch in batches))


def read(cluster: Path, stop: int, look: Callable[[Sequence[Placed]], Contents]) -> PlainRun:
    """Read in this process.

    Raises:
        VirtualLogError: as `scan`.
    """
    clock = SystemClock()
    with connect_blocking(cluster, settings=READS_ONLY) as log:
        start = log.find_trim_point()
        look(next(log.scan(start, LogPosition(stop))))
        began, used, found = clock.monotonic(), process_time(), Contents()
        for piece in log.scan(start, LogPosition(stop)):
            found += look(piece)
        return PlainRun(contents=found, seconds=clock.monotonic() - began, cpu_seconds=process_time() - used)


async def run(cluster: Path, stop: int, *, batches: bool = False) -> PlainRun:
    """Read in a process of its own.

    Raises:
        UnavailableError: it failed, or took too long; its last line says why.
    """
    command = [
        sys.executable,
        "-m",
        "virtuallog_lab.experiments.spark_scan.plain_reader",
        str(cluster),
        str(stop),
        *(["--batches"] * batches),
    ]
    with SystemClock().timeout(LIMIT_SECONDS):
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
        if done.returncode:
            raise UnavailableError(f"the plain reader failed: {done.stderr.decode()[-300:]}")
        found = json.loads(done.stdout)
        return PlainRun(contents=Contents(**found.pop("contents")), **found)
    raise UnavailableError(f"the plain reader took more than {LIMIT_SECONDS:g} s")


@click.command()
@click.argument("cluster", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("stop", type=click.IntRange(min=1))
@click.option("--batches", is_flag=True, help="Look at no entry.")
def main(*, cluster: Path, stop: int, batches: bool) -> None:
    """Read a log from its start to STOP, and print what was found as JSON."""
    set_up_client()
    click.echo(json.dumps(attrs.asdict(read(cluster, stop, by_batches if batches else by_entries))))


if __name__ == "__main__":
    main()
