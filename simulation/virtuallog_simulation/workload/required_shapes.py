"""The shapes that a workload must reach: what a set of seeds demands to have seen, each under its own name.

An act that has brought one about counts it with `Actor.did`: only what really happened, never what was only tried.
`World.counts` holds them as "did: trim at a boundary".
"""

from __future__ import annotations

from collections import Counter
from typing import Final

PREFIX: Final = "did: "

APPENDING: Final = (
    "append one entry",
    "append a batch",
    "append beside others",
    "append in a session of its own",
    "append at the expected tail",
    "miss the expected tail",
    "race for the expected tail",
    "append more than fits",
)
READING: Final = (
    "read up to the tail",
    "read around a boundary",
    "read a byte at a time",
    "read over three segments",
    "find the trim point",
    "leave a reader in a batch",
    "scan in pieces",
)
TAILING: Final = (
    "tail the log",
    "tail across a reconfiguration",
    "tail below the trim point",
)
PARKING: Final = (
    "park at the tail",
    "park beyond the tail",
    "park below the trim point",
    "park at an empty segment",
    "park at a sealed loglet",
    "park at a replaced loglet",
)
TRIMMING: Final = (
    "trim at a boundary",
    "trim below a boundary",
    "trim above a boundary",
    "trim near the tail",
    "trim past the tail",
    "trim twice",
)
OPERATING: Final = (
    "extend to the same kind",
    "extend to another kind",
    "extend to other servers",
    "extend to another sequencer",
    "extend several times in a row",
    "replace an empty segment",
    "race for the next segment",
    "seal and leave",
    "close the log",
    "reopen the log",
    "modify a segment",
    "truncate the chain",
    "change the members",
)
LIVING: Final = (
    "die in the middle",
    "be cancelled after a while",
    "be cancelled at an await",
)

KINDS: Final = ("native", "paxos", "raft", "striped", "zookeeper")
"""Kinds of loglets that take appends, and may be put in each other's place."""
SWAPPING: Final = tuple(f"swap {one} for {other}" for one in KINDS for other in KINDS if one != other)
"""Shapes of runs whose chains may have several kinds."""

STRIPING: Final = (
    "stripe over the same servers",
    "stripe over disjoint servers",
)
"""Shapes of runs with striped loglets."""

ARCHIVING: Final = (
    "archive a segment",
    "archive the start of the log",
    "trim an archive",
)
"""Shapes of runs with archives."""

SHAPES: Final = (*APPENDING, *READING, *TAILING, *PARKING, *TRIMMING, *OPERATING, *LIVING)

REGISTERING: Final = (
    "lose the first version",
    "lose to equal bytes",
    "settle an unknown put",
    "put with other members",
    "walk forward from the first members",
    "retire former members",
    "prepare a put",
)
"""Shapes of runs of a bare MetaStore."""


MANAGING: Final = (
    "add a node",
    "add a node once more with fewer roles",
    "ask for a second replacement",
    "bring an old copy with a hole back",
    "change the members",
    "complete a replacement",
    "count the extensions",
    "drain a node",
    "drain two nodes at once",
    "leave a drained node running",
    "make a copy with a hole",
    "refuse a change of the members",
    "refuse a drain",
    "refuse a replacement",
    "refuse to remove a node",
    "remove a node",
    "replace a node",
    "replace all members",
    "stop a drained node",
    "take a drained node back",
)
"""Shapes of runs in which several operators change the nodes, with each refusal."""


_ALL: Final = frozenset((*SHAPES, *SWAPPING, *STRIPING, *ARCHIVING, *REGISTERING, *MANAGING))


def count(counts: Counter[str], shape: str) -> None:
    """A shape has been reached."""
    assert shape in _ALL, shape
    counts[PREFIX + shape] += 1
