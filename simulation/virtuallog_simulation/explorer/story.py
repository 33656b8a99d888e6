"""Stories: steps as text, one a line, which can be taken again.

A line names the event, then, behind `=>`, the messages that it sends and that are not lost:

    1 stands => 1>2 vote? term 1, last 0 of term 0 #2
    deliver 1>2 vote? term 1, last 0 of term 0 #2 => 2>1 granted, term 1 #2
    append 1 at 1 => lost
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from virtuallog_simulation.explorer.protocol import Protocol, State, Step


class NoSuchStepError(Exception):
    """A line of a story that is no step of the state that it comes to."""


@attrs.frozen
class Replayed:
    """Outcome of a story."""

    steps: tuple[Step, ...]
    broken: str | None
    """Promise that the last step breaks."""
    state: State


def replay(protocol: Protocol[Any], lines: Sequence[str]) -> Replayed:
    """Take the steps of a story, up to the first that breaks a promise.

    A line may leave out the end of an event or of a message if only one step fits then. Without `=>` nothing is lost.

    Raises:
        NoSuchStepError: a line fits no step, or several.
    """
    state = protocol.begin()
    broken = protocol.check(state)
    taken: list[Step] = []
    for line in lines:
        if broken is not None:
            break
        step, state, broken = _find(protocol, state, line)
        taken.append(step)
        broken = broken or protocol.check(state)
    return Replayed(tuple(taken), broken, state)


def lines_of(text: str) -> list[str]:
    """Steps of a story, one a line or apart by `;`. Lines that are empty or begin with # are left out."""
    told = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [line.strip() for each in told for line in each.split(";") if line.strip()]


def _find(protocol: Protocol[Any], state: State, line: str) -> tuple[Step, State, str | None]:
    steps = list(protocol.successors(state))
    exact = [found for found in steps if str(found[0]) == line]
    fitting = exact or [found for found in steps if _fits(found[0], line)]
    if len(fitting) != 1:
        choices = "\n".join(f"    {step}" for step, _, _ in fitting or steps)
        raise NoSuchStepError(f"{len(fitting)} steps fit {line!r}; there are\n{choices}")
    return fitting[0]


def _fits(step: Step, line: str) -> bool:
    """True if a line names this step by the beginnings of its parts; nothing behind the event: nothing is lost."""
    event, arrow, kept = line.partition("=>")
    told = str(step).partition(" => ")[0]
    if not told.startswith(event.strip()):
        return False
    wanted = [each.strip() for each in kept.split("|")] if arrow and kept.strip() != "lost" else []
    if not arrow:
        return len(step.kept) == len(step.sent)
    texts = [each.text for each in step.kept]
    return len(wanted) == len(texts) and all(any(text.startswith(each) for text in texts) for each in wanted)
