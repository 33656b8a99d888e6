"""Progress of the stripes, and the appends that wait for it.

**An append may be acknowledged once every slot below its own is filled.** Then every later append
gets a higher slot, and the end of the loglet, which is its first hole, lies behind. Evidence that
the places of a stripe below `known` are filled is

* an acknowledged append to this stripe, at any place: everything before it is durable;
* an *open* tail of this stripe, however old. It was read before any seal of the stripe was
  complete. A client that reads the tail of the sealed stripe, to decide where the loglet ends,
  reads at least as much.

**A sealed tail is never evidence.** It may grow afterwards, and another client may have read less
and ended the loglet there. The published text says to look at the tails of all sealed stripes and
to acknowledge what lies below; that loses an acknowledged entry (docs/internals/protocols/striped.md,
tests/loglets/striped/test_seals.py).

Known facts stay true, so one that is found for an append serves all that wait.
"""

from __future__ import annotations

import heapq
from typing import Any, Final, TypeAlias

import attrs

from virtuallog_loglets.striped.core.layout import StripedLayout

Ticket: TypeAlias = Any
"""Opaque handle of the driver that identifies a waiting append."""

NOTHING: Final = 0
"""Value of `wanted` and `anticipated` if no slots are needed."""


@attrs.define(eq=False)
class StripeProgress:
    """Progress of one loglet's stripes, as one client knows it."""

    layout: StripedLayout
    known: list[int] = attrs.field(init=False)
    """For each stripe: the place below which everything is filled, for good."""
    under_way: list[int] = attrs.field(init=False)
    """For each stripe: appends of this client that are offered but not answered, one slot each."""
    wanted: int = attrs.field(default=NOTHING, init=False)
    """All slots below this one are to be filled: an append waits for them."""
    anticipated: int = attrs.field(default=NOTHING, init=False)
    """All slots below this one will be wanted, once an append under way is at its expected place."""
    _waiting: list[tuple[int, int, Ticket]] = attrs.field(factory=list, init=False)
    """Heap of (slot below which all must be filled, tie breaker, ticket).

    The row of a cancelled caller stays. Its slot must be filled all the same before anything behind
    it can be acknowledged.
    """
    _numbers: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.known = [0] * self.layout.stripes
        self.under_way = [0] * self.layout.stripes

    @property
    def filled(self) -> int:
        """First slot that is not known to be filled."""
        return self.layout.first_hole(self.known)

    def offer(self, stripe: int) -> None:
        """Record an append that is on its way to a stripe. It gets the next slot if no other client appends."""
        self.under_way[stripe] += 1
        self.anticipated = max(self.anticipated, self.layout.slot(stripe, self.expected(stripe) - 1))

    def answered(self, stripe: int) -> None:
        """Record that an append has been answered or its caller is gone."""
        self.under_way[stripe] -= 1

    def expected(self, stripe: int) -> int:
        """End of a stripe once the appends under way have arrived, if no other client appends."""
        return self.known[stripe] + self.under_way[stripe]

    def missing(self, stripe: int) -> int:
        """Number of places of a stripe that are wanted and not known to be filled."""
        return max(0, self.layout.places_below(stripe, self.wanted) - self.known[stripe])

    def may_block(self, stripe: int) -> bool:
        """True if an append may block on a slot that no known append or filler will fill."""
        return self.layout.places_below(stripe, self.anticipated) > self.expected(stripe)

    def lacking(self, stripe: int) -> int:
        """Places to fill until the stripe is as far as the farthest stripe and as all appends of
        this client.

        Other clients may wait for the farthest.
        """
        farthest = max(self.layout.slot(each, tail - 1) for each, tail in enumerate(self.known))
        until = max(self.wanted, self.anticipated, farthest)
        return max(0, self.layout.places_below(stripe, until) - self.expected(stripe))

    def wait(self, slot: int, ticket: Ticket) -> bool:
        """True if the slot and all below are filled. If not, `learn` or `give_up` returns `ticket` later."""
        if slot < self.filled:
            return True
        self.wanted = max(self.wanted, slot)
        self._numbers += 1
        heapq.heappush(self._waiting, (slot, self._numbers, ticket))
        return False

    def learn(self, stripe: int, tail: int) -> list[Ticket]:
        """Record that places of the stripe below `tail` are filled (evidence: see the module).
        Returns the released tickets."""
        self.known[stripe] = max(self.known[stripe], tail)
        filled, done = self.filled, []
        while self._waiting and self._waiting[0][0] < filled:
            done.append(heapq.heappop(self._waiting)[2])
        return done

    def give_up(self) -> list[Ticket]:
        """Want nothing any more. Returns the tickets of all waiting appends."""
        self.wanted = self.anticipated = NOTHING
        tickets = [ticket for _, _, ticket in self._waiting]
        self._waiting.clear()
        return tickets
