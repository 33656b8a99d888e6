"""Options that narrow one trial of a provider."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog_simulation.world.options import Options

NODES: Final = 3
DEAD: Final = "dead"
"""A fault of the kit's own: one node never comes back."""


@attrs.frozen(kw_only=True)
class TrialOptions(Options):
    """Options of a seed of the kit. `loglets` has the provider under test first, as `providers.find` knows it."""

    nodes: int = NODES


def of(options: Options) -> TrialOptions:
    """Trial options of a world in which a story of the kit runs. `virtuallog simulate` has none of
    them."""
    if isinstance(options, TrialOptions):
        return options
    return TrialOptions(**attrs.asdict(options, recurse=False))
