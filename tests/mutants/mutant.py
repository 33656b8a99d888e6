"""A planted bug: one named function of the product, replaced by one that is wrong in a known way.

    @mutant(LogServer._seal, scenario="loaded", found_by=["sealed takes nothing"])
    def answer_a_seal_at_once(self: LogServer, ticket: int) -> list[Effect]:
        '''The answer does not wait for stores in flight, so it does not cover them.'''

The replacement has the type of the original, which mypy checks: a changed signature is noticed where the bug is planted.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import attrs

from simulation.options import Options

P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen(kw_only=True)
class Mutant:
    """Made by `mutant`."""

    name: str
    about: str
    """What is wrong with it, and where that was published, if it was."""
    target: str
    """What is replaced, as `simulation.patches` wants it."""
    replacement: Any
    scenario: str
    options: Options
    within: int
    """It is found by one of the seeds 1 to this."""
    found_by: frozenset[str]
    """Checks that stand for the promise that it breaks; one of them must object."""

    def __str__(self) -> str:
        return self.name


def mutant(
    original: Callable[P, R],
    *,
    scenario: str,
    found_by: Sequence[str],
    within: int = 100,
    options: Options | None = None,
) -> Callable[[Callable[P, R]], Mutant]:
    """Make the decorated function a bug to plant in the place of `original`."""

    def make(replacement: Callable[P, R]) -> Mutant:
        about = inspect.getdoc(replacement)
        assert about, "a planted bug says what is wrong with it"
        return Mutant(
            name=getattr(replacement, "__name__", "").replace("_", " "),
            about=" ".join(about.split()),
            target=f"{original.__module__}:{getattr(original, '__qualname__', '')}",
            replacement=replacement,
            scenario=scenario,
            options=options or Options(),
            within=within,
            found_by=frozenset(found_by),
        )

    return make
