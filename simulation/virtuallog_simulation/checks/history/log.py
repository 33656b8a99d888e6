"""Checks of a history of a log, valid under every fault.

One function per promise; each yields the ways in which the history breaks it. They know the promises of
`virtuallog.contract.loglet` and nothing of how the workload came about. docs/reference/promises.md says which invariant each one holds.
"""

from __future__ import annotations

from typing import Final

from virtuallog.testing.checker.violation import Check
from virtuallog_simulation.checks.history.errors import LOG_ERROR_CHECKS
from virtuallog_simulation.checks.history.order import ORDER_CHECKS
from virtuallog_simulation.checks.history.readers import READER_CHECKS
from virtuallog_simulation.checks.history.register_changes import CHANGE_CHECKS
from virtuallog_simulation.checks.history.sessions import SESSION_CHECKS
from virtuallog_simulation.checks.history.trims import TRIM_CHECKS

LOG_CHECKS: Final[tuple[Check, ...]] = (
    *ORDER_CHECKS,
    *READER_CHECKS,
    *TRIM_CHECKS,
    *SESSION_CHECKS,
    *CHANGE_CHECKS,
    *LOG_ERROR_CHECKS,
)
