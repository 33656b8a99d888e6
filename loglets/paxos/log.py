"""The log of Mesos, used by itself: `Log`, `Reader`, `Writer`, over ports. `standalone.open_log` makes one on a real machine.

    async with open_log("data/1", node=1, quorum=2, peers=["1@127.0.0.1:5051", "2@127.0.0.1:5052", "3@127.0.0.1:5053"]) as log:
        writer = Writer(log)
        while await writer.start() is None: ...      another writer was faster: try again, or leave it to him
        position = await writer.append(b"hello")     None: maybe; start again and look

One process is one replica, and reads from it. Any of them may write, one at a time: who starts last turns the others out. The
log elects nobody; its users do.

Source: Mesos, `include/mesos/log/log.hpp`, `src/log/log.cpp`. Departures: a Writer that got None writes no more before it is
started again (defect 3 of docs/sources.md); it may have several appends under way; what Mesos fails with texts are classes here.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Final

import attrs

from loglets.paxos.network import Network
from virtuallog.chain import SegmentId
from virtuallog.errors import MalformedError, TerminalError
from virtuallog.metrics import Family

_IDENTITY: Final = struct.Struct(">Q")


@attrs.frozen(order=True)
class Position:
    """A place in the log. Opaque but for its order."""

    _value: int

    def identity(self) -> bytes:
        """Eight bytes that name it for ever; in the order of the positions."""
        return _IDENTITY.pack(self._value)

    @classmethod
    def from_identity(cls, identity: bytes) -> Position:
        """What `identity` was made from.

        Raises:
            MalformedError: it is none.
        """
        if len(identity) != _IDENTITY.size:
            raise MalformedError(f"the identity of a position has {_IDENTITY.size} bytes, this one {len(identity)}")
        return cls(_IDENTITY.unpack(identity)[0])

    def __str__(self) -> str:
        return str(self._value)


@attrs.frozen
class Entry:
    """What somebody appended."""

    position: Position
    data: bytes


class BadRange(enum.Enum):
    """What is wrong with a range to read, in the words of Mesos."""

    REVERSED = "to < from"
    TRUNCATED = "truncated position"
    PAST_END = "past end of log"
    PENDING = "includes pending entries"
    MISSING = "includes missing entries"


@attrs.define
class ReadRangeError(TerminalError):
    """This replica cannot read that range. PENDING and MISSING end with `Reader.catchup`, or by themselves after a while."""

    reason: BadRange

    def __str__(self) -> str:
        return f"Bad read range ({self.reason.value})"


@attrs.define
class WriterError(TerminalError):
    """The writer cannot do this as it stands: not started, turned out, or writing already. Nothing has been done."""

    reason: str

    def __str__(self) -> str:
        return self.reason


class Log:
    """One replica, and the log as it is seen from there."""

    segment: SegmentId
    network: Network
    quorum: int

    async def recovered(self) -> None:
        """Return once the local replica votes; until then nothing can be read or written here.

        Raises:
            VirtualLogError: it never will: what has ended this log.
        """
        raise NotImplementedError

    def position(self, identity: bytes) -> Position:
        """The inverse of `Position.identity`."""
        return Position.from_identity(identity)

    def metrics(self) -> Sequence[Family]:
        """See `virtuallog.metrics.Measured`."""
        raise NotImplementedError


class Reader:
    """Reads what the local replica has learned. Any number of them, at any time."""

    def __init__(self, log: Log) -> None:
        self._log = log

    async def beginning(self) -> Position:
        """The first position that is not truncated, as far as the local replica knows."""
        raise NotImplementedError

    async def ending(self) -> Position:
        """The last position that the local replica knows of. Others may know of later ones."""
        raise NotImplementedError

    async def read(self, start: Position, end: Position) -> list[Entry]:
        """What was appended from `start` through `end`, both included.

        Raises:
            ReadRangeError: not all of it is here.
        """
        raise NotImplementedError

    async def catchup(self) -> Position:
        """Learn what others know; returns the last position that can be read now. The very last position of the log is left
        alone, as somebody may be writing it.

        Raises:
            UnavailableError: not enough replicas answered.
        """
        raise NotImplementedError


class Writer:
    """Appends to the log, until another writer starts.

    Args:
        log: of the local replica.
        outstanding: how many appends may be under way at a time; Mesos has one.
    """

    def __init__(self, log: Log, outstanding: int = 1) -> None:
        self._log = log

    async def start(self) -> Position | None:
        """Turn out every other writer and learn all that they have written; returns where the log ends.

        None: somebody else was faster, or too few replicas vote. Try again.
        """
        raise NotImplementedError

    async def append(self, data: bytes) -> Position | None:
        """Write one entry; returns where it is, durable on a quorum.

        None: *maybe*. It may be in the log, now or later, or never. This writer is turned out. `start` again, then read
        what there is before anything is written once more. Cancelled, it is a maybe as well.

        Raises:
            WriterError: nothing has been done.
        """
        raise NotImplementedError

    async def truncate(self, to: Position) -> Position | None:
        """Drop everything below `to`; returns the position of the entry that says so. None: maybe, as for `append`."""
        raise NotImplementedError

