"""Start and end of a read: the spelling in options, and the form in checkpoints of streams.

    earliest                          the first position that is not trimmed
    latest                            the tail
    4711                              a position
    {"cluster": "c3..", "position": 4711}   a position of that cluster only: what a stream commits

A position alone says nothing about its log: after a mistake in a path it would be read from another
log, without complaint. So every stored position carries the cluster's id.
"""

from __future__ import annotations

import enum
import json
from typing import Any, Final, TypeAlias

import attrs

from pyspark_virtuallog.options import is_cluster
from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.types import POSITION_MAX

_SHOWN: Final = 100
"""Characters of a refused text that an error shows."""


class End(enum.Enum):
    """One end of the log as it is now."""

    EARLIEST = "earliest"
    LATEST = "latest"


@attrs.frozen
class At:
    """A position."""

    position: int
    cluster: str | None = None
    """Cluster id in hexadecimal digits. None if not given."""


@attrs.frozen
class Since:
    """The position that belongs to a time of day."""

    milliseconds: int
    """Milliseconds since the epoch."""


Place: TypeAlias = End | At | Since


@attrs.frozen
class Offset:
    """A position of a cluster's log: everything below it has been read. Durable: it is in
    checkpoints of streams."""

    cluster: str
    """Cluster id in hexadecimal digits."""
    position: int

    def plain(self) -> dict[str, Any]:
        """Plain values, as Spark keeps them."""
        return {"cluster": self.cluster, "position": self.position}


def offset_untrusted(fields: object) -> Offset:
    """Parse the result of `plain`.

    Raises:
        MalformedError: not such values.
    """
    found = _at_untrusted(fields)
    if found is None or found.cluster is None:
        raise MalformedError(f"not an offset of a virtuallog stream: {str(fields)[:_SHOWN]}")
    return Offset(found.cluster, found.position)


def parse_place(option: str, text: str) -> Place:
    """Parse the value of `startingOffsets` or `endingOffsets`.

    Raises:
        InvalidSettingError: it has none of the forms above.
    """
    if text.lower() in {end.value for end in End}:
        return End(text.lower())
    try:
        found = _at_untrusted(json.loads(text))
    except (ValueError, RecursionError):
        found = None
    if found is None:
        raise InvalidSettingError(
            option,
            f"{text[:_SHOWN]!r} is not earliest, latest, a position or "
            + '{"cluster": "<32 hex digits>", "position": <n>}',
        )
    return found


def _at_untrusted(fields: object) -> At | None:
    position, cluster = fields, None
    if isinstance(fields, dict):
        if not set(fields) <= {"cluster", "position"}:
            return None
        position, cluster = fields.get("position"), fields.get("cluster")
        if cluster is not None and not (isinstance(cluster, str) and is_cluster(cluster)):
            return None
    if type(position) is not int or not 0 <= position <= POSITION_MAX:  # True is an int, too
        return None
    return At(position, cluster)
