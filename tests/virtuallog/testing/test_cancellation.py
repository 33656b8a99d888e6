"""Cancellation at the n-th await reaches every await once and disturbs nothing else."""

from __future__ import annotations

import pytest
import trio

from virtuallog.testing.clauses.cancel_points import cancel_at


async def test_each_await_is_reached_in_turn() -> None:
    """Each await that suspends counts; those that return at once do not."""
    done: list[list[str]] = []

    async def operation() -> None:
        steps = done[-1]
        steps.append("begun")
        await trio.lowlevel.checkpoint()
        steps.append("one")
        with trio.CancelScope(shield=True):
            await trio.lowlevel.cancel_shielded_checkpoint()
        steps.append("two")
        await trio.lowlevel.checkpoint()
        steps.append("three")

    reached = []
    for suspension in range(4):
        done.append([])
        reached.append(await cancel_at(suspension, operation))

    full = ["begun", "one", "two", "three"]
    assert done == [full[:1], full[:3], full[:3], full]
    assert reached == [True, True, True, False]


async def test_answers_and_errors_pass_through() -> None:
    """An operation that is only watched keeps its scopes, results and exceptions."""
    send, receive = trio.open_memory_channel[str](0)
    heard: list[str] = []

    async def operation() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            await trio.lowlevel.checkpoint()
            heard.append("not cancelled")
        heard.append(await receive.receive())
        raise KeyError("mine")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send.send, "answer")
        with pytest.raises(KeyError, match="mine"):
            await cancel_at(100, operation)

    assert heard == ["answer"]
