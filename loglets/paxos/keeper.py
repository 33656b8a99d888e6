"""Keeps one local replica whole: recovers it if it does not vote, and closes the holes that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from loglets.paxos.ensemble import Ensemble
from virtuallog.ports import NodeEnvironment

if TYPE_CHECKING:
    from loglets.paxos.replica_service import LocalReplica


async def keep(
    replica: LocalReplica,
    ensemble: Callable[[], Ensemble],
    environment: NodeEnvironment,
    *,
    auto_initialize: bool = False,
    window: int = 1,
) -> None:
    """Runs until the log is closed and this copy of it whole, or dropped.

    Args:
        replica: of this node.
        ensemble: as of the moment of the call.
        environment: of the node.
        auto_initialize: EMPTY replicas may found the log together; only for logs used by themselves.
        window: how many positions a coordinator has in flight at most: 1 for a `Writer`.
    """
    raise NotImplementedError
