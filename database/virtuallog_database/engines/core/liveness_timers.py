"""Silence of other replicas, by this replica's own clock.

Clocks must not decide what the state becomes, as every replica has another one. So a replica only
*proposes* to drop a silent peer, and names the last thing it heard from it. The state knows if the
peer was heard since, and decides. One replica with a fast clock drops peers early; one with a slow
clock keeps no other from doing it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.define
class LivenessTimers:
    """For each name the last value heard (any number that changes with each sign of life), and its
    time."""

    _heard: dict[str, tuple[int, float]] = attrs.field(factory=dict)

    def heard(self, name: str, what: int, now: float) -> None:
        """Note that the state learnt `what` at `now` (seconds). The same value again does not
        restart the time."""
        former = self._heard.get(name)
        if former is None or former[0] != what:
            self._heard[name] = (what, now)

    def learn(self, all_of_them: Mapping[str, int], now: float) -> None:
        """Replace the names by exactly these, as the state has them."""
        for name in self._heard.keys() - all_of_them.keys():
            del self._heard[name]
        for name, what in all_of_them.items():
            self.heard(name, what, now)

    def forget(self, name: str) -> None:
        """Forget a name that the state has no more."""
        self._heard.pop(name, None)

    def silent(self, name: str, seconds: float, now: float) -> bool:
        """True if nothing new was heard of this name for so many seconds."""
        return name in self._heard and now - self._heard[name][1] >= seconds

    def last(self, name: str) -> int:
        """Last value heard of this name."""
        return self._heard[name][0]
