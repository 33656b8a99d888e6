"""Targets of a swap on a cluster of three whole nodes and three that only store: kinds, and their
settings.

Every setting is given each time: what is left open would stay as it was in the segment before, if that was of the same kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.plugins import loglet_providers

NODES: Final = 3
"""1 to 3: they do everything."""
LOG_NODES: Final = 3
"""4 to 6: they only store entries."""
DISAGGREGATED: Final = "disaggregated"
"""A native loglet whose entries are on other machines than its sequencer."""
ZOOKEEPER: Final = "zookeeper"


@attrs.frozen
class Target:
    """One way to continue the log."""

    name: str
    kind: str
    settings: Mapping[str, str]


OWN: Final = (
    Target("native", "native", {"servers": "1,2,3"}),
    Target(DISAGGREGATED, "native", {"servers": "4,5,6"}),
    Target("paxos", "paxos", {"servers": "1,2,3"}),
    Target("striped", "striped", {"stripes": "2", "servers": "1,2,3"}),
)
"""Targets that need only the cluster's own nodes."""
NAMES: Final = (*(target.name for target in OWN), ZOOKEEPER)
"""Names in the order of tables."""


def choose(names: Sequence[str], zookeeper: str | None) -> list[Target]:
    """The targets with these names, in the order of tables; all that there are, if none is named.

    Args:
        names: of `NAMES`.
        zookeeper: addresses of an ensemble; None: there is none.

    Raises:
        InvalidSettingError: one is not installed, or needs what is not there.
    """
    foreign = [Target(ZOOKEEPER, ZOOKEEPER, {"hosts": zookeeper})] if zookeeper else []
    installed = loglet_providers()
    there = [target for target in (*OWN, *foreign) if target.kind in installed]
    missing = sorted({*names} - {target.name for target in there})
    if missing:
        why = "needs a ZooKeeper: see --zookeeper" if missing[0] == ZOOKEEPER and not zookeeper else "is not installed"
        raise InvalidSettingError(missing[0], why)
    return [target for target in there if not names or target.name in names]
