"""Learns what the local replica has missed: copies what others have learned, fills what nobody has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from loglets.paxos.ensemble import Ensemble
from virtuallog.ports import NodeEnvironment

if TYPE_CHECKING:
    from loglets.paxos.replica_service import LocalReplica


async def catch_up(
    replica: LocalReplica,
    ensemble: Callable[[], Ensemble],
    environment: NodeEnvironment,
    first: int,
    stop: int,
    *,
    proposal: int = 0,
    leave: int = 0,
    fills: bool = True,
) -> int:
    """Have the local replica learn every position from `first` up to and without `stop`.

    What is decided elsewhere is copied; the rest is filled, however long a quorum keeps it waiting. Bytes under way are bounded.
    Safe to cancel and to repeat at any time, and by many at once. What was learned meanwhile stays.

    Args:
        replica: in any status. Only what it has learned counts, not what anybody says.
        ensemble: as of the moment of the call.
        environment: of the node.
        first: see above.
        stop: see above.
        proposal: the number to fill with at first; 0: any.
        leave: do not fill the last so many positions that anybody knows of: a coordinator may have them in flight.
        fills: False: copy only.

    Returns:
        The first position that is still missing; `stop`, if none is. Something is missing only with `leave` or without `fills`.

    Raises:
        SealedError: the log has been dropped here.
        VirtualLogError: what the local store raises.
    """
    raise NotImplementedError


async def catch_up_voting(replica: LocalReplica, ensemble: Callable[[], Ensemble], environment: NodeEnvironment) -> int:
    """Have a voting replica that does not lead learn what others know: `Reader.catchup` of Mesos (MESOS-7973).

    The last position of the log is left alone: its coordinator may have it in flight.

    Returns:
        The last position up to which everything from `begin` on is learned now.

    Raises:
        UnavailableError: the replica does not vote, no quorum of voting replicas answered, or the log has only one position.
    """
    raise NotImplementedError
