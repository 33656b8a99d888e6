"""A planted bug for the explorer: one named function of a core, replaced by one that is wrong in a known way.

As in `tests/planted_bugs/mutant.py`, the replacement has the type of the original, and mypy checks it. It is found by an
exploration within the bounds of a named configuration.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final, ParamSpec, TypeVar

import attrs

from virtuallog.runtime.clock import SystemClock
from virtuallog_simulation.explorer import story
from virtuallog_simulation.explorer.configurations import CONFIGURATIONS
from virtuallog_simulation.explorer.search import Exploration, Search
from virtuallog_simulation.world.planted_bug import planted

SCHEDULES: Final = Path(__file__).parent / "schedules"
P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen(kw_only=True)
class ExploredMutant:
    """Made by `explored`."""

    name: str
    about: str
    target: str
    replacement: Any = attrs.field(repr=False)
    configuration: str
    says: str
    """Part of the message about the broken promise."""
    number: str
    """Number in section 12 of the specification; empty if it is not there."""
    schedule: str
    """Name of the file with the steps that lead to it, for one that no search reaches; empty if a search does."""
    is_long: bool
    is_symmetric: bool
    """False if the bug treats replicas by their names."""

    def __str__(self) -> str:
        return self.name

    def hunt(self) -> Exploration:
        """Explore with the bug planted, until a promise is broken."""
        with planted({self.target: self.replacement}):
            return Search(
                CONFIGURATIONS[self.configuration].make(), SystemClock.monotonic, is_symmetric=self.is_symmetric
            ).run()

    def retell(self) -> story.Replayed:
        """Take the steps of the schedule with the bug planted."""
        with planted({self.target: self.replacement}):
            return story.replay(
                CONFIGURATIONS[self.configuration].make(),
                story.lines_of((SCHEDULES / f"{self.schedule}.txt").read_text()),
            )


def explored(
    original: Callable[P, R],
    *,
    configuration: str,
    says: str,
    number: str = "",
    schedule: str = "",
    is_long: bool = False,
    is_symmetric: bool = True,
    used_in: ModuleType | None = None,
) -> Callable[[Callable[P, R]], ExploredMutant]:
    """Make the decorated function a bug to plant in the place of `original`."""
    target: Any = original
    is_property = isinstance(target, property)
    function = target.fget if is_property else target
    module = function.__module__ if used_in is None else used_in.__name__

    def make(replacement: Callable[P, R]) -> ExploredMutant:
        about = inspect.getdoc(replacement)
        assert about, "a planted bug says what is wrong with it"
        return ExploredMutant(
            name=getattr(replacement, "__name__", "").replace("_", " "), about=" ".join(about.split()),
            target=f"{module}:{function.__qualname__}", replacement=property(replacement) if is_property else replacement,
            configuration=configuration, says=says, number=number, schedule=schedule, is_long=is_long,
            is_symmetric=is_symmetric,
        )  # fmt: skip

    return make
