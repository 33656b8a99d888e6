"""Who takes part in a log, and how many of them decide.                                                            Pure."""

from __future__ import annotations

import attrs

from virtuallog.types import NodeId


@attrs.frozen(kw_only=True)
class Ensemble:
    """The replicas of one log, as of a moment. Any two quorums share a replica, so there are at most 2 * quorum - 1 of them;
    fewer may be known at the moment, and then some quorums cannot be had."""

    members: tuple[NodeId, ...]
    """In an order that everybody computes alike."""
    quorum: int
