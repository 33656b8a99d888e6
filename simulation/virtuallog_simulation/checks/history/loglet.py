"""Checks of the history of each loglet: the promises of `virtuallog.contract.loglet.Loglet`.

Every call that the clients of a log, or of a bare loglet, made is looked at; so a loglet is caught in the act, even when
nothing visible came of it in the log above.
"""

from __future__ import annotations

from typing import Final

from virtuallog.contract.batch import SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import UnavailableError
from virtuallog.testing.checker.actions import LogletAppend
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.linearizability import loglets_are_linearizable
from virtuallog.testing.checker.violation import Check
from virtuallog_simulation.checks.history.errors import LOGLET_ERROR_CHECKS

LOGLET_CHECKS: Final[tuple[Check, ...]] = (loglets_are_linearizable, *LOGLET_ERROR_CHECKS)

AGAIN: Final = "looked: batches acknowledged by the loglet to which they were offered before"
"""Repeated calls after an unknown outcome: the batch may have been placed, and must not be placed
twice."""


def offered_again(history: History) -> int:
    """Number of repeated calls."""
    unknown: set[tuple[SegmentId, SessionId, int]] = set()
    count = 0
    for append in history.operations(LogletAppend):
        batch = append.action.batch
        name = append.action.segment, batch.session, batch.first_sequence
        if isinstance(append.error, UnavailableError):
            unknown.add(name)
        elif append.returned and name in unknown:
            unknown.remove(name)
            count += 1
    return count
