"""How far each stripe is written, and which appends wait for that.                                                      Pure.

**An append may be acknowledged once every slot below its own is filled**: what is appended later then gets a higher slot, and the
end of the loglet, which is its first hole, lies behind. Evidence that the places of a stripe below `known` are filled is

* an append to this stripe that was acknowledged, to whatever place: all before it is durable;
* an *open* tail of this stripe. However old: it was read before any seal of the stripe was complete, so whoever reads the tail of
  the sealed stripe, to decide where the loglet ends, reads at least as much.

**Never a sealed tail.** That may grow afterwards, and somebody else may have read less, and ended the loglet there. The published
text says to look at the tails of all sealed stripes, and to acknowledge what lies below; that loses an acknowledged entry
(docs/internals/protocols/striped.md, tests/loglets/striped/test_seals.py).

Facts once known stay true, so one that is found for an append serves all that wait.
"""

from __future__ import annotations

import heapq
from typing import Any, Final, TypeAlias

import attrs

from virtuallog_loglets.striped.core.layout import StripedLayout

Ticket: TypeAlias = Any
"""The driver's own: who waits."""

NOTHING: Final = 0
"""As a number of slots that are wanted."""


@attrs.define(eq=False)
class StripeProgress:
    """What one client knows of one loglet."""

    layout: StripedLayout
    known: list[int] = attrs.field(init=False)
    """By stripe: all places below are filled, for good."""
    under_way: list[int] = attrs.field(init=False)
    """By stripe: appends of this client that have been offered and not answered, one slot each."""
    wanted: int = attrs.field(default=NOTHING, init=False)
    """All slots below are to be filled: somebody waits for it."""
    anticipated: int = attrs.field(default=NOTHING, init=False)
    """Somebody will, once his append is where it is expected to be."""
    _waiting: list[tuple[int, int, Ticket]] = attrs.field(factory=list, init=False)
    """A heap: the slot below which all is to be filled, a number that makes rows different, who waits. A caller who is cancelled stays:
    his slot must be filled all the same, before anything behind it can be acknowledged."""
    _numbers: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.known = [0] * self.layout.stripes
        self.under_way = [0] * self.layout.stripes

    @property
    def filled(self) -> int:
        """The first slot that is not known to be filled."""
        return self.layout.first_hole(self.known)

    def offer(self, stripe: int) -> None:
        """An append is on its way to a stripe, where it will get the next slot if nobody else appends."""
        self.under_way[stripe] += 1
        self.anticipated = max(self.anticipated, self.layout.slot(stripe, self.expected(stripe) - 1))

    def answered(self, stripe: int) -> None:
        """It has come back, or its caller is gone."""
        self.under_way[stripe] -= 1

    def expected(self, stripe: int) -> int:
        """Where a stripe ends once what is under way has arrived, if nobody else appends."""
        return self.known[stripe] + self.under_way[stripe]

    def missing(self, stripe: int) -> int:
        """How many places of a stripe are waited for and not known to be filled."""
        return max(0, self.layout.places_below(stripe, self.wanted) - self.known[stripe])

    def may_block(self, stripe: int) -> bool:
        """Whether somebody is about to wait for places that nobody has filled or is about to fill, as far as we know."""
        return self.layout.places_below(stripe, self.anticipated) > self.expected(stripe)

    def lacking(self, stripe: int) -> int:
        """How many it takes until the stripe is as far as the farthest, for which somebody else may wait, and all of ours."""
        farthest = max(self.layout.slot(each, tail - 1) for each, tail in enumerate(self.known))
        until = max(self.wanted, self.anticipated, farthest)
        return max(0, self.layout.places_below(stripe, until) - self.expected(stripe))

    def wait(self, slot: int, ticket: Ticket) -> bool:
        """Whether the slot and all below are filled; if not, `ticket` will be given back once they are."""
        if slot < self.filled:
            return True
        self.wanted = max(self.wanted, slot)
        self._numbers += 1
        heapq.heappush(self._waiting, (slot, self._numbers, ticket))
        return False

    def learn(self, stripe: int, tail: int) -> list[Ticket]:
        """Places of the stripe below `tail` are filled (see above). Returns those who need not wait any longer."""
        self.known[stripe] = max(self.known[stripe], tail)
        filled, done = self.filled, []
        while self._waiting and self._waiting[0][0] < filled:
            done.append(heapq.heappop(self._waiting)[2])
        return done

    def give_up(self) -> list[Ticket]:
        """Nothing is wanted any more. Returns all who wait."""
        self.wanted = self.anticipated = NOTHING
        tickets = [ticket for _, _, ticket in self._waiting]
        self._waiting.clear()
        return tickets
