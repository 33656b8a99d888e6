"""Has every position of a range decided, whatever it takes: runs one `Attempt` after the other over the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from loglets.paxos.ensemble import Ensemble
from virtuallog.chain import SegmentId
from virtuallog.ports import Environment
from virtuallog.types import NodeId

FILL_SECONDS: Final = 10.0
"""After this a fill is given up; what it has not got decided may be later."""


async def fill(
    segment: SegmentId,
    ensemble: Callable[[], Ensemble],
    environment: Environment,
    local_node: NodeId,
    proposal: int,
    first: int,
    stop: int,
    timeout_seconds: float = FILL_SECONDS,
) -> int:
    """Decide all positions from `first` up to and without `stop`: the value that was accepted with the highest number, or NOP.

    On return each of them is decided, and every replica has been told; the local one has answered that it has learned
    them, if it answers at all. Safe to cancel, to repeat, and to run beside other fills and coordinators.

    Args:
        proposal: the number to begin with; a higher one is used when others are in the way.

    Returns:
        The number it ended with.

    Raises:
        UnavailableError: not done in time. Some positions may be decided.
    """
    raise NotImplementedError
