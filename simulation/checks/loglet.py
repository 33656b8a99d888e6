"""What the history of each loglet must be like: the promises of `virtuallog.api.Loglet`.                       Pure.

Every call that the clients of a log, or of a bare loglet, made is looked at; so a loglet is caught in the act, even when
nothing visible came of it in the log above.
"""

from __future__ import annotations

from typing import Final

from simulation.checks.errors import LOGLET_ERROR_CHECKS
from virtuallog.testing.linearizability import loglets_are_linearizable
from virtuallog.testing.violation import Check

LOGLET_CHECKS: Final[tuple[Check, ...]] = (loglets_are_linearizable, *LOGLET_ERROR_CHECKS)
