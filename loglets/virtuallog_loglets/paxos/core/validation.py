"""Validation of requests to a replica, before anything in them is believed."""

from __future__ import annotations

from typing import Final

from virtuallog.contract.errors import MalformedError
from virtuallog.contract.types import POSITION_MAX
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.values import ValueKind
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    PROPOSAL_MAX,
    Decided,
    Learn,
    PaxosRecord,
    PaxosRecover,
    PaxosWrite,
    Promise,
    ReadRecords,
    TrimSealed,
    WaitLearned,
)
from virtuallog_loglets.paxos.offsets import PLACE_MAX

PROMISE_POSITIONS_MAX: Final = 1024
"""Cap on positions of one explicit promise: its answer may quote a value for each."""
WRITE_POSITIONS_MAX: Final = 4096
"""Cap on positions of one write."""
LEARN_RECORDS_MAX: Final = 4096
"""Cap on records of one `Learn`, equal to that of an answer to `ReadRecords`."""


def check_untrusted(request: object) -> None:
    """Check a request from the network.

    Raises:
        MalformedError: a number is out of bounds, or a value cannot be parsed.
        CorruptionError: a value does not match its checksum.
    """
    match request:
        case PaxosWrite():
            _check_proposal(request.proposal)
            _check_span(request.first, request.first + len(request.values), WRITE_POSITIONS_MAX)
            _check_decided(request.decided)
            for value in request.values:
                values.check_untrusted(value)
        case Learn():
            _check_decided(request.decided)
            _require(len(request.records) <= LEARN_RECORDS_MAX, f"{len(request.records)} records")
            for record in request.records:
                _check_learned(record)
        case Promise():
            _check_proposal(request.proposal)
            if request.first != NOWHERE:
                _check_span(request.first, request.stop, PROMISE_POSITIONS_MAX)
        case PaxosRecover():
            _require(request.incarnation >= NOWHERE, f"incarnation {request.incarnation}")
        case ReadRecords():
            _require(request.first <= POSITION_MAX and request.stop <= POSITION_MAX, "no such position")
        case TrimSealed():
            _require(request.offset <= POSITION_MAX, f"no such offset: {request.offset}")
        case WaitLearned():
            _require(request.past <= POSITION_MAX, f"no such position: {request.past}")


def brings_data(request: PaxosWrite | Learn, end: int) -> bool:
    """True if the request holds more data than filling and closing a log whose highest position is `end` needs."""
    if isinstance(request, PaxosWrite):
        return request.first + len(request.values) - 1 > end and any(v[3] == ValueKind.APPEND for v in request.values)
    return any(record.value[3] == ValueKind.APPEND for record in request.records)


def _check_proposal(proposal: int) -> None:
    _require(0 < proposal <= PROPOSAL_MAX, f"no such proposal: {proposal}")


def _check_span(first: int, stop: int, positions_max: int) -> None:
    _require(0 <= first < stop <= PLACE_MAX + 1, f"no such positions: {first} to {stop}")
    _require(stop - first <= positions_max, f"{stop - first} positions, where {positions_max} are the limit")


def _check_decided(decided: Decided) -> None:
    if decided.first < decided.stop:
        _check_proposal(decided.proposal)
        _require(decided.first >= 0 and decided.stop <= PLACE_MAX + 1, "no such positions")


def _check_learned(record: PaxosRecord) -> None:
    _require(record.learned, f"position {record.position} is told of, but not as decided")
    _require(0 <= record.position <= PLACE_MAX, f"no such position: {record.position}")
    _require(
        NOWHERE <= record.promised <= PROPOSAL_MAX and NOWHERE <= record.performed <= PROPOSAL_MAX, "no such proposal"
    )
    values.check_untrusted(record.value)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise MalformedError(otherwise)
