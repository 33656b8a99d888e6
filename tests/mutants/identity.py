"""Bugs of the node that must know who it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from server.formatting import Wait, advance
from server.identity import Phase
from tests.mutants.mutant import Mutant, mutant
from virtuallog.types import NodeId


@mutant(
    advance,
    scenario="wiped",
    found_by=["tails move forward", "known tails are readable", "versions move forward", "one value per version"],
    published="BookKeeper 544, Restate 2415, Restate 2734",
)
def identity_of_a_wiped_disk_used_again(own: Phase, peers: Mapping[NodeId, Phase | None]) -> Phase | Wait:
    """A node with an empty disk takes its place again, without asking who else is new."""
    return Phase.FORMATTING if own is Phase.UNFORMATTED else Phase.FORMATTED


MUTANTS: Final[tuple[Mutant, ...]] = (identity_of_a_wiped_disk_used_again,)
