"""Options of a read, checked before anything is done.

Names and meanings are those of Spark's Kafka source where it has such an option.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from pyspark_virtuallog.options import CLUSTER, Option, fields_of, natural
from pyspark_virtuallog.read.offsets import End, Place, Since, parse_place
from virtuallog.client.scan import RETRY_LIMIT_SECONDS
from virtuallog.contract.errors import InvalidSettingError

_NEEDS_SINGLE_SCAN: Final = (
    "PySpark up to 4.3.0 gives every further scan of the table only what the filters of one have left, without an error. If it is scanned "
    'once for each load(), say so: .option("singleScan", "true")'
)
"""Error text. Only the user knows this: a scan without a filter asks nothing of a source, and tasks
of two scans look alike (docs/howto/spark.md)."""


@attrs.frozen(kw_only=True)
class ReadOptions:
    """Options of one reader, batch or stream. docs/howto/spark.md explains them for users."""

    cluster: str
    """Path of the cluster file, on the machine of the driver."""
    cluster_id: str | None = None
    """Expected cluster id, in hexadecimal digits. None for any cluster."""
    start: Place = End.EARLIEST
    stop: Place = End.LATEST
    fail_on_data_loss: bool = True
    positions_per_partition: int | None = None
    """Positions of a task. None if chosen by `task_plan`."""
    min_partitions: int = 1
    offsets_per_trigger: int | None = None
    """Most positions of a micro-batch. None for all there are."""
    committed_only: bool = False
    hold: str | None = None
    """Stream only: name of the hold that keeps the log of a database for it."""
    pushdown: bool = False
    single_scan: bool = False
    """True if the user has promised to scan the loaded table once."""
    patience_seconds: float = RETRY_LIMIT_SECONDS
    """Seconds of retries of a task, or a stream, while no server answers."""


def batch_options(given: Mapping[str, str]) -> ReadOptions:
    """Parse the options of `spark.read`.

    Raises:
        InvalidSettingError: an option is unknown, has an invalid value, or contradicts another one.
    """
    options = _parse(given, _BOTH | _BATCH, _STREAM, "spark.readStream")
    if options.start is End.LATEST:
        raise InvalidSettingError("startingOffsets", "latest is the end of what there is to read, not the start")
    if options.stop is End.EARLIEST:
        raise InvalidSettingError("endingOffsets", "earliest is the start of what there is to read, not the end")
    if options.pushdown and not options.single_scan:
        raise InvalidSettingError("pushdown", _NEEDS_SINGLE_SCAN)
    return options


def stream_options(given: Mapping[str, str]) -> ReadOptions:
    """Parse the options of `spark.readStream`; without `startingOffsets` it begins at the tail, as
    with Kafka.

    Raises: as `batch_options`.
    """
    options = _parse(given, _BOTH | _STREAM, _BATCH, "spark.read")
    if options.hold is not None and options.committed_only:
        raise InvalidSettingError(
            "hold", "rows that are committed may lie anywhere before: isolationLevel must be read_uncommitted"
        )
    is_placed = any(name.lower() in {key.lower() for key in given} for name in _STARTS)
    return options if is_placed else attrs.evolve(options, start=End.LATEST)


# -- one option -----------------------------------------------------------------------------------------------------------


def _flag(option: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise InvalidSettingError(option, f"{text!r} is not true or false")
    return text.lower() == "true"


def count(option: str, text: str) -> int:
    if not (number := natural(text)):
        raise InvalidSettingError(option, f"{text!r} is not a number from 1 on")
    return number


def _since(option: str, text: str) -> Since:
    if (milliseconds := natural(text)) is None:
        raise InvalidSettingError(option, f"{text!r} is not a time in milliseconds since 1970")
    return Since(milliseconds)


def _hold_name(option: str, text: str) -> str:
    if not _HOLD.fullmatch(text):
        raise InvalidSettingError(
            option, f"{text!r} is not a name: 1 to 64 letters, digits, dots, underscores or hyphens"
        )
    if text == COMPACTION:
        raise InvalidSettingError(option, f"{text!r} is the hold of compactions: take another name")
    return text


def _isolation(option: str, text: str) -> bool:
    if text.lower() not in {"read_committed", "read_uncommitted"}:
        raise InvalidSettingError(option, f"{text!r} is not read_committed or read_uncommitted")
    return text.lower() == "read_committed"


_HOLD: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
COMPACTION: Final = "compaction"
"""Name of the hold of `pyspark_virtuallog.compact`."""
_STARTS: Final = ("startingOffsets", "startingTimestamp")
_BOTH: Final[dict[str, Option]] = {
    **CLUSTER,
    "startingOffsets": ("start", parse_place),
    "startingTimestamp": ("start", _since),
    "failOnDataLoss": ("fail_on_data_loss", _flag),
    "positionsPerPartition": ("positions_per_partition", count),
    "minPartitions": ("min_partitions", count),
    "isolationLevel": ("committed_only", _isolation),
}
_BATCH: Final[dict[str, Option]] = {
    "endingOffsets": ("stop", parse_place),
    "endingTimestamp": ("stop", _since),
    "pushdown": ("pushdown", _flag),
    "singleScan": ("single_scan", _flag),
}
_STREAM: Final[dict[str, Option]] = {
    "maxOffsetsPerTrigger": ("offsets_per_trigger", count),
    "hold": ("hold", _hold_name),
}
NAMES: Final = (*_BOTH, *_BATCH, *_STREAM)
"""Names of all options, as they are documented."""


def _parse(
    given: Mapping[str, str], known: Mapping[str, Option], others: Mapping[str, Option], elsewhere: str
) -> ReadOptions:
    return ReadOptions(**fields_of(given, known, others, elsewhere))
