"""Bounds of the log: the trim point and the tail, asked at the same time and each with its own failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import Sealed

BOUND_SECONDS: Final = 5.0
"""Time after which a bound counts as not known. An answer takes some milliseconds, or the timeout of a silent server."""


@attrs.frozen(kw_only=True)
class LogBounds:
    """Both ends of the log, as far as they are known."""

    trim_point: int | None = None
    """First position that is not trimmed. None if it could not be learnt."""
    tail: int | None = None
    """First unwritten position. Without an answer the highest tail that this client has seen, which may be old; None if it has seen none."""
    is_closed: bool = False
    """True if the log was closed on purpose."""
    problem: str = ""
    """Reasons why one of them is not known, or may be old. Empty if both are as of now."""


async def find_bounds(log: VirtualLog) -> LogBounds:
    """Ask for both bounds. Takes `BOUND_SECONDS` at most."""
    found, problems = LogBounds(tail=log.view.known_tail or None), dict[str, str]()

    async def ask_tail() -> None:
        nonlocal found
        tail = await log.check_tail()
        found = attrs.evolve(found, tail=tail.tail, is_closed=isinstance(tail, Sealed))

    async def ask_trim_point() -> None:
        nonlocal found
        trim_point = await log.find_trim_point()
        found = attrs.evolve(found, trim_point=trim_point)

    async def ask(name: str, question: Callable[[], Awaitable[None]]) -> None:
        problems[name] = f"no answer within {BOUND_SECONDS:g} s"
        with log.view.environment.clock.timeout(BOUND_SECONDS):
            try:
                await question()
                del problems[name]
            except VirtualLogError as error:
                problems[name] = str(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, "tail", ask_tail)
        nursery.start_soon(ask, "trim point", ask_trim_point)
    return attrs.evolve(found, problem="; ".join(f"{name}: {problems[name]}" for name in sorted(problems)))


def joined(problem: str, more: str) -> str:
    """Two reasons in one text; each may be empty."""
    return "; ".join(part for part in (problem, more) if part)
