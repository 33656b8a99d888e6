"""Logs that begin later: in a share of the seeds a cluster goes on where another one ended, as one that was restored does.

What lies below counts as trimmed (docs/decisions/0010-a-log-that-begins-later.md). So for all checks somebody has trimmed it, before
anybody else did anything, and the tail was known to be there.
"""

from __future__ import annotations

from typing import Final

from virtuallog.register import ClusterId
from virtuallog.testing.actions import Trim
from virtuallog.types import LogPosition
from virtuallog_loglets.archive.origin import Origin
from virtuallog_simulation.world.cluster import Cluster
from virtuallog_simulation.world.world import World

SHARE: Final = 0.2
LATER: Final = "logs that begin later"
"""Counted."""
_RESTORE: Final = "restore"


def begin(world: World, cluster: Cluster, share: float = SHARE) -> LogPosition:
    """Before the cluster starts: draw where its log begins, mostly at 0."""
    source = world.random("origin")
    if source.random() >= share:
        return LogPosition(0)
    few, some, many = 1 + source.randrange(100), source.randrange(1 << 16, 1 << 20), source.randrange(1 << 40, 1 << 41)
    position = LogPosition(source.choice((1, few, some, many)))
    cluster.origin = Origin(cluster=ClusterId(source.randbytes(16)), position=position)
    world.counts[LATER] += 1
    world.history.observed(_RESTORE, Trim(position), position)
    return position
