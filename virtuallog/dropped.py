"""What a kind of loglets offers on top of `LogletProvider` if loglets leave the chain while older ones stay.

`forget` frees everything below a version. Between the versions that stay, closed loglets without entries leave the chain,
and moved ones are replaced: a node that keeps something of each would keep more and more of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol, runtime_checkable

from virtuallog.chain import SegmentId


@runtime_checkable
class ForgetsOthers(Protocol):
    """A `LogletProvider` that can drop what the chain does not name."""

    async def forget_others(self, horizon: int, live: Collection[SegmentId]) -> None:
        """Free every loglet of a version up to `horizon` that is not among `live`, durably, and refuse to create one again.

        Called on nodes, if all of the cluster know what that leaves on disk (`virtuallog.versions.LIVE_LOGLETS`).

        Args:
            horizon: a version of the chain.
            live: the loglets that the chain of this version rests on, by the ids that nodes know them by.

        Raises:
            UnavailableError: unknown; will be called again.
            VirtualLogError: the role cannot go on.
        """
        ...
