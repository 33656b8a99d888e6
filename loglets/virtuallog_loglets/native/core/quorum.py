"""The quorum arithmetic of a NativeLoglet, apart from everything else.                                           Pure.

N servers, majorities of M = N // 2 + 1. A tail t of a server says: every offset below t is stored there or globally
committed (the local-commit rule), so "M servers have a tail of at least t" means: everything below t is committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from virtuallog.contract.placement import majority_of


def committed_tail(tails: Sequence[int], servers: int) -> int:
    """The highest tail that a majority of all `servers` has reached, judging by those in `tails`; 0 if too few."""
    majority = majority_of(servers)
    return sorted(tails, reverse=True)[majority - 1] if len(tails) >= majority else 0


def tail_to_cover(tails: Sequence[int], servers: int) -> int:
    """The lowest tail that covers every append that was acknowledged before the first of `tails` was read.

    Such an append is on a majority. At most `servers - len(tails)` of these did not answer, so at least k of those in
    `tails` have it, and the k-th highest covers it. With a bare majority of answers k is 1: the maximum, as in P1.
    """
    unheard = servers - len(tails)
    surely_among = majority_of(servers) - unheard
    assert surely_among >= 1, "a majority must have answered"
    return sorted(tails, reverse=True)[surely_among - 1]
