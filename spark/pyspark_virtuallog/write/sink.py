"""The sink: implements Spark's writers of rows into the log.

    driver                     executors                              driver
    schema, options, cluster   each attempt of each task: its rows    one marker, which names the attempts that Spark counts
                               under a session of its own

Spark may run a task again, run two attempts of it side by side, and run a whole batch again after a
restart. Rows that the batch's first marker does not name are never seen by readers of committed
rows. There is nothing to undo, so an abort does nothing.

Spark does not tell a stream's writer its query and batch. But the thread that runs a batch has
them, and Spark passes the properties of that thread to its tasks. The query's id is in Spark's
checkpoint, so it outlives the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pyspark_virtuallog.clients import client, with_retries
from pyspark_virtuallog.markers.marker import QueryId, Winner
from pyspark_virtuallog.write.attempt import Attempt, open_attempt
from pyspark_virtuallog.write.batch_commit import commit
from pyspark_virtuallog.write.options import WriteOptions, batch_options, stream_options
from pyspark_virtuallog.write.payloads import check_payloads, chunks_of, find_column, payloads_of
from virtuallog.blocking import BlockingLog
from virtuallog.client.cluster_file import ClusterFile, read_cluster_file
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnsupportedError, WrongRecipientError

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"
"""Properties of the thread that runs a batch (`StreamExecution.QUERY_ID_KEY`,
`MicroBatchExecution.BATCH_ID_KEY`)."""


@attrs.frozen
class Written(WriterCommitMessage):
    """Message of one attempt to the driver."""

    cluster: str
    """Id of the cluster it has written to, in hexadecimal digits."""
    query: str | None
    batch: str | None
    """Query and batch of the stream, as Spark spells them. None for a job."""
    winner: Winner | None
    """Session and extent of its rows. None if it had no rows."""


@attrs.frozen
class Target:
    """The log that a write goes to, for executors and the driver."""

    cluster: ClusterFile
    cluster_id: str
    patience_seconds: float

    def log(self) -> BlockingLog:
        """The client of this process."""
        find = partial(client, self.cluster, None, self.cluster_id, writes=True)
        return with_retries(self.patience_seconds, find)

    def write(self, rows: Iterator[pa.RecordBatch], column: str) -> Written:
        """Run one attempt of a task.

        Raises:
            MalformedError, TooLargeError: a row cannot be an entry; none of its Arrow batch has
                been written.
            VirtualLogError: some rows are not in the log, or their outcome is unknown.
        """
        log = self.log()
        attempt = log.run(open_attempt)
        try:
            winner = _write(log, attempt, rows, column)
        finally:
            log.run(_close, attempt)
        context = TaskContext.get()
        query, batch = (context.getLocalProperty(key) if context else None for key in (_QUERY, _BATCH))
        return Written(self.cluster_id, query, batch, winner)

    def commit(self, query: QueryId | None, batch: int | None, messages: Sequence[Written]) -> None:
        """Make the rows of all these messages visible, once; a job without a name is named after
        its first session. Errors as of `batch_commit.commit`."""
        for message in messages:
            if message.cluster != self.cluster_id:
                raise WrongRecipientError("cluster", self.cluster_id, message.cluster)
        winners = [message.winner for message in messages if message.winner is not None]
        if not winners:
            return
        log, name = self.log(), query or QueryId(winners[0].session)
        # A job without a number commits once: two markers of it would both count.
        patience = 0.0 if batch is None else self.patience_seconds
        with_retries(patience, lambda: log.run(commit, name, batch, winners, self.patience_seconds))


def _write(log: BlockingLog, attempt: Attempt, rows: Iterator[pa.RecordBatch], column: str) -> Winner | None:
    on_database = log.register().database
    for batch in rows:
        payloads = payloads_of(batch, column)
        check_payloads(payloads, on_database=on_database)
        for chunk in chunks_of(payloads):
            log.run(_offer, attempt, chunk)
    return log.run(_finish, attempt)


async def _offer(_: VirtualLog, attempt: Attempt, chunk: list[bytes]) -> None:
    await attempt.write(chunk)


async def _finish(_: VirtualLog, attempt: Attempt) -> Winner | None:
    return await attempt.finish()


async def _close(_: VirtualLog, attempt: Attempt) -> None:
    attempt.close()


class LogWriter(DataSourceArrowWriter):
    """Writer of one job."""

    def __init__(self, target: Target, column: str, transaction: tuple[QueryId, int] | None) -> None:
        self.target = target
        self.column = column
        self.transaction = transaction

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task; runs in the task."""
        return self.target.write(iterator, self.column)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the job: all tasks have succeeded."""
        query, version = self.transaction or (None, None)
        self.target.commit(query, version, _written(messages))


class LogStreamWriter(DataSourceStreamArrowWriter):
    """Writer of one batch of a stream."""

    def __init__(self, target: Target, column: str) -> None:
        self.target = target
        self.column = column

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write the rows of a task; runs in the task."""
        return self.target.write(iterator, self.column)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- named by Spark
        """Commit the batch: all its tasks have succeeded; may be called again after a restart."""
        written = _written(messages)
        queries = {message.query for message in written if message.batch == str(batchId)}
        if not written:
            return
        if len(queries) != 1 or any(message.batch != str(batchId) for message in written) or None in queries:
            raise UnsupportedError(
                f"the tasks of batch {batchId} were not told which query they are of; this Spark cannot write exactly once"
            )
        (query,) = queries
        self.target.commit(QueryId(UUID(query).bytes), batchId, written)


def batch_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceWriter:
    """Implements `DataSource.writer`. Errors as of `_target`."""
    options = batch_options(given)
    return LogWriter(_target(options, overwrite), _column(schema), options.transaction)


def stream_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceStreamWriter:
    """Implements `DataSource.streamWriter`. Errors as of `_target`."""
    return LogStreamWriter(_target(stream_options(given), overwrite), _column(schema))


def _target(options: WriteOptions, overwrite: bool) -> Target:
    """Find the cluster, so that a mistake ends a write before it begins.

    Raises:
        UnsupportedError: the mode would replace something.
        UnavailableError, UntrustedError, WrongRecipientError, InvalidSettingError: as
            `virtuallog.connect.connect`.
    """
    if overwrite:
        raise UnsupportedError("a log only grows: write with mode append, a stream with output mode append or update")
    cluster = read_cluster_file(Path(options.cluster))

    def look() -> str:
        return client(cluster, None, options.cluster_id, writes=True).register().cluster.hex()

    return Target(cluster, with_retries(options.patience_seconds, look), options.patience_seconds)


def _column(schema: StructType) -> str:
    return find_column([(field.name, field.dataType.simpleString()) for field in schema.fields])


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """Messages of the attempts. Spark calls `commit` only if every task has succeeded, with the
    results of `write`."""
    assert all(isinstance(message, Written) for message in messages)
    return [message for message in messages if isinstance(message, Written)]
