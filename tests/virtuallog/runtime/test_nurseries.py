"""Shielded contexts: a service that a block uses, and the end of both when one of them ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio
from trio.testing import MockClock

from virtuallog.runtime.nurseries import shielded_context, unwrapped_errors


@attrs.define(eq=False)
class Service:
    """Answers while its task runs, a second after the question."""

    log: list[str] = attrs.field(factory=list)
    start_seconds: float = 0.0
    fail_after_seconds: float = 1e9

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
        questions, asked = trio.open_memory_channel[tuple[str, trio.Event]](0)

        async def ask(question: str) -> None:
            answered = trio.Event()
            await questions.send((question, answered))
            await answered.wait()

        try:
            with unwrapped_errors():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._answer, asked)
                    nursery.start_soon(self._fail)
                    await trio.sleep(self.start_seconds)
                    yield ask
                    nursery.cancel_scope.cancel()
        finally:
            self.log.append("service ended")

    async def _answer(self, asked: trio.MemoryReceiveChannel[tuple[str, trio.Event]]) -> None:
        async for question, answered in asked:
            await trio.sleep(1)
            self.log.append(question)
            answered.set()

    async def _fail(self) -> None:
        await trio.sleep(self.fail_after_seconds)
        raise OSError("the service")


async def test_a_block_that_is_cancelled_can_still_ask_what_it_stands_on(autojump_clock: MockClock) -> None:
    """A cancelled block can still use its service; the service ends after it, and the cancellation
    propagates."""
    service = Service()
    with trio.move_on_after(5) as scope:
        async with shielded_context(service.open()) as ask:
            try:
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    await ask("farewell")
    assert scope.cancelled_caught
    assert service.log == ["farewell", "service ended"]
    assert trio.current_time() < 10


async def test_a_block_that_ends_or_fails_ends_what_it_stands_on(autojump_clock: MockClock) -> None:
    """A block that ends or fails ends its service; its own error propagates unchanged."""
    service = Service()
    async with shielded_context(service.open()) as ask:
        await ask("question")
    with pytest.raises(KeyError):
        async with shielded_context(service.open()):
            raise KeyError
    assert service.log == ["question", "service ended", "service ended"]


async def test_what_cannot_begin_says_why(autojump_clock: MockClock) -> None:
    """A service that fails to start raises its error unchanged, and the block does not run."""
    service = Service(start_seconds=10, fail_after_seconds=3)
    with pytest.raises(OSError, match="the service"):
        async with shielded_context(service.open()):
            raise AssertionError


async def test_a_block_ends_with_what_it_stands_on(autojump_clock: MockClock) -> None:
    """A service that fails cancels the block, and its error is raised."""
    service = Service(fail_after_seconds=3)
    with pytest.raises(OSError, match="the service"):
        async with shielded_context(service.open()):
            await trio.sleep_forever()
    assert service.log == ["service ended"]


async def test_a_service_that_has_not_begun_is_cancelled_like_anything_else(autojump_clock: MockClock) -> None:
    """A service that has not started is cancelled at once: no block uses it, and its start may take
    for ever."""
    service = Service(start_seconds=1e9)
    with trio.move_on_after(5) as scope:
        async with shielded_context(service.open()):
            raise AssertionError
    assert scope.cancelled_caught
    assert service.log == ["service ended"]
