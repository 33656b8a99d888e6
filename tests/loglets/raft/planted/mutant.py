"""A planted bug for one test: a named function of the raft kind, replaced by one that is wrong in a known way.

For bugs that neither a seed of the simulator (`tests/planted_bugs`) nor a bounded exploration
(`tests/simulation/explorer`) brings out: those of transfers, of members, of time and of disks. As there, the replacement
has the type of the original, and mypy checks it.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.source_tree import ROOT
from virtuallog_simulation.world.planted_bug import planted

FOLDER: Final = ROOT / "tests/loglets/raft"
P = ParamSpec("P")
R = TypeVar("R")


@attrs.frozen(kw_only=True)
class TestedMutant:
    """Made by `tested`."""

    __test__ = False

    name: str
    about: str
    target: str
    """Replaced function, as `virtuallog_simulation.world.planted_bug` wants it."""
    replacement: Any = attrs.field(repr=False)
    number: int
    """Number in docs/internals/protocols/raft-bugs.md."""
    test: Callable[..., Any]
    """Test that fails with the bug."""
    arguments: dict[str, Any]
    """Arguments of the test."""
    says: str
    """Part of the line that fails, or of its message."""

    def __str__(self) -> str:
        return self.name

    @property
    def where(self) -> str:
        """The test, by its file in tests/loglets/raft and its name."""
        file = Path(inspect.getfile(self.test)).relative_to(FOLDER)
        return f"{file}::{self.test.__name__}"

    def run(self, patch: pytest.MonkeyPatch) -> None:
        """Run the test with what is planted now; `patch` is for a test that asks for it."""
        parameters = inspect.signature(self.test).parameters
        arguments = {**self.arguments, **({"monkeypatch": patch} if "monkeypatch" in parameters else {})}
        if not inspect.iscoroutinefunction(self.test):
            self.test(**arguments)
            return
        clock = MockClock(autojump_threshold=0)
        trio.run(partial(self.test, autojump_clock=clock, **arguments), clock=clock)

    def failure(self, patch: pytest.MonkeyPatch) -> str:
        """Line and message of the assertion that fails with the bug planted; empty if none does."""
        failures: list[BaseException] = []
        with planted({self.target: self.replacement}):
            try:
                self.run(patch)
            except* (AssertionError, pytest.fail.Exception) as failed:
                failures += _leaves(failed)
        return "\n".join(f"{traceback.extract_tb(each.__traceback__)[-1].line} {each}" for each in failures)


def _leaves(group: BaseExceptionGroup[Any]) -> list[BaseException]:
    """Exceptions of a group and of the groups in it."""
    found: list[BaseException] = []
    for each in group.exceptions:
        found += _leaves(each) if isinstance(each, BaseExceptionGroup) else [each]
    return found


def tested(
    original: Callable[P, R], *, number: int, test: Callable[..., Any], says: str, **arguments: Any
) -> Callable[[Callable[P, R]], TestedMutant]:
    """Make the decorated function a bug to plant in the place of `original`.

    Args:
        original: a function, method or property of the product.
        number: that of the bug in docs/internals/protocols/raft-bugs.md.
        test: test that fails with it.
        says: part of the line that fails, or of its message.
        arguments: those of the test.
    """
    target: Any = original
    is_property = isinstance(target, property)
    function = target.fget if is_property else target

    def make(replacement: Callable[P, R]) -> TestedMutant:
        about = inspect.getdoc(replacement)
        assert about, "a planted bug says what is wrong with it"
        return TestedMutant(
            name=getattr(replacement, "__name__", "").replace("_", " "), about=" ".join(about.split()),
            target=f"{function.__module__}:{function.__qualname__}",
            replacement=property(replacement) if is_property else replacement, number=number, test=test,
            arguments=arguments, says=says,
        )  # fmt: skip

    return make
