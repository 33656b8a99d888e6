"""Tells a history: as a short timeline for a person, or whole, as JSON for a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from simulation.checks.violation import Violation
from simulation.history import Event, Failed, Fault, History, Invoked, Returned, Unknown
from simulation.runner import Report

AROUND: Final = 4
"""How many events before and after each event of a proof are told."""
LINES_MAX: Final = 60
WIDTH_MAX: Final = 160


def timeline(history: History, violation: Violation) -> Iterator[str]:
    """The events that prove the violation, each marked with '>', with what happened right around them."""
    shown: list[int] = sorted(
        {
            index
            for event in violation.events
            for index in range(event - AROUND, event + AROUND + 1)
            if 0 <= index < len(history.events)
        }
    )
    previous = None
    for index in shown[:LINES_MAX]:
        if previous is not None and index > previous + 1:
            yield f"  {'':>10}  ... {index - previous - 1} events"
        mark = ">" if index in violation.events else " "
        yield f"{mark} {_line(history, history.events[index])}"[:WIDTH_MAX]
        previous = index


def _line(history: History, event: Event) -> str:
    match event:
        case Invoked(time, operation, client, action):
            return f"{time:10.4f}  {client}: {action} (#{operation})"
        case Returned(time, operation, result):
            return f"{time:10.4f}  {_client(history, operation)}: #{operation} returned {result}"
        case Failed(time, operation, error):
            return f"{time:10.4f}  {_client(history, operation)}: #{operation} failed: {error}"
        case Unknown(time, operation, error):
            return f"{time:10.4f}  {_client(history, operation)}: #{operation} unknown: {error}"
        case Fault(time, what):
            return f"{time:10.4f}  -- {what}"


def _client(history: History, operation: int) -> str:
    return next(event.client for event in history.events if isinstance(event, Invoked) and event.operation == operation)


def as_json(report: Report) -> Iterator[dict[str, Any]]:
    """One object per event, then one with the verdict. Nothing in it depends on the real time or on the process."""
    for event in report.history.events:
        yield _event_as_json(event)
    yield {
        "event": "verdict",
        "scenario": report.scenario,
        "seed": report.seed,
        "violations": [{"check": violation.check, "message": violation.message} for violation in report.violations],
        "faults": dict(sorted(report.counts.items())),
        "simulated_seconds": report.simulated_seconds,
    }


def _event_as_json(event: Event) -> dict[str, Any]:
    head = {"event": type(event).__name__.lower(), "time": event.time}
    match event:
        case Invoked(_, operation, client, action):
            return {**head, "operation": operation, "client": client, "action": repr(action)}
        case Returned(_, operation, result):
            return {**head, "operation": operation, "result": repr(result)}
        case Failed(_, operation, error) | Unknown(_, operation, error):
            return {**head, "operation": operation, "error": error}
        case Fault(_, what):
            return {**head, "what": what}
