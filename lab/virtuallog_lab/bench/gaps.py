"""Gaps that swaps make in the acknowledgements of a client."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from virtuallog_lab.workload.latencies import Pause, longest_pause


@attrs.frozen
class Swap:
    """One reconfiguration, in seconds since the start."""

    source: str
    target: str
    began: float
    """Time at which it was requested."""
    ended: float
    """Time of the answer: the new chain is decided."""


@attrs.frozen
class Gaps:
    """Gaps in acknowledgements that the client saw at the swaps."""

    swaps: Sequence[Swap]
    pauses: Sequence[Pause]
    """One for each swap."""
    quiet: Sequence[Pause]
    """Longest pauses of as many windows without a swap."""


def find_gaps(swaps: Sequence[Swap], times: Sequence[float], window_seconds: float) -> Gaps:
    """The pauses that swaps made, and those of the windows before them, which end where a swap begins."""
    pauses = [longest_pause(times, swap.began, swap.ended + window_seconds) for swap in swaps]
    quiet = [longest_pause(times, swap.began - window_seconds, swap.began, cut=True) for swap in swaps]
    return Gaps(swaps, pauses, quiet)
