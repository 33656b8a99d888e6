"""Registry of healing policies, by the name in a config."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Final

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_server.healing.core.healing_policy import HealingSettings, Policy, ReplaceFailed

POLICIES: Final = "virtuallog.policies"
"""Group of entry points."""
OFF: Final = "off"
DEFAULT: Final = "replace-failed"


def load_policy(name: str, settings: HealingSettings) -> Policy | None:
    """Make the policy of this name with the settings: ours, an entry point, or `package.module:Class`. None if the name is "off".

    Raises:
        InvalidSettingError: there is no such policy.
    """
    if name == OFF:
        return None
    if name == DEFAULT:
        return ReplaceFailed(settings)
    known = {found.name: found for found in entry_points(group=POLICIES)}
    try:
        made: Policy = (known[name].load() if name in known else _imported(name))(settings)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        reason = (
            f"no policy '{name}' (known: {', '.join([OFF, DEFAULT, *sorted(known)])}, or package.module:Class): {error}"
        )
        raise InvalidSettingError("healing", reason) from error
    return made


def _imported(name: str) -> Any:
    module, _, path = name.partition(":")
    return getattr(import_module(module), path)
