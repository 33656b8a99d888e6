"""Messages and values of the Paxos log as text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from virtuallog.contract.batch import Batch
from virtuallog.exactly_once import bundle
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.values import ValueKind
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    Decided,
    GetStanding,
    Learn,
    PaxosRecord,
    PaxosRecords,
    PaxosWrite,
    PaxosWritten,
    Promise,
    Promised,
    ReadRecords,
    Standing,
    WaitLearned,
)


@lru_cache(maxsize=1000)
def value_text(value: bytes) -> str:
    """Kind of a value, or the numbers of its batches."""
    if not value:
        return "none"
    kind = values.kind_of(value)
    if kind is not ValueKind.APPEND:
        return "tombstone" if values.is_tombstone(value) else kind.name
    parts = bundle.split_untrusted(value, values.BODY)
    return "+".join(Batch.parse_untrusted(value[each.start : each.stop]).payloads[0].decode() for each in parts)


def message_text(body: Any) -> str:
    """All of a message that tells it apart from others."""
    match body:
        case Promise(proposal=number, first=first, stop=stop):
            return f"promise {number}?" if first == NOWHERE else f"promise {number} at {_span(first, stop)}?"
        case PaxosWrite(proposal=number, first=first, values=written, decided=decided):
            return f"write {number} at {first}: {' '.join(map(value_text, written))}{_decided(decided)}"
        case Learn(decided=decided, records=records):
            return f"learn{_records(records)}{_decided(decided)}"
        case Promised(verdict=verdict, proposal=number, end=end, records=records):
            return f"{verdict.name} {number}, end {end}{_records(records)}"
        case PaxosWritten(verdict=verdict, proposal=number, end=end, records=records, has_waiters=waiters):
            return f"{verdict.name} {number}, end {end}{_records(records)}{', waiters' if waiters else ''}"
        case GetStanding():
            return "standing?"
        case WaitLearned(past=past):
            return f"standing past {past}?"
        case ReadRecords(first=first, stop=stop):
            return f"read {_span(first, stop)}"
        case PaxosRecords(records=records, standing=standing):
            return f"records{_records(records)}, {message_text(standing)}"
        case Standing():
            uniform = f", {_span(body.uniform_from, body.end + 1)} by {body.uniform}" if body.uniform != NOWHERE else ""
            seal = f", seal {body.seal}" if body.seal != NOWHERE else ""
            seen = f", SEAL seen {body.seal_seen}" if body.seal_seen != NOWHERE else ""
            return f"promised {body.promised}, learned {body.learned}, end {body.end}{uniform}{seal}{seen}"
    raise TypeError(body)


def _records(records: tuple[PaxosRecord, ...]) -> str:
    return "".join(
        f" [{each.position}: {value_text(each.value)} by {each.performed}, promised {each.promised}"
        f"{', learned' if each.learned else ''}]"
        for each in records
    )


def _decided(decided: Decided) -> str:
    return f", {decided.proposal} decided {_span(decided.first, decided.stop)}" if decided.first < decided.stop else ""


def _span(first: int, stop: int) -> str:
    return str(first) if stop == first + 1 else f"{first}..{stop - 1}"
