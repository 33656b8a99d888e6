"""Failures of commands: one line on stderr, no traceback, and an exit code that scripts can act on.

    0  done
    1  failed: the same command will fail again
    2  wrong usage
    3  unavailable: not enough nodes answered; the request may have been carried out

Tasks raise errors in groups; `translate` finds the one that explains the rest. An error that virtuallog does not raise
on purpose is a bug, and keeps its traceback. The exception is output that cannot be written: a closed pipe, a full disk.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, Final

import click

from virtuallog_server.cli.common.extras import remedy

FAILED: Final = 1
WRONG_USAGE: Final = 2
UNAVAILABLE: Final = 3
INTERRUPTED: Final = 130
"""The code that shells give a command which ended on Ctrl-C; also that of one which ended on SIGTERM."""
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Errors of a write to stdout. The disks of nodes have errors of their own (StorageError, DiskFullError)."""


class Failure(click.ClickException):
    """A command failed for a known reason."""

    exit_code = FAILED

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the reason as one line."""
        click.echo(f"virtuallog: {self.message}", err=True, file=file)


class Unavailable(Failure):
    """Not enough nodes answered. The request may have been carried out."""

    exit_code = UNAVAILABLE


class WrongUsage(Failure):
    """The command cannot be called like this. Nothing was started."""

    exit_code = WRONG_USAGE


@contextmanager
def translated() -> Iterator[None]:
    """Raise the errors of the block as click expects them (`translate`)."""
    try:
        yield
    except click.exceptions.Exit:  # also of --help, which must not import the error classes
        raise
    except (Exception, KeyboardInterrupt, BaseExceptionGroup) as error:
        better = translate(error)
        if better is error:
            raise
        raise better from None


def translate(error: BaseException) -> BaseException:
    """The error that click should see: a Failure, an exit, or `error` itself if it is a bug."""
    from virtuallog.contract.errors import RetryableError, UntrustedError, VirtualLogError

    found = list(_leaves(error))
    for leaf in found:
        if isinstance(leaf, KeyboardInterrupt):
            return click.exceptions.Exit(INTERRUPTED)
    for leaf in found:
        if not (_is_known(leaf) or isinstance(leaf, VirtualLogError)):
            return error
    leaf = found[0]
    if isinstance(leaf, ModuleNotFoundError):
        return Failure(remedy(leaf))
    if isinstance(leaf, VirtualLogError):
        # A node waits for certificates to be put right, and then comes back; a command does not wait.
        may_help = isinstance(leaf, RetryableError) and not isinstance(leaf, UntrustedError)
        return Unavailable(str(leaf)) if may_help else Failure(str(leaf))
    if isinstance(leaf, OSError):
        _drop_output()
        # A broken pipe is how `virtuallog read | head` ends: nothing to complain about.
        is_pipe = isinstance(leaf, BrokenPipeError)
        return click.exceptions.Exit(FAILED) if is_pipe else Failure(f"cannot write the output: {leaf.strerror}")
    if isinstance(leaf, click.UsageError) and not isinstance(leaf, click.exceptions.NoArgsIsHelpError):
        return _wrong_usage(leaf)
    return leaf


def _is_known(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return isinstance(error, BrokenPipeError) or error.errno in _NO_ROOM
    return bool(remedy(error)) or isinstance(error, click.ClickException | click.exceptions.Exit)


def _wrong_usage(error: click.UsageError) -> WrongUsage:
    """The error in one line; click itself prints four."""
    message = " ".join(error.format_message().split()).rstrip(".")
    path = error.ctx.command_path if error.ctx else "virtuallog"
    return WrongUsage(f"{message} (see `{path} --help`)")


def _drop_output() -> None:
    """Discard buffered output. The interpreter would write it again when it ends, and complain a second time."""
    with suppress(OSError, ValueError, AttributeError):  # stdout may be no file
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
