"""Options of a write, checked before anything is done.

`txnAppId` and `txnVersion` are those of Delta Lake: they identify a job that may be run again, so
that it counts once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import attrs

from pyspark_virtuallog.markers.marker import QueryId
from pyspark_virtuallog.options import CLUSTER, Option, fields_of, natural, not_empty
from virtuallog.client.scan import RETRY_LIMIT_SECONDS
from virtuallog.contract.errors import InvalidSettingError


@attrs.frozen(kw_only=True)
class WriteOptions:
    """Options of one writer, batch or stream. docs/howto/spark.md explains them for users."""

    cluster: str
    """Path of the cluster file, on the machine of the driver."""
    cluster_id: str | None = None
    """Expected cluster id, in hexadecimal digits. None for any cluster."""
    patience_seconds: float = RETRY_LIMIT_SECONDS
    """Seconds of the driver's retries while no server answers. A task appends as long as an
    appender tries."""
    application: str | None = None
    version: int | None = None
    """Number of the job in its sequence; later jobs have higher ones."""

    @property
    def transaction(self) -> tuple[QueryId, int] | None:
        """Query and batch of the job's marker. None if it has no name."""
        if self.application is None or self.version is None:
            return None
        return QueryId(hashlib.sha256(self.application.encode()).digest()[:16]), self.version


def batch_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of `DataFrame.write`.

    Raises:
        InvalidSettingError: an option is unknown, has an invalid value, or is missing.
    """
    options = WriteOptions(**fields_of(given, CLUSTER | _TRANSACTION, {}, ""))
    if (options.application is None) != (options.version is None):
        raise InvalidSettingError("txnAppId", "needs txnVersion, and the other way round")
    return options


def stream_options(given: Mapping[str, str]) -> WriteOptions:
    """Parse the options of `DataFrame.writeStream`; some of Spark's own come with them. Raises: as
    `batch_options`."""
    ours = {name: text for name, text in given.items() if name.lower() not in _OF_SPARK}
    return WriteOptions(**fields_of(ours, CLUSTER, _TRANSACTION, "DataFrame.write"))


def _version(option: str, text: str) -> int:
    if (version := natural(text)) is None:
        raise InvalidSettingError(option, f"{text!r} is not a number")
    return version


_TRANSACTION: Final[dict[str, Option]] = {
    "txnAppId": ("application", not_empty),
    "txnVersion": ("version", _version),
}
_OF_SPARK: Final = {"checkpointlocation", "queryname"}
NAMES: Final = (*CLUSTER, *_TRANSACTION)
"""Names of all options, as they are documented."""
