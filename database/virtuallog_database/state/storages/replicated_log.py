"""Storage in the replicated log of Mesos used by itself: `virtuallog_loglets.paxos.standalone`.

    async with open_log("data/1", node=1, quorum=2, peers=[...]) as log:
        state = State(ReplicatedLogStorage(log))

The log holds records (`core/log_records.py`), and each client an image of them in memory (`core/log_image.py`). Any number
of processes may use one log. It has one writer at a time, so what a writer compares with is the present version:

    set, expunge    compare; elect this writer unless it leads; learn what others wrote; compare again; append; truncate
    get, names      ask a quorum how far the log goes; learn the rest, if there is any; look at the image

A read costs a round trip and no write, and turns no writer out. So every client, also one whose writer was turned out,
reads what was completed before. A refusal is a read, too: a deposed owner whose version is stale is refused without an
election. Only a write that fits the present version elects its writer, and turns the other one out.

Source: Mesos, src/state/log.cpp. Departures:
* Reads ask a quorum. There `get` looks at the image of a writer that may have been turned out.
* None from an append is *maybe*: this writer is elected again, and learns what became of it. There it is `false`.
* After any failure an image that misses truncated records is dropped, and the log read from its beginning (defect 0.9).
* The log is truncated once that frees `slack_bytes`, not after each write: a truncation costs as much as a write.
* It is defragmented, as one rarely written name would hold the truncation point for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import attrs
import trio

from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog_database.state.core.log_image import LogImage
from virtuallog_database.state.core.log_records import (
    FRAME_BYTES,
    DiffRecord,
    ExpungeRecord,
    LogRecord,
    SnapshotRecord,
    parse_untrusted,
)
from virtuallog_database.state.storage import check_size, may_set
from virtuallog_database.state.variable import StateEntry, encode_name
from virtuallog_loglets.paxos.core.values import ValueKind, kind_of, payload_of
from virtuallog_loglets.paxos.standalone.linearizable_read import cover, learn, recovered
from virtuallog_loglets.paxos.standalone.log import Log, Position
from virtuallog_loglets.paxos.standalone.writer import DATA_BYTES_MAX, LogWriter

VALUE_BYTES_MAX: Final = DATA_BYTES_MAX - FRAME_BYTES
"""Largest value: its SNAPSHOT fits into one entry of the log."""
DIFFS_DEFAULT: Final = 128
"""Most DIFFs behind one SNAPSHOT; the library of Mesos has 0 and its tests 1024. A replay copies the value for each."""
SLACK_BYTES: Final = 1 << 20
"""Bytes that the log may hold beyond what is needed, before it is worth a write to drop or to move some."""
READ_BYTES: Final = 1 << 20
"""Bytes of one piece of a replay. All else in memory is the image."""
ELECTIONS: Final = 3
"""Elections of one call. Two clients that want to write at once meet again only by chance."""
ELECT_PAUSE_SECONDS: Final = 0.05
"""Longest pause between two elections."""
ROUNDS_MAX: Final = 16
"""Rounds of one call. Each one more is due to a write of another client."""


@attrs.define
class _Sought:
    """A version whose append got no answer."""

    version: bytes
    is_found: bool = False
    is_whole: bool = True
    """False if records were dropped unread, so it may have been there."""


@attrs.define(eq=False)
class ReplicatedLogStorage:
    """Implements `StateStorage` with a log that holds nothing else.

    Reads are linearizable in every process. A call that meets records of another program raises MalformedError, and a log
    that has ended raises its error; then a write has an unknown outcome.

    Args:
        log: the log, as seen from the replica in this process.
        diffs_between_snapshots: most differences behind one whole value; 0 for none.
        slack_bytes: see SLACK_BYTES.
    """

    _log: Log
    diffs_between_snapshots: int = attrs.field(default=DIFFS_DEFAULT, kw_only=True)
    slack_bytes: int = attrs.field(default=SLACK_BYTES, kw_only=True)
    value_bytes_max: int = attrs.field(default=VALUE_BYTES_MAX, init=False)
    _writer: LogWriter = attrs.field(init=False)
    _leads: bool = attrs.field(default=False, init=False)
    """True if the writer is elected, and its last write was answered."""
    _lingers: bool = attrs.field(default=False, init=False)
    """True if a record without an answer may still come into the log: until an election has settled its position."""
    _image: LogImage = attrs.field(init=False)
    _writing: trio.Lock = attrs.field(factory=trio.Lock, init=False)
    """Held by the task that changes the image or uses the writer, from the comparison to the end of a write."""
    _sought: _Sought | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._writer, self._image = LogWriter(self._log), self._empty()

    async def get(self, name: str) -> StateEntry | None:
        await self._read_up()
        return self._image.get(name)

    async def names(self) -> frozenset[str]:
        await self._read_up()
        return self._image.names()

    async def set(self, name: str, entry: StateEntry, expected: bytes, *, may_create: bool) -> bool:
        encode_name(name)
        check_size(name, entry.value, self.value_bytes_max)
        async with self._writing:
            try:
                return await self._set(name, entry, expected, may_create=may_create)
            finally:
                self._sought = None

    async def expunge(self, name: str, expected: bytes) -> bool:
        async with self._writing:
            for _ in range(ROUNDS_MAX):
                if self._image.version(name) != expected:
                    if not await self._refresh():
                        return False
                elif not self._leads:
                    await self._lead()
                elif await self._append(record := ExpungeRecord(name, expected)):
                    await self._tidy(record.cost)
                    return True
                else:
                    # The repeated call finds out. One that finds nothing cannot tell its own record from that of another.
                    raise UnavailableError(f"unknown outcome of the removal of '{name}'{self._hindrance()}")
            raise _contended()

    # -- writing ------------------------------------------------------------------------------------------------------

    async def _set(self, name: str, entry: StateEntry, expected: bytes, *, may_create: bool) -> bool:
        for _ in range(ROUNDS_MAX):
            present = self._image.version(name)
            is_answer = present == entry.version or not may_set(present, expected, may_create=may_create)
            if is_answer and not self._lingers:
                # This may be what was true before another client wrote.
                if not await self._refresh():
                    return present == entry.version or self._settled(name)
            elif not self._leads:
                await self._lead()
            elif await self._append(record := self._image.next_record(name, entry)):
                await self._tidy(record.cost)
                return True
            else:
                self._sought = _Sought(entry.version)
        if self._sought is None:
            raise _contended()
        raise UnavailableError(f"unknown outcome of {ROUNDS_MAX} attempts{self._hindrance()}")

    def _settled(self, name: str) -> bool:
        """True if the append without an answer of this call was decided; another client has written since. All earlier positions are decided
        now, and a writer that was turned out decides none, so it is never decided later.

        Raises:
            UnavailableError: it cannot be known.
        """
        if self._sought is not None and not self._sought.is_whole:
            raise UnavailableError(f"unknown outcome: the records of '{name}' have been truncated")
        return self._sought is not None and self._sought.is_found

    async def _lead(self) -> None:
        """Turn out every other writer, and apply all that was written.

        Raises:
            UnavailableError: not elected, or no quorum answers.
        """
        environment = self._log.environment
        await recovered(self._log)
        for left in reversed(range(ELECTIONS)):
            if await self._writer.start() is not None:
                await self._refresh()
                self._leads, self._lingers = True, False
                return
            if left:
                await environment.clock.sleep(ELECT_PAUSE_SECONDS * environment.random.random())
        raise UnavailableError(f"the writer of the log is not elected{self._hindrance()}")

    def _hindrance(self) -> str:
        """Known reason for a writer that does not lead, as the end of a message."""
        full = "" if self._log.has_room else "; the disk of this replica is nearly full"
        return (f": {self._writer.hindrance}" if self._writer.hindrance else "") + full

    async def _append(self, record: LogRecord) -> bool:
        """Append a record and apply it. False: *maybe*. Then, and if this is cancelled, the next write begins with an election and a replay."""
        self._leads, self._lingers = False, True
        position = await self._writer.append(record.encode())
        if position is None:
            return False
        assert position.value == self._image.next_position, (
            "a writer that leads has applied all that was written before"
        )
        self._image.apply(position.value, record)
        self._leads, self._lingers = True, False
        return True

    async def _tidy(self, written: int) -> None:
        """Move old values to the tail, and truncate the log, if that is due.

        Failures are ignored on purpose. The write before is durable, so its caller must not get an error. The next append
        meets the same failure, and the next write makes up for what is left undone.
        """
        with suppress(VirtualLogError):
            record = self._image.rewrite(written, DATA_BYTES_MAX)
            if record is not None and not await self._append(record):
                return
            if self._image.garbage_bytes > self.slack_bytes:
                await self._truncate()

    async def _truncate(self) -> None:
        self._leads = False
        position = await self._writer.truncate(Position(self._image.truncation_point))
        if position is not None:
            self._image.truncated()
            self._image.skip(position.value)
            self._leads = True

    # -- reading ------------------------------------------------------------------------------------------------------

    async def _read_up(self) -> None:
        """Apply all that was completed before the call. Needs the lock only if there is something new."""
        if await cover(self._log) >= self._image.next_position:
            async with self._writing:
                await self._refresh()

    async def _refresh(self) -> bool:
        """Apply all that was completed before the call; returns False if there was nothing new. Call with the lock.

        An image that misses truncated records begins anew at the beginning of the log. It is whole only behind the
        TRUNCATE that has moved the beginning. That one was decided before a replica learned of it, so the answers of a
        quorum that is asked afterwards cover it.

        Raises:
            UnavailableError: no quorum answers, or the log is truncated faster than it can be read.
        """
        core = self._log.replica.core
        for _ in range(ROUNDS_MAX):
            begin, former = core.begin, self._image.next_position
            through = await cover(self._log)
            await learn(self._log, self._image.next_position, through)
            image = self._image
            if core.begin > image.next_position:
                if core.begin > begin:
                    continue
                image = self._empty(begin)
                if self._sought is not None:
                    self._sought.is_whole = False
            elif through < image.next_position:
                return False
            if await self._replay(image, through):
                self._image, self._leads = image, False  # another writer has written this, or filled it
                return image.next_position > former
        raise _contended()

    async def _replay(self, image: LogImage, through: int) -> bool:
        """Apply what the local replica has learned, piece by piece; False if it was truncated meanwhile.

        Raises:
            CorruptionError, MalformedError, BinaryTooOldError: the log holds what no writer of a state appends. The next call begins anew.
        """
        replica = self._log.replica
        while image.next_position <= through:
            found = (await replica.read(image.next_position, through + 1, READ_BYTES)).records
            if not found:
                return False
            with self._anew_on_failure():
                for record in found:
                    if kind_of(record.value) is ValueKind.APPEND:
                        self._apply(image, record.position, payload_of(record.value))
            image.skip(found[-1].position)
        with self._anew_on_failure():
            image.complete()
        return True

    def _apply(self, image: LogImage, position: int, payload: bytes) -> None:
        record = parse_untrusted(payload)
        image.apply(position, record)
        if self._sought is not None and self._sought.version in _versions(record):
            self._sought.is_found = True

    @contextmanager
    def _anew_on_failure(self) -> Iterator[None]:
        try:
            yield
        except VirtualLogError:
            self._leads, self._image = False, self._empty()
            raise

    def _empty(self, begin: int = 1) -> LogImage:
        return LogImage(max(1, begin), self.diffs_between_snapshots, self.slack_bytes)


def _versions(record: LogRecord) -> list[bytes]:
    """Versions that a record stores."""
    if isinstance(record, SnapshotRecord):
        return [entry.version for _, entry in record.entries]
    return [record.version] if isinstance(record, DiffRecord) else []


def _contended() -> UnavailableError:
    return UnavailableError("other clients write to the log all the time: nothing was done")
