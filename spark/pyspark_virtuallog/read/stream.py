"""Stream reader: implements `spark.readStream.format("virtuallog")`.

A micro-batch is a range of positions, decided before it is read and kept in the checkpoint with the
id of the cluster. Positions and entries never change, even if the chain does, so a repeated batch
reads the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, TypeVar

import attrs
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_virtuallog.clients import with_retries
from pyspark_virtuallog.read.batch import read_partition
from pyspark_virtuallog.read.filters import EVERYTHING
from pyspark_virtuallog.read.hold_position import HoldPosition
from pyspark_virtuallog.read.offsets import End, Offset, offset_untrusted
from pyspark_virtuallog.read.options import ReadOptions, stream_options
from pyspark_virtuallog.read.range_resolver import Resolver
from pyspark_virtuallog.read.schema import check_schema
from pyspark_virtuallog.read.stream_hold import StreamHold
from pyspark_virtuallog.read.task_plan import bounded
from virtuallog.contract.errors import BeyondTailError, InvalidSettingError, WrongRecipientError

ResultT = TypeVar("ResultT")


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a log. Waits for a cluster that does not answer, as long as the option
    `patienceSeconds` says."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(schema)
        self.options = options
        self.schema = schema
        self._target: Offset | None = None
        """End of the stream if only what is available now is wanted. None otherwise."""
        self._tail: Offset | None = None
        """The tail as of the last look. None before the first one."""
        self._holder = StreamHold(options.hold, HoldPosition(options.patience_seconds)) if options.hold else None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- these are named by Spark
        """Start of a new stream; a resumed one has its checkpoint."""
        start = self._ask(Resolver.start)
        is_earliest = self.options.start is End.EARLIEST
        kept = self._hold(start, may_begin_later=is_earliest)
        return (attrs.evolve(start, position=kept) if is_earliest else start).plain()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Limit of `maxOffsetsPerTrigger`. Spark has no unit for positions; it only passes this
        back."""
        limit = self.options.offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """End of the next micro-batch. Called at each trigger, also when nothing has come: it asks
        for the tail, and nothing else."""
        begin = offset_untrusted(start)
        tail = self._tail = self._ask(Resolver.tail)
        if begin.cluster != tail.cluster:
            raise WrongRecipientError("cluster", begin.cluster, tail.cluster)
        if begin.position > tail.position:
            raise BeyondTailError(begin.position, tail.position)
        self._hold(begin)
        end = self._target or tail
        positions = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return Offset(begin.cluster, bounded(begin, end.position, positions)).plain()

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The tail, so that the progress shows the lag of a stream. Spark has asked for
        `latestOffset` right before."""
        return (self._tail or self._ask(Resolver.tail)).plain()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end: nothing appended from now on is read."""
        self._target = self._ask(Resolver.tail)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Tasks of a micro-batch."""
        begin, stop = self._checked(start), self._checked(end)
        self._hold(begin)
        tasks = self._ask(lambda resolver: resolver.tasks(begin.position, stop.position))
        return [InputPartition(task) for task in tasks]

    def commit(self, end: dict[str, Any]) -> None:
        """Note that the batch that ended there is done. Spark calls this when it plans the next
        one."""
        if self._holder is not None:
            self._holder.commit(offset_untrusted(end).position)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of a task."""
        return read_partition(partition, self.schema, EVERYTHING)

    def _checked(self, fields: dict[str, Any]) -> Offset:
        """An offset of a checkpoint, which must be one of this log."""
        offset = offset_untrusted(fields)
        self._ask(lambda resolver: resolver.check_cluster(offset.cluster))
        return offset

    def _hold(self, start: Offset, *, may_begin_later: bool = False) -> int:
        """Keep the log for this stream from `start` on. Returns the position from which on it is
        kept."""
        if self._holder is None:
            return start.position
        log = self._resolver.log()
        may_begin_later = may_begin_later or not self.options.fail_on_data_loss
        kept = self._holder.begin(log, start.position, may_begin_later=may_begin_later)
        self._holder.keep(log)
        return kept

    def _ask(self, question: Callable[[Resolver], ResultT]) -> ResultT:
        return with_retries(self.options.patience_seconds, partial(question, self._resolver))

    @cached_property
    def _resolver(self) -> Resolver:
        return Resolver.of(self.options)


class RefusedStream(DataSourceStreamReader):
    """Stream with invalid options or schema. PySpark up to 4.3.0 hides an error raised while a
    reader is made behind one of its own. So this reader is made, and raises at the first call."""

    def __init__(self, error: InvalidSettingError) -> None:
        self.error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Raises the error for a new stream."""
        raise self.error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Raises the error for a resumed stream."""
        raise self.error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Never called: nothing is planned."""
        raise self.error


def stream_reader(given: Mapping[str, str], schema: StructType) -> DataSourceStreamReader:
    """Implements `DataSource.streamReader`."""
    try:
        return LogStreamReader(stream_options(given), schema)
    except InvalidSettingError as error:
        return RefusedStream(error)
