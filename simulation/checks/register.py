"""What the history of the register must be like: invariant I2. The same checks judge every MetaStore's own tests."""

from __future__ import annotations

from typing import Final

from simulation.checks.violation import Check
from virtuallog.testing.register_checks import REGISTER_CHECKS as _CHECKS

REGISTER_CHECKS: Final[tuple[Check, ...]] = _CHECKS
