"""A planted bug: one named function of the product, replaced by one that is wrong in a known way.

    @mutant(LogServer._seal, scenario="loaded", found_by=["sealed takes nothing"], published="Delos, OSDI'20, 4.2.1")
    def a_seal_that_does_not_cover_what_is_in_flight(self: LogServer, ...) -> list[Effect]:
        '''Answers at once, so the answer does not wait for stores on their way to the disk.'''

The name says what is wrong, the docstring what the code does. The replacement must have the type of the original, which
mypy checks where the bug is planted: a changed signature is noticed there (test_mutant.py holds wrong ones, with an
`ignore` each that mypy would call unused if it accepted them). So a bug cannot quietly become one that is planted
nowhere; a target that is gone is an import error, and a replacement that is not looked up is never found by a seed.

Functions, methods, async or not, and properties may be replaced. A function that others have imported by name is
replaced where it is used: say so with `used_in`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import attrs

from virtuallog_simulation.world.options import Options

P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen(kw_only=True)
class Mutant:
    """Made by `mutant`."""

    name: str
    about: str
    """Behaviour of the wrong code."""
    target: str
    """Replaced function, as `virtuallog_simulation.world.planted_bug` wants it."""
    replacement: Any = attrs.field(repr=False)
    published: str
    """Source of the bug or of the rule; empty if it is the project's own."""
    scenario: str
    options: Options
    within: int
    """It is found by one of the seeds 1 to this."""
    found_by: frozenset[str]
    """Checks that stand for the promise that it breaks; one of them must object."""

    def __str__(self) -> str:
        return self.name

    @property
    def patches(self) -> Mapping[str, Any]:
        """For `virtuallog_simulation.runs.runner.run_seed`."""
        return {self.target: self.replacement}


def mutant(
    original: Callable[P, R],
    *,
    scenario: str,
    found_by: Sequence[str],
    published: str = "",
    within: int = 40,
    options: Options | None = None,
    used_in: ModuleType | None = None,
) -> Callable[[Callable[P, R]], Mutant]:
    """Make the decorated function a bug to plant in the place of `original`."""

    target: Any = original  # a property is called like a function by mypy, and is an object of its own when it runs
    is_property = isinstance(target, property)
    function = target.fget if is_property else target
    module = function.__module__ if used_in is None else used_in.__name__

    def make(replacement: Callable[P, R]) -> Mutant:
        about = inspect.getdoc(replacement)
        assert about, "a planted bug says what is wrong with it"
        return Mutant(
            name=getattr(replacement, "__name__", "").replace("_", " "),
            about=" ".join(about.split()),
            target=f"{module}:{function.__qualname__}",
            replacement=property(replacement) if is_property else replacement,
            published=published,
            scenario=scenario,
            options=options or Options(),
            within=within,
            found_by=frozenset(found_by),
        )

    return make
