"""Entry point of a measuring program: runs it to its end and turns expected errors into one line."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar, TypeVarTuple, Unpack

import click
import trio

from virtuallog.contract.errors import VirtualLogError

ResultT = TypeVar("ResultT")
ArgumentsT = TypeVarTuple("ArgumentsT")


class PeerError(Exception):
    """Another system could not be started or measured."""


def run_to_end(function: Callable[[Unpack[ArgumentsT]], Awaitable[ResultT]], *arguments: *ArgumentsT) -> ResultT:
    """`trio.run`, for a whole program: errors of the log and of other systems end it in one line, not with a traceback.

    SIGTERM ends it as Ctrl-C does, so that what it has started ends as well.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell has let it be ignored
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        return trio.run(function, *arguments)
    except (VirtualLogError, PeerError, BaseExceptionGroup) as error:
        leaves = list(_leaves(error))
        if all(isinstance(leaf, VirtualLogError | PeerError) for leaf in leaves):
            raise click.ClickException("; ".join(map(str, leaves))) from None
        if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
            raise click.Abort from None
        raise


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
