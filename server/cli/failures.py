"""How a command fails: one line on stderr, no traceback, and an exit code that scripts can act on.

    0  done
    1  failed: doing the same again will fail again
    2  wrong usage
    3  unavailable: not enough nodes answered; what was asked for may have happened

Tasks raise errors in groups; `translate` finds the one that explains the rest. Anything that virtuallog did not raise
on purpose is a bug, and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, Final

import click

from virtuallog.errors import RetryableError, VirtualLogError

FAILED: Final = 1
UNAVAILABLE: Final = 3
INTERRUPTED: Final = 130
"""What shells give a command that ended on Ctrl-C."""


class Failure(click.ClickException):
    """A command failed for a known reason."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"virtuallog: {self.message}", err=True, file=file)


class Unavailable(Failure):
    """It may have happened."""

    exit_code = UNAVAILABLE


def translate(error: BaseException) -> BaseException:
    """What click should see instead of `error`: a Failure, an exit, or the error itself if it is a bug."""
    found = list(_leaves(error))
    for leaf in found:
        if isinstance(leaf, KeyboardInterrupt):
            return click.exceptions.Exit(INTERRUPTED)
    for leaf in found:
        if not isinstance(leaf, VirtualLogError | click.ClickException | click.exceptions.Exit | BrokenPipeError):
            return error
    leaf = found[0]
    if isinstance(leaf, BrokenPipeError):  # `virtuallog read | head`
        return click.exceptions.Exit(FAILED)
    if isinstance(leaf, VirtualLogError):
        return Unavailable(str(leaf)) if isinstance(leaf, RetryableError) else Failure(str(leaf))
    return leaf


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
