"""Which rows a reader with `isolationLevel=read_committed` sees: those of the attempts that a marker names.

A row becomes visible with its marker, so a range [start, stop) stands for the *markers* in it. The rows that they name lie below
their marker, possibly below `start`; rows in the range whose marker lies at `stop` or later come with a later range. So ranges
that lie side by side show every row once, and the positions of the rows of a range need not be in it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import attrs

from virtuallog.blocking import BlockingLog
from virtuallog.types import LogPosition


@attrs.frozen
class Visible:
    """A part of the log, and whose entries in it are visible. It may be cut in any way: each piece has the same sessions."""

    start: LogPosition
    stop: LogPosition
    sessions: frozenset[bytes]


def plan(log: BlockingLog, start: LogPosition, stop: LogPosition, *, patience: float = 30.0) -> list[Visible]:
    """What becomes visible in [start, stop): pieces in order of their positions, no two overlap. All below `stop` must be written.

    Reads the range once, and as much below it as the first marker has not looked at.

    Raises:
        UnavailableError: nothing could be read for `patience` seconds.
        MalformedError: a marker of a later version.
    """
    raise NotImplementedError


def rows_of(table: Any, sessions: Collection[bytes]) -> Any:
    """The rows of an Arrow table (`loglets.archive.rows.SCHEMA`, or at least its column `session`) that these sessions wrote. Gaps
    are of no session."""
    raise NotImplementedError
