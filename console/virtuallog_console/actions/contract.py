"""The contract of an action, and what it plans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

import attrs

from virtuallog.client.virtual_log import VirtualLog
from virtuallog_console.pages.page_query import PageQuery

LINES_MAX: Final = 50
"""Lines of one part of a plan. More are counted."""


@attrs.frozen(kw_only=True)
class FormField:
    """One argument in the form of an action."""

    name: str
    label: str
    hint: str = ""
    options: Sequence[tuple[str, str]] = ()
    """Values to choose from, each with its label. Empty for a text."""
    notes: Sequence[str] = ()
    """Meanings of values, for those who want to read them."""
    is_long: bool = False
    """True for a text of several lines."""
    is_needed: bool = True


@attrs.frozen(kw_only=True)
class PlanPart:
    """A part of the effect."""

    title: str
    lines: Sequence[str]

    @classmethod
    def of(cls, title: str, lines: Sequence[str]) -> PlanPart:
        """A part with `LINES_MAX` lines at most."""
        more = [f"and {len(lines) - LINES_MAX:,} more"] if len(lines) > LINES_MAX else []
        return cls(title=title, lines=(*lines[:LINES_MAX], *more))


@attrs.frozen(kw_only=True)
class ActionPlan:
    """The effect of an action if it were carried out now: the dry run."""

    arguments: Mapping[str, str]
    """As the form has them, `virtuallog.audit.ARGUMENTS_MAX` at most."""
    version: int
    """Version of the register that it was computed for."""
    confirmation: str
    """Text that the operator types."""
    parts: Sequence[PlanPart] = ()
    refusals: Sequence[str] = ()
    """Reasons why it cannot be carried out. Empty if it can."""


@attrs.frozen
class Action(ABC):
    """One kind of change."""

    name: ClassVar[str]
    """Word of its address and of its records."""
    title: ClassVar[str]
    summary: ClassVar[str]
    """A sentence about the effect."""
    seconds: ClassVar[float]
    """Longest duration. Beyond it the outcome counts as unknown."""
    needs_intent: ClassVar[bool] = True
    """False for an action that may be what makes the log take appends again."""

    log: VirtualLog

    @abstractmethod
    async def fields(self) -> Sequence[FormField]:
        """Arguments of the form."""

    @abstractmethod
    async def plan(self, query: PageQuery) -> ActionPlan | None:
        """Compute the effect; change nothing. None if the arguments are not given yet.

        Raises:
            PageQueryError: an argument makes no sense.
            VirtualLogError: the cluster does not answer.
        """

    @abstractmethod
    async def act(self, plan: ActionPlan, tell: Callable[[str], None]) -> str:
        """Carry it out; returns the result in words.

        Args:
            plan: without refusals.
            tell: called with each step, once something may have been changed.

        Raises:
            VirtualLogError: UnavailableError for an unknown outcome.
        """
