"""What to do about a stripe that others wait for: look, wait, or pad it with fillers.                                   Pure.

A stripe to which nobody appends holds up all others (the published text leaves that open). So whoever waits fills it.

* **A filler is offered on condition of the tail**, so of many clients that see the same hole one fills it, and none fills it twice.
  What is filled too much on one stripe, the others would have to be filled up to: clients could outdo each other without end.
* **A stripe at which nobody else appends is *calm***: where it ends is known without looking. Its filler leaves side by side with
  the append, which so takes no longer than on a single loglet.
* **A stripe that stays calm is filled ahead**, by more each time: a client with a session or two then pays for a filler now and then,
  and not for one with each append. Who comes to such a stripe has a hole below him on the others, once.
* **Otherwise look first**: what others append there fills it for nothing. If they do not append enough, a filler comes after a short
  pause; and if they always come first, one without a condition, which is small, so that it does little harm if many have the same idea.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

PAUSE_SECONDS: Final = 0.002
"""For those who append to a stripe already: about what an append takes."""
OWN_APPEND_SECONDS: Final = 0.02
"""For an append of our own that is on its way to the stripe. One that takes longer may be lost."""
MISMATCHES_MAX: Final = 5
"""In a row; then those who are always first do not fill, but append. Of many who fill the same hole, who comes first covers on
average half of those who are left, so this is enough for some dozens of them."""
UNCONDITIONAL_MAX: Final = 256
"""Places that a filler without a condition fills at most. So much may be filled in vain by each client that does it."""
AHEAD_MAX: Final = 32
"""Places that a calm stripe is filled ahead at most: beyond that a filler costs nothing any more, compared with so many appends."""
FILL_SECONDS: Final = 0.5
"""For one filler, to begin with; then another one is offered. Its call may be lost, which a caller of `append` learns much later."""
FILL_SECONDS_MAX: Final = 2.0
"""The same, where a stripe is slow. A filler that is given up and lands all the same is one more for a stripe that has too much to do."""
FAILURES_MAX: Final = 3
"""Fillers in a row whose outcome is not known. Then those who wait are told, and may try again."""


@attrs.frozen
class WaitForProgress:
    """For news of the stripe, but no longer."""

    seconds: float


@attrs.frozen
class CheckStripeTail:
    """Check its tail."""


@attrs.frozen
class AppendFillers:
    """Append so many fillers."""

    count: int
    conditional: bool


Step: TypeAlias = WaitForProgress | CheckStripeTail | AppendFillers


@attrs.define(eq=False)
class FillPolicy:
    """One stripe, as one client sees it."""

    places_max: int
    """Of one filler."""
    conditions: bool = True
    """Whether the stripe takes conditional appends."""
    calm: bool = attrs.field(default=False, init=False)
    """Nobody else appends here, as far as we can tell: it ends where we expect it to."""
    failures: int = attrs.field(default=0, init=False)
    _took_seconds: float = attrs.field(default=0.0, init=False)
    """The last filler, or longer."""
    _ahead: int = attrs.field(default=0, init=False)
    """How many places more than it takes the next filler fills."""
    _mismatches: int = attrs.field(default=0, init=False)
    _looked: bool = attrs.field(default=False, init=False)
    _waited: bool = attrs.field(default=False, init=False)
    """Since the last filler."""

    def step(self, lacking: int) -> Step:
        """What comes next.

        Args:
            lacking: places that nobody has filled or is about to fill, as far as we know. None: an append of our own is under
                way, which fills what is missing, if it arrives.
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
        """How long to wait for a filler: twice as long as the last one took."""
        return min(max(FILL_SECONDS, 2 * self._took_seconds), FILL_SECONDS_MAX)

    def took(self, seconds: float) -> None:
        """A filler has been acknowledged after so long."""
        self._took_seconds = seconds

    def looked(self, *, surprising: bool) -> None:
        """The tail has been checked just now. Surprising: it lies behind all that we know of."""
        self._looked = True
        if surprising:
            self.shared()

    def filled(self, *, as_expected: bool) -> None:
        """A filler is where it was to be, or behind what somebody else appended."""
        self.failures = 0
        self._begin_again()
        if as_expected:
            self._ahead = min(2 * self._ahead + 1, AHEAD_MAX) if self.calm else 0
            self.calm, self._mismatches = True, 0
        else:
            self.shared()

    def preceded(self) -> None:
        """Somebody else was first: the filler was refused, and nothing was done."""
        self.shared()
        self._mismatches += 1
        self._begin_again()

    def unknown(self) -> None:
        """Nobody knows what became of a filler. Padding may be there twice: there is nothing to settle."""
        self.shared()
        self.failures += 1
        self._took_seconds = self.patience_seconds
        self._begin_again()

    def shared(self) -> None:
        """Somebody else appends here: something is not where it was expected."""
        self.calm, self._ahead = False, 0

    def used(self) -> None:
        """We append here ourselves."""
        self._ahead = 0

    def gave_up(self) -> None:
        """Those who wait have been told that the stripe does not answer."""
        self.failures, self._took_seconds = 0, 0.0

    def done(self) -> None:
        """Nothing is missing now."""
        self.failures = self._mismatches = 0
        self._begin_again()

    def _begin_again(self) -> None:
        self._looked = self._waited = False
