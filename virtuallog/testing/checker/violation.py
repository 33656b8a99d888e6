"""Violations found by checkers, and facts that checkers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

import attrs

from virtuallog.testing.checker.history import History, Operation

FactsT = TypeVar("FactsT")


@attrs.frozen
class Violation:
    """A promise that was broken."""

    check: str
    """Name of the check; see docs/reference/promises.md."""
    message: str
    events: tuple[int, ...] = ()
    """Indices, in the history, of the events that prove it."""


Check: TypeAlias = Callable[[History], Iterable[Violation]]


def proof(*operations: Operation | None) -> tuple[int, ...]:
    """The events of these operations, in order."""
    return tuple(
        sorted(
            {
                index
                for operation in operations
                if operation is not None
                for index in (operation.invoked, operation.ended)
                if index is not None
            }
        )
    )


def once(make: Callable[[History], FactsT]) -> Callable[[History], FactsT]:
    """Compute facts once per history, until it gets a new event: many checks use the same facts."""

    def facts(history: History) -> FactsT:
        known: tuple[int, FactsT] | None = history.derived.get(make)
        if known is None or known[0] != len(history.events):
            known = history.derived[make] = len(history.events), make(history)
        return known[1]

    return facts


def demand(history: History, *checks: Check) -> None:
    """Run checks. Raises AssertionError with the first violation, if there is one."""
    for check in checks:
        for violation in check(history):
            raise AssertionError(f"{violation.check}: {violation.message}")
