"""Quorum arithmetic of a NativeLoglet: the tail that a majority has reached.

There are N servers, and a majority has M = N // 2 + 1. A server's tail t says: every offset below t
is stored there or globally committed (the local-commit rule). So "M servers have a tail of at least
t" means: everything below t is committed. The sequencer acknowledges appends by this rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from virtuallog.contract.placement import majority_of


def committed_tail(tails: Sequence[int], servers: int) -> int:
    """Highest tail that a majority of all `servers` has reached, judging by those in `tails`; 0 if
    too few answered."""
    majority = majority_of(servers)
    return sorted(tails, reverse=True)[majority - 1] if len(tails) >= majority else 0


def tail_to_cover(tails: Sequence[int], servers: int) -> int:
    """Lowest tail that covers every append acknowledged before the first of `tails` was read.

    Such an append is on a majority. At most `servers - len(tails)` of that majority did not answer,
    so at least k of those in `tails` have it, and the k-th highest covers it. With a bare majority
    of answers k is 1: the maximum, as in P1.
    """
    unheard = servers - len(tails)
    surely_among = majority_of(servers) - unheard
    assert surely_among >= 1, "a majority must have answered"
    return sorted(tails, reverse=True)[surely_among - 1]
