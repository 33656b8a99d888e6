"""Concurrent calls to all stripes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

import trio

from virtuallog.contract.errors import ReconfigurationNeededError, SealedError, VirtualLogError

AnswerT = TypeVar("AnswerT")


async def ask_all(calls: Mapping[int, Callable[[], Awaitable[AnswerT]]]) -> dict[int, AnswerT | VirtualLogError]:
    """Result or error of each call, by its key, in the order of the calls. All have ended on
    return.

    Cancelling it cancels all calls, as if the caller had cancelled each.
    """
    answers: dict[int, AnswerT | VirtualLogError] = {}

    async def ask(key: int, call: Callable[[], Awaitable[AnswerT]]) -> None:
        try:
            answers[key] = await call()
        except VirtualLogError as error:
            answers[key] = error

    async with trio.open_nursery() as nursery:
        for key, call in calls.items():
            nursery.start_soon(ask, key, call)
    return {key: answers[key] for key in calls}


async def all_of(calls: Mapping[int, Callable[[], Awaitable[AnswerT]]]) -> dict[int, AnswerT]:
    """Result of each call, by its key.

    Raises:
        VirtualLogError: an error of one of them, chosen by `raise_worst`.
    """
    answers = await ask_all(calls)
    raise_worst(answers.values())
    return {key: answer for key, answer in answers.items() if not isinstance(answer, VirtualLogError)}


def raise_worst(answers: Iterable[object]) -> None:
    """Raise the most telling error among the answers, if there is one.

    A dropped loglet says more than other errors. The need for a successor says more than a silence,
    after which a client would just ask again.
    """
    errors = [answer for answer in answers if isinstance(answer, VirtualLogError)]
    if errors:
        raise min(errors, key=_rank)


def _rank(error: VirtualLogError) -> int:
    telling = (SealedError, ReconfigurationNeededError)
    return next((rank for rank, kind in enumerate(telling) if isinstance(error, kind)), len(telling))
