"""Reader of a task of Spark: reads its parts, from the files of archives or from servers, and
yields batches of rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from pyspark_virtuallog.clients import client, with_retries
from pyspark_virtuallog.read.committed import rows_of
from pyspark_virtuallog.read.filters import RowFilter
from pyspark_virtuallog.read.rows import batch_of, check_whole, source_columns, stop_of
from pyspark_virtuallog.read.task_plan import Part, ReadTask
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import LogPosition
from virtuallog_loglets.archive import config as archives
from virtuallog_loglets.archive.core.rows import table_of
from virtuallog_loglets.archive.drivers.tables import open_archive
from virtuallog_loglets.archive.provider import KIND


def read_task(task: ReadTask, schema: pa.Schema, wanted: RowFilter) -> Iterator[pa.RecordBatch]:
    """The rows of a task, in order, a MiB or two of entries at a time.

    Raises (when iterated over):
        TrimmedError: a part has been trimmed since the task was planned, and that must not be.
        CorruptionError: a part is damaged or lost, everywhere.
        RetryableError: no server that has the entries answered for as long as the task has
            patience.
        WrongRecipientError: the servers are of another cluster by now.
    """
    for part in task.parts:
        for table in _tables(task, part, schema):
            batch = rows_wanted(table, part, schema, wanted, may_miss=task.may_miss)
            if batch.num_rows:
                yield batch


def rows_wanted(table: pa.Table, part: Part, schema: pa.Schema, wanted: RowFilter, *, may_miss: bool) -> pa.RecordBatch:
    """Rows of a part as Spark gets them.

    Raises:
        TrimmedError, CorruptionError: some of them are missing, and must not be.
    """
    if not may_miss:
        check_whole(table)
    rows = table if part.sessions is None else rows_of(table, part.sessions)
    return wanted.rows(batch_of(rows, part, schema))


def _tables(task: ReadTask, part: Part, schema: pa.Schema) -> Iterator[pa.Table]:
    """Tables in `virtuallog_loglets.archive.core.rows.SCHEMA`, or with those of its columns that
    are needed."""
    position = part.start
    if part.segment is not None and part.segment.kind == KIND:
        try:
            archive = open_archive(archives.decode_untrusted(part.segment.config))
            columns = source_columns(schema.names, with_sessions=part.sessions is not None)
            for table in archive.read(part.start, part.stop, columns):
                yield table
                position = stop_of(table)
        except VirtualLogError:
            # The log knows better: another archive may have replaced this one, or there is a hot
            # copy still. If not, it
            # raises the same.
            pass
    if position < part.stop:
        yield from _hot(task, position, part.stop)


def _hot(task: ReadTask, start: int, stop: int) -> Iterator[pa.Table]:
    log = with_retries(task.patience_seconds, partial(client, task.cluster, task.near, task.cluster_id))
    for piece in log.scan(LogPosition(start), LogPosition(stop), patience=task.patience_seconds):
        yield table_of(piece)
