"""Checks of the history of the register: invariant I2, and its errors. The checks of I2 judge every
MetaStore's own tests as well."""

from __future__ import annotations

from typing import Final

from virtuallog.testing.checker.register_checks import REGISTER_CHECKS as _CHECKS
from virtuallog.testing.checker.violation import Check
from virtuallog_simulation.checks.history.errors import REGISTER_ERROR_CHECKS

REGISTER_CHECKS: Final[tuple[Check, ...]] = (*_CHECKS, *REGISTER_ERROR_CHECKS)
