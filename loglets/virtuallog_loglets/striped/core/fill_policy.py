"""Policy for filling a stripe that others wait for: check its tail, wait, or append fillers.

A stripe without appends holds up all others; the published text leaves that open. So the waiting
client fills it.

* **A filler is conditional on the tail.** So of many clients that see the same hole one fills it,
  and none fills it twice. Excess places on one stripe would have to be filled on all others:
  clients could outdo each other for ever.
* **A stripe without other appenders is *calm***: its end is known without a tail check. Its filler
  leaves in parallel with the append, which then takes no longer than on a single loglet.
* **A stripe that stays calm is filled ahead**, by more each time. A client with a session or two
  then pays for a filler now and then, not with each append. A client that begins to append there
  has a hole below it on the others, once.
* **Otherwise the tail is checked first**: other clients' appends fill the stripe for free. If they
  do not append enough, a filler comes after a short pause. If they always come first, one without a
  condition comes. That one is small, so it does little harm if many clients send one at once.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

PAUSE_SECONDS: Final = 0.002
"""Pause, in seconds, for other clients that append to a stripe already: about the time of an append."""
OWN_APPEND_SECONDS: Final = 0.02
"""Pause, in seconds, for an append of this client that is on its way to the stripe. One that takes
longer may be lost."""
MISMATCHES_MAX: Final = 5
"""Most refused fillers in a row. Then the clients that always come first do not fill, but append.

Of many clients that fill the same hole, the first one covers on average half of the others. So this
is enough for some dozens of them.
"""
UNCONDITIONAL_MAX: Final = 256
"""Most places of a filler without a condition. Each client that sends one may waste so much."""
AHEAD_MAX: Final = 32
"""Most places that a calm stripe is filled ahead. Beyond that a filler costs nothing compared with
so many appends."""
FILL_SECONDS: Final = 0.5
"""Initial time limit for one filler, in seconds; then another one is offered.

The call of a filler may be lost, which a caller of `append` learns much later.
"""
FILL_SECONDS_MAX: Final = 2.0
"""Longest time limit for one filler, in seconds, for a slow stripe.

A filler that is given up and lands all the same is one more for a stripe that is already
overloaded.
"""
FAILURES_MAX: Final = 3
"""Most fillers in a row with unknown outcome. Then the waiting appends fail and may be repeated."""


@attrs.frozen
class WaitForProgress:
    """Wait for news of the stripe, at most so many seconds."""

    seconds: float


@attrs.frozen
class CheckStripeTail:
    """Check the tail of the stripe."""


@attrs.frozen
class AppendFillers:
    """Append a filler of `count` places."""

    count: int
    conditional: bool


Step: TypeAlias = WaitForProgress | CheckStripeTail | AppendFillers


@attrs.define(eq=False)
class FillPolicy:
    """Fill policy of one stripe, as one client sees it."""

    places_max: int
    """Most places of one filler."""
    conditions: bool = True
    """True if the stripe takes conditional appends."""
    calm: bool = attrs.field(default=False, init=False)
    """True if, as far as this client can tell, no other client appends here: the stripe ends where expected."""
    failures: int = attrs.field(default=0, init=False)
    _took_seconds: float = attrs.field(default=0.0, init=False)
    """Seconds that the last filler took, or longer."""
    _ahead: int = attrs.field(default=0, init=False)
    """Places that the next filler fills beyond what is lacking."""
    _mismatches: int = attrs.field(default=0, init=False)
    _looked: bool = attrs.field(default=False, init=False)
    _waited: bool = attrs.field(default=False, init=False)
    """True if a pause was made since the last filler."""

    def step(self, lacking: int) -> Step:
        """Choose the next step.

        Args:
            lacking: places that are not filled or about to be filled, as far as this client knows. 0 if its own append
                is under way, which fills what is missing once it arrives.
        """
        if lacking == 0:
            self._waited = not self._waited
            return WaitForProgress(OWN_APPEND_SECONDS) if self._waited else CheckStripeTail()
        if self._mismatches and not self._waited:
            self._waited = True
            return WaitForProgress(PAUSE_SECONDS)
        if not (self.calm or self._looked):
            return CheckStripeTail()
        if not self.conditions or self._mismatches >= MISMATCHES_MAX:
            return AppendFillers(min(lacking, self.places_max, UNCONDITIONAL_MAX), conditional=False)
        return AppendFillers(min(lacking + self._ahead, self.places_max), conditional=True)

    @property
    def patience_seconds(self) -> float:
        """How long to wait for a filler, in seconds: twice as long as the last one took."""
        return min(max(FILL_SECONDS, 2 * self._took_seconds), FILL_SECONDS_MAX)

    def took(self, seconds: float) -> None:
        """Record how long an acknowledged filler took."""
        self._took_seconds = seconds

    def looked(self, *, surprising: bool) -> None:
        """Record a tail check. `surprising` if the tail lies behind everything that this client knows of."""
        self._looked = True
        if surprising:
            self.shared()

    def filled(self, *, as_expected: bool) -> None:
        """Record a filler that was placed, where it was expected or behind another client's append."""
        self.failures = 0
        self._begin_again()
        if as_expected:
            self._ahead = min(2 * self._ahead + 1, AHEAD_MAX) if self.calm else 0
            self.calm, self._mismatches = True, 0
        else:
            self.shared()

    def preceded(self) -> None:
        """Record a refused filler: another client was first, and nothing was done."""
        self.shared()
        self._mismatches += 1
        self._begin_again()

    def unknown(self) -> None:
        """Record a filler with unknown outcome. It may be there twice; fillers need no settling."""
        self.shared()
        self.failures += 1
        self._took_seconds = self.patience_seconds
        self._begin_again()

    def shared(self) -> None:
        """Record that another client appends here: something is not where it was expected."""
        self.calm, self._ahead = False, 0

    def used(self) -> None:
        """Record an append of this client."""
        self._ahead = 0

    def gave_up(self) -> None:
        """Record that the waiting appends failed because the stripe does not answer."""
        self.failures, self._took_seconds = 0, 0.0

    def done(self) -> None:
        """Record that nothing is missing now."""
        self.failures = self._mismatches = 0
        self._begin_again()

    def _begin_again(self) -> None:
        self._looked = self._waited = False
