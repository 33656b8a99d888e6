"""Facts of a history that several checks need: positions of entries, and decided chains.

Each fact is worked out once per history (`once`), in one pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs

from virtuallog.contract import register
from virtuallog.contract.chain import Chain
from virtuallog.contract.errors import MalformedError
from virtuallog.contract.register import Register
from virtuallog.contract.types import Data, Gap, Record
from virtuallog.testing.checker.actions import LogAppend, LogRead, RegisterGet, RegisterPut
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.violation import Violation, once, proof
from virtuallog.testing.checker.witness_order import Entries, Entry


@attrs.define(eq=False)
class LogContent:
    """Content of the log by position, and contradictions about it."""

    entries: Entries[bytes] = attrs.field(factory=Entries)
    """Positions of entries by their payloads, which are unique."""
    records: dict[int, tuple[Data, Operation, Entry[bytes]]] = attrs.field(factory=dict)
    """The record at each position, as the first of its readers had it."""
    gaps: list[tuple[Operation, Gap]] = attrs.field(factory=list)
    conflicts: list[Violation] = attrs.field(factory=list)

    def offer(self, append: Operation) -> None:
        for payload in append.action.payloads:
            self.entries.offer(payload, repr(payload[:40]), append)

    def acknowledge(self, append: Operation) -> None:
        for payload, position in zip(append.action.payloads, append.result, strict=False):
            entry = self.entries.named[payload]
            entry.acknowledged = entry.acknowledged or append
            if conflict := self.entries.place(entry, position, append):
                self._object("one entry per position", f"an acknowledgement {conflict[0]}", conflict[1], append)

    def read(self, read: Operation) -> None:
        for record in read.result:
            if isinstance(record, Gap):
                self.gaps.append((read, record))
                continue
            known = self.records.get(record.position)
            if known is None:
                self._first_seen(record, read)
            elif known[0] != record:
                message = f"position {record.position}: {show(known[0])} and {show(record)}"
                self._object("one entry per position", message, known[1], read)
            elif read.done < known[2].seen:
                known[2].seen = read.done

    def _first_seen(self, record: Data, read: Operation) -> None:
        entry = self.entries.named.get(record.payload)
        if entry is None or entry.refused or entry.started > read.done:
            self._object("nothing invented", f"{show(record)} was never offered, or had failed", read)
            return
        if conflict := self.entries.place(entry, record.position, read):
            twice = entry.place is not None and entry.place != record.position
            check = "entries in order and once" if twice else "one entry per position"
            self._object(check, f"a read {conflict[0]}", conflict[1], read)
        self.records[record.position] = record, read, entry

    def _object(self, check: str, message: str, *operations: Operation) -> None:
        self.conflicts.append(Violation(check, message, proof(*operations)))


@once
def content(history: History) -> LogContent:
    """Content of the log by position, from appends and reads."""
    log = LogContent()
    appends = history.operations(LogAppend)
    for append in appends:
        log.offer(append)
    for append in appends:
        if append.returned:
            log.acknowledge(append)
    for read in history.operations(LogRead):
        if read.returned:
            log.read(read)
    return log


@attrs.define(eq=False)
class Decided:
    """A version of the register that some client knows to be decided."""

    version: int
    value: bytes
    known_by: Operation
    """Client that knew it first."""
    started: int = 0
    """Event at which a client first put this value; 0 if none did."""
    register: Register | None = None
    """Decoded register; None if there is no value, or if it cannot be read."""

    @property
    def known(self) -> float:
        """Event from which on it was surely decided."""
        return self.known_by.done

    @property
    def chain(self) -> Chain:
        assert self.register is not None
        return self.register.chain


def learned(history: History) -> Iterator[tuple[int, bytes, Operation]]:
    """Each (version, value) that a client knows to be decided, and how it knows."""
    for operation in history.operations(RegisterGet, RegisterPut):
        if operation.returned:
            if type(operation.action) is RegisterGet:
                version, value = operation.result
            else:
                version, value = operation.action.version, operation.action.value
            yield version, value, operation


@once
def decided(history: History) -> dict[int, Decided]:
    """Every known version, in order, with the value of the client that knew it first."""
    found: dict[int, Decided] = {}
    for version, value, operation in learned(history):
        known = found.get(version)
        if known is None:
            found[version] = Decided(version, value, operation)
        elif operation.done < known.known and value == known.value:
            known.known_by = operation
    first_put: dict[tuple[int, bytes], int] = {}
    for put in history.operations(RegisterPut):
        first_put.setdefault((put.action.version, put.action.value), put.invoked)
    for version, known in found.items():
        known.started = first_put.get((version, known.value), 0)
    return dict(sorted(found.items()))


@once
def chains(history: History) -> dict[int, Decided]:
    """The versions that hold a chain, in order."""
    found = {}
    for version, known in decided(history).items():
        if version:
            try:
                known.register = register.decode_untrusted(known.value)
            except MalformedError:
                continue  # told by `chain_is_gapless`
            found[version] = known
    return found


def newest_chain(history: History) -> Chain | None:
    """The newest chain that any client has learned."""
    known = chains(history)
    return known[max(known)].chain if known else None


def show(data: Data) -> str:
    return f"{data.payload[:40]!r} ({data.session.hex()[:8]} #{data.sequence} at {data.position})"


def stop_of(record: Record) -> int:
    """One past the last position that the record covers."""
    return record.stop if isinstance(record, Gap) else record.position + 1


def end_of(chain: Chain) -> int:
    """The least tail of a log that has this chain."""
    return chain.last.start if chain.last.stop is None else chain.last.stop


NEVER = math.inf
