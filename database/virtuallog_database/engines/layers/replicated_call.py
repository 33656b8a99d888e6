"""Propose an entry and await the result; not for hot paths."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import outcome
import trio

from virtuallog.contract.ports import Done
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.layers.contract import Engine


async def wait_for_done(start: Callable[[Done], None]) -> Any:
    """Await the outcome that `start` passes to its `done`; errors are raised. A cancelled caller
    only stops waiting."""
    answered = trio.Event()
    answers: list[outcome.Outcome[Any]] = []

    def done(result: Any) -> None:
        answers.append(outcome.Error(result) if isinstance(result, Exception) else outcome.Value(result))
        answered.set()

    start(done)
    await answered.wait()
    return answers[0].unwrap()


async def propose_and_wait(engine: Engine, entry: Entry) -> Any:
    """Result of this replica's `apply` for `entry`. A cancelled caller only stops waiting: the
    entry stands.

    Raises: the errors that `Engine.propose` gives to `done`.
    """
    return await wait_for_done(partial(engine.propose, entry))
