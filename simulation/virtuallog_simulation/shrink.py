"""Looks for a smaller run that still fails in the same way: fewer classes of faults, kinds of loglets, operations, seconds.

A search over `Options` and a predicate, and nothing else: the caller decides what fails, and when
to stop. Fewer faults may well make a run longer, and a bug need not show with fewer of anything
else, so the result is small, not smallest. Every step that is taken has been seen to fail.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import TypeAlias

import attrs

from virtuallog_simulation.world.options import Options

Fails: TypeAlias = Callable[[Options], Hashable | None]
"""Runs the seed with these options. Returns None if the promise is kept or another one is broken;
else a value that identifies this run, so that a narrowing without effect can be left out in the
end."""


@attrs.frozen(kw_only=True)
class Extent:
    """Size of the failing run, from which the search goes down."""

    faults: tuple[str, ...]
    """Classes of faults that struck."""
    loglets: tuple[str, ...]
    """Kinds of loglets that were in the chain, the first one first."""
    operations: int
    """No client had more."""
    seconds: float


class OutOfTimeError(Exception):
    """Raised by a predicate: the best that has been found so far will do."""


def shrink(options: Options, extent: Extent, fails: Fails) -> Options:
    """The smallest narrowing that was found; `options` itself if no smaller run fails."""
    search = _Search(options, fails, options)
    with suppress(OutOfTimeError):
        search.run(extent)
        search.tidy()
    return search.best


@attrs.define
class _Search:
    best: Options
    fails: Fails
    original: Options
    found: Hashable = None
    """Result of the best run, once a smaller one has been found."""

    def run(self, extent: Extent) -> None:
        """Faults first: without them a run is the easiest to read."""
        if not self._try(attrs.evolve(self.best, faults=())):
            faults = extent.faults if self.best.faults is None else self.best.faults
            self._remove(faults, lambda kept: attrs.evolve(self.best, faults=kept))
        operations = extent.operations if self.best.operations is None else self.best.operations
        self._lower(operations, lambda count: attrs.evolve(self.best, operations=count))
        loglets = extent.loglets if self.best.loglets is None else self.best.loglets
        self._remove(loglets, lambda kept: attrs.evolve(self.best, loglets=kept), at_least=1)
        tenths = int((extent.seconds if self.best.seconds is None else self.best.seconds) * 10)
        self._lower(tenths, lambda count: attrs.evolve(self.best, seconds=count / 10))

    def tidy(self) -> None:
        """Leave out what makes no difference: a story may have no use for an option."""
        for name in ("seconds", "loglets", "operations", "faults"):
            candidate = attrs.evolve(self.best, **{name: getattr(self.original, name)})
            if candidate != self.best and self.fails(candidate) == self.found:
                self.best = candidate

    def _try(self, candidate: Options) -> bool:
        run = self.fails(candidate) if candidate != self.best else None
        if run is None:
            return False
        self.best, self.found = candidate, run
        return True

    def _remove(
        self, items: tuple[str, ...], narrowed: Callable[[tuple[str, ...]], Options], at_least: int = 0
    ) -> None:
        """Zeller's ddmin, by removal alone: halves first, then ever smaller parts, while any part can go."""
        kept, size = items, (len(items) + 1) // 2
        while size:
            for start in range(0, len(kept), size):
                rest = kept[:start] + kept[start + size :]
                if len(rest) >= at_least and self._try(narrowed(rest)):
                    kept, size = rest, min(size, len(rest))
                    break
            else:
                size = 0 if size == 1 else (size + 1) // 2

    def _lower(self, highest: int, narrowed: Callable[[int], Options]) -> None:
        """Bisect. Failing need not be monotonous; what is kept has failed all the same."""
        low, high = 0, highest
        while low < high:
            middle = (low + high) // 2
            if self._try(narrowed(middle)):
                high = middle
            else:
                low = middle + 1
