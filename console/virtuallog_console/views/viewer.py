"""Viewer: the caller for whom a view is made."""

from __future__ import annotations

import attrs

from virtuallog.contract.caller_roles import Role
from virtuallog_console.views.masks import NO_MASKS, Masks

MASKED = "masked by a path pattern of this console"
NEEDS_ADMIN = "needs the role admin"


@attrs.frozen(kw_only=True)
class Viewer:
    """Role of the caller, and masks of the console."""

    role: Role
    masks: Masks = NO_MASKS

    @property
    def is_admin(self) -> bool:
        return self.role >= Role.ADMIN
