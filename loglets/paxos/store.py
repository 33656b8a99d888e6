"""The store of a node's replicas: when it was founded, and what it can therefore not have forgotten."""

from __future__ import annotations

from typing import Final

import attrs

STORE: Final = "paxos"


@attrs.frozen(kw_only=True)
class Founding:
    """What a store remembers of its beginning."""

    incarnation: int
    founded: int
    """The newest version of the register at that time: loglets of later versions are new to everybody. NOWHERE: not read yet."""
    lowest_live_version: int = 0
