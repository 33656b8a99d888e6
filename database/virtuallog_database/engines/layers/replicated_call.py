"""To propose an entry and wait for what became of it: for what is no hot path."""

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
    """What `start` tells the `done` that it is given; errors are raised. A caller that is cancelled only stops waiting."""
    answered = trio.Event()
    answers: list[outcome.Outcome[Any]] = []

    def done(result: Any) -> None:
        answers.append(outcome.Error(result) if isinstance(result, Exception) else outcome.Value(result))
        answered.set()

    start(done)
    await answered.wait()
    return answers[0].unwrap()


async def propose_and_wait(engine: Engine, entry: Entry) -> Any:
    """What `apply` returned for `entry` here. A caller that is cancelled only stops waiting: the entry stands.

    Raises: what `Engine.propose` gives to `done`.
    """
    return await wait_for_done(partial(engine.propose, entry))
