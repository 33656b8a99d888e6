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

SWAPPING: Final = (
    "swap native for paxos",
    "swap paxos for native",
)
"""Of runs whose chains may have both kinds."""

SHAPES: Final = (*APPENDING, *READING, *TAILING, *PARKING, *TRIMMING, *OPERATING, *LIVING)

REGISTERING: Final = (
    "lose the first version",
    "lose to equal bytes",
    "settle an unknown put",
    "put with other members",
    "walk forward from the first members",
    "retire former members",
)
"""Of runs of a bare MetaStore."""


def count(counts: Counter[str], shape: str) -> None:
    """A shape has been reached."""
    assert shape in SHAPES or shape in SWAPPING or shape in REGISTERING, shape
    counts[PREFIX + shape] += 1
