"""Targets of a swap on a cluster of three whole nodes and three that only store: kinds, and their
settings.

Every setting is given each time: what is left open would stay as it was in the segment before, if that was of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.plugins import loglet_kinds, presentations

NODES: Final = 3
"""1 to 3: they do everything."""
LOG_NODES: Final = 3
"""4 to 6: they only store entries."""
ZOOKEEPER: Final = "zookeeper"


@attrs.frozen
class Target:
    """One way to continue the log."""

    name: str
    kind: str
    settings: Mapping[str, str]


def own_targets() -> list[Target]:
    """Targets that need nothing but our own nodes: the trials of every installed kind, by unique names."""
    found: dict[str, Target] = {}
    for kind, presentation in presentations().items():
        for name, settings in presentation.trials.items():
            if name != ZOOKEEPER:
                found.setdefault(name, Target(name, kind, settings))
    return [*found.values()]


def target_names() -> list[str]:
    """The names of all targets, in the order of tables. The one in a ZooKeeper comes last."""
    return [*(target.name for target in own_targets()), ZOOKEEPER]


def choose(names: Sequence[str], zookeeper: str | None) -> list[Target]:
    """The targets with these names, in the order of tables; all that there are, if none is named.

    Args:
        names: of `target_names`.
        zookeeper: addresses of an ensemble; None if there is none.

    Raises:
        InvalidSettingError: one is not installed, or needs what is not there.
    """
    foreign = [Target(ZOOKEEPER, ZOOKEEPER, {"hosts": zookeeper})] if zookeeper else []
    installed = loglet_kinds()
    there = [target for target in (*own_targets(), *foreign) if target.kind in installed]
    missing = sorted({*names} - {target.name for target in there})
    if missing:
        why = "needs a ZooKeeper: see --zookeeper" if missing[0] == ZOOKEEPER and not zookeeper else "is not installed"
        raise InvalidSettingError(missing[0], why)
    return [target for target in there if not names or target.name in names]
