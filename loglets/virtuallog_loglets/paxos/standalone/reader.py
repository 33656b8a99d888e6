"""Reader of a log used by itself, from the local replica.

Source: Mesos, `src/log/log.cpp`; where Mesos fails with texts, there are error classes here.
"""

from __future__ import annotations

import enum
from typing import Final

import attrs

from virtuallog.contract.errors import TerminalError
from virtuallog_loglets.paxos.core.values import ValueKind, kind_of, payload_of
from virtuallog_loglets.paxos.drivers.catch_up import catch_up_voting
from virtuallog_loglets.paxos.messages import PaxosRecord
from virtuallog_loglets.paxos.standalone.log import Log, Position

READ_BYTES: Final = 1 << 20
"""Bytes of values in one read of the store."""


@attrs.frozen
class LogEntry:
    """One appended entry."""

    position: Position
    data: bytes


class BadRange(enum.Enum):
    """Fault of a range to read, in the words of Mesos."""

    REVERSED = "to < from"
    TRUNCATED = "truncated position"
    PAST_END = "past end of log"
    PENDING = "includes pending entries"
    MISSING = "includes missing entries"


@attrs.define
class ReadRangeError(TerminalError):
    """Raised if this replica cannot read a range.

    PENDING and MISSING end with `LogReader.catchup`, or by themselves.
    """

    reason: BadRange

    def __str__(self) -> str:
        return f"Bad read range ({self.reason.value})"


@attrs.define(eq=False)
class LogReader:
    """Reads what the local replica has learned. Any number of readers may exist at any time."""

    _log: Log

    async def beginning(self) -> Position:
        """The first position that is not truncated, as far as the local replica knows."""
        await self._log.recovered()
        return Position(self._log.replica.core.begin)

    async def ending(self) -> Position:
        """The last position that the local replica knows of. Others may know of later ones."""
        await self._log.recovered()
        return Position(self._log.replica.core.end)

    async def read(self, start: Position, end: Position) -> list[LogEntry]:
        """Read the entries from `start` through `end`, both included.

        Raises:
            ReadRangeError: part of the range is not here.
        """
        await self._log.recovered()
        first, stop, entries = start.value, end.value + 1, list[LogEntry]()
        if (wrong := self._fault(first, stop)) is not None:
            raise ReadRangeError(wrong)
        while first < stop:
            found = (await self._log.replica.read(first, stop, READ_BYTES)).records
            if not found:  # it was there a moment ago
                raise ReadRangeError(self._fault(first, stop) or BadRange.TRUNCATED)
            entries += (LogEntry(Position(each.position), payload_of(each.value)) for each in found if _is_data(each))
            first = found[-1].position + 1
        return entries

    async def catchup(self) -> Position:
        """Learn what other replicas know; returns the last position up to which all can be read now.

        The last position of the log is left alone, as a writer may have it in flight. Positions that are truncated
        meanwhile cannot be read: see `beginning`.

        Raises:
            UnavailableError: not enough replicas answered, or the log has only one position.
        """
        log = self._log
        await log.recovered()
        return Position(await catch_up_voting(log.replica, log.network.ensemble, log.environment))

    def _fault(self, first: int, stop: int) -> BadRange | None:
        core = self._log.replica.core
        if stop <= first:
            return BadRange.REVERSED
        if first < core.begin:
            return BadRange.TRUNCATED
        if stop > core.end + 1:
            return BadRange.PAST_END
        missing = core.missing(first, stop)
        if not missing:
            return None
        return BadRange.MISSING if core.slots.open_record(missing[0].start) is None else BadRange.PENDING


def _is_data(record: PaxosRecord) -> bool:
    return kind_of(record.value) is ValueKind.APPEND
