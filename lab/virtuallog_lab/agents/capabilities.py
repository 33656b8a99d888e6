"""Minimum capabilities: features whose records a master without them would misread.

A master that lacks one of them refuses to start on the registry. So a downgrade stops, instead of giving tasks to an agent
that is being drained.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from virtuallog_database.registrar.core.edit import Edit
from virtuallog_database.registrar.core.tables import Registry
from virtuallog_database.registrar.errors import MissingCapabilitiesError
from virtuallog_lab.agents.records import CAPABILITIES, MinimumCapability

AGENT_DRAINING: Final = "AGENT_DRAINING"
"""Present while an agent is drained or deactivated."""
QUOTA_V2: Final = "QUOTA_V2"
"""Present while a role has a quota."""
OURS: Final = frozenset({AGENT_DRAINING, QUOTA_V2})
"""Capabilities of this program."""


def check_capabilities(registry: Registry, ours: Collection[str] = OURS) -> None:
    """Refuse to use a registry that this program would misread.

    Raises:
        MissingCapabilitiesError: it has records that need a later program.
    """
    missing = [name for name, _ in registry.items(CAPABILITIES) if name not in ours]
    if missing:
        raise MissingCapabilitiesError(missing)


def require(edit: Edit, name: str) -> None:
    """Add a capability, if it is not there."""
    if edit.get(CAPABILITIES, name) is None:
        edit.put(CAPABILITIES, name, MinimumCapability(name))


def release(edit: Edit, name: str) -> None:
    """Drop a capability, if it is there."""
    edit.delete(CAPABILITIES, name)
