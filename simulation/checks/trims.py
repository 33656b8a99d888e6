"""What is promised about trims of the log: they do what was asked for, no more, and say what came of it.          Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simulation.checks.order import floor
from simulation.checks.violation import Check, Violation, proof
from simulation.history import History, Reconfigure, Trim
from virtuallog.testing.linearizability import Asked
from virtuallog.testing.witness import Step, in_order, out_of_time


def trims_are_modest(history: History) -> Iterator[Violation]:
    """A trim point is never past what somebody had asked for; nor past the tail (`order.possible_in_time`)."""
    trims = history.operations(Trim)
    asked = Asked(trims, [trim.action.position for trim in trims])
    for trim in trims:
        if trim.returned and trim.result > asked.until(trim):
            message = f"trimmed to {trim.result}, asked for {asked.until(trim)}"
            yield Violation("trims are modest", message, proof(trim))


def trims_are_effective(history: History) -> Iterator[Violation]:
    """The tail is established before a trim decides that it has nothing to do: all that was asked for is trimmed, as
    far as the log was known to reach."""
    for trim in history.operations(Trim):
        if trim.returned:
            known, witness = floor(history).before(trim)
            if trim.result < min(trim.action.position, known):
                message = f"trimmed to {trim.result}, asked for {trim.action.position}, and tail {known} was known"
                yield Violation("trims are effective", message, proof(witness, trim))


def trim_points_move_forward(history: History) -> Iterator[Violation]:
    """A trim tells of a trim point at least as high as any that was told before it began.

    While a copy takes the place of a segment, the copy may be behind (`VirtualLog.reconfig_modify`).
    """
    copying = [change for change in history.operations(Reconfigure) if change.action.what.startswith("modify")]
    steps = [
        Step(trim.result, 0, trim.invoked, trim.done, str(trim.result), trim)
        for trim in history.operations(Trim)
        if trim.returned
    ]
    for later, earlier in out_of_time(in_order(steps)):
        if any(change.invoked < later.done and later.started < change.done for change in copying):
            continue
        message = f"the trim point went back from {earlier.what} to {later.what}"
        yield Violation("trim points move forward", message, proof(earlier.operation, later.operation))


TRIM_CHECKS: Final[tuple[Check, ...]] = (trims_are_modest, trims_are_effective, trim_points_move_forward)
