"""Who has not been heard of for how long, by this replica's own clock.                                          Pure.

Clocks must not decide what the state becomes, as every replica has another one. So a replica only *proposes* to let go of somebody
who is silent, and names the last thing it heard of him: the state, which knows whether he has been heard of since, decides. One
replica with a fast clock lets go early; none with a slow one keeps others from doing it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.define
class LivenessTimers:
    """Names, what was last heard of each (any number that changes with it), and when."""

    _heard: dict[str, tuple[int, float]] = attrs.field(factory=dict)

    def heard(self, name: str, what: int, now: float) -> None:
        """At `now`, in seconds, the state learnt `what`. Hearing the same again does not start the time anew."""
        former = self._heard.get(name)
        if former is None or former[0] != what:
            self._heard[name] = (what, now)

    def learn(self, all_of_them: Mapping[str, int], now: float) -> None:
        """The state knows exactly these."""
        for name in self._heard.keys() - all_of_them.keys():
            del self._heard[name]
        for name, what in all_of_them.items():
            self.heard(name, what, now)

    def forget(self, name: str) -> None:
        """The state does not know this one any more."""
        self._heard.pop(name, None)

    def silent(self, name: str, seconds: float, now: float) -> bool:
        """Whether nothing new of this one was heard for so long."""
        return name in self._heard and now - self._heard[name][1] >= seconds

    def last(self, name: str) -> int:
        """What was last heard of it."""
        return self._heard[name][0]
