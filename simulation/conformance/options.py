"""What one trial is narrowed to."""

from __future__ import annotations

from typing import Final

import attrs

from simulation.options import Options

NODES: Final = 3
DEAD: Final = "dead"
"""A fault of the kit's own: one node never comes back."""


@attrs.frozen(kw_only=True)
class TrialOptions(Options):
    """The options of a seed of the kit. `loglets` has the provider under test first, as `providers.find` knows it.

    In the stories of the kit all named `faults` strike in every seed, as they are what is tested there.
    """

    nodes: int = NODES
    clause: str | None = None


def of(options: Options) -> TrialOptions:
    """The options of a world in which a story of the kit is told; by `virtuallog simulate` they come without ours."""
    if isinstance(options, TrialOptions):
        return options
    return TrialOptions(**attrs.asdict(options, recurse=False))
