"""One role of a node: the serving side of a loglet kind, or the acceptor of the MetaStore.

A role is closed at first, open once its state has been read, and closed for good when that state can no longer be
trusted: a poisoned disk, corruption. Its handlers exist all the time and answer accordingly. A role that fails takes
neither the node nor other roles down: the node still answers, and its status tells other nodes the reason.

    closed -> open -> closed for good    by a TerminalError, or another VirtualLogError that is not retryable
       ^       |
       '-------'  by a RetryableError: its tasks end, and after a pause it is opened anew (`virtuallog.runtime.restart_backoff`)

Only errors that virtuallog raises on purpose close a role. Any other error, a failed assertion above all, is a bug, and
ends the node with a traceback: a process in an unforeseen state must stop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias

import attrs
import trio

from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.errors import (
    CorruptionError,
    RetryableError,
    StorageError,
    UnavailableError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.ports import Done, Handler, Handlers, NodeEnvironment, Request
from virtuallog.runtime import log
from virtuallog.runtime.restart_backoff import RestartBackoff, is_bug, retryable_cause

Serve: TypeAlias = Callable[[NodeEnvironment], Awaitable[Handlers]]


class NodeRole:
    """One role. `handlers` may be served from construction on."""

    def __init__(self, name: str, interfaces: Sequence[Interface], serve: Serve) -> None:
        self.name = name
        self.interfaces = interfaces
        self.failure: VirtualLogError | None = None
        """The error that callers get. None unless the role is closed for good."""
        self.cause: VirtualLogError | None = None
        """The error that has closed the role for good. None while it is not."""
        self.setbacks: Final = RestartBackoff()
        """Retryable errors after which the role was opened anew."""
        self.handlers: Handlers = {
            method.request: self._handler(method.request) for interface in interfaces for method in interface.methods
        }
        self._serve = serve
        self.settled: Final = trio.Event()
        """Set once its stores are founded, or it has failed. It may not be open yet."""
        self.refused: Final = trio.Event()
        """Set once it has failed; `cause` is the reason."""
        self._open: Handlers | None = None
        self._scope: trio.CancelScope | None = None
        self._bug: BaseException | None = None
        self._setback: RetryableError | None = None
        """The error that ends the present life. None if there is none."""
        self._numbers = count()
        self._calls: dict[int, Done] = {}
        """Calls in progress, by number."""

    @property
    def is_open(self) -> bool:
        return self._open is not None

    async def run(self, environment: NodeEnvironment, admitted: trio.Event | None = None) -> None:
        """Keep the role open and its tasks running; return only when it is closed for good.

        After a retryable error the role is opened anew, once the tasks of its former life have ended: `serve` is called again, with
        the same ports.

        Args:
            environment: the ports of the role.
            admitted: the role answers no call before this is set. None if it may answer at once.

        Raises:
            Exception: a bug, raised by a task of the role or passed to `fail`.
        """
        while self.failure is None:
            setback = await self._live(environment, admitted)
            self._answer_all()
            if self._bug is not None:
                raise self._bug
            if setback is not None:
                pause = self.setbacks.met(setback, environment.clock.monotonic())
                tell = log.error if is_bug(setback) else log.warning
                tell("role begins anew", role=self.name, reason=str(setback), seconds=pause, is_bug=is_bug(setback))
                await environment.clock.sleep(pause)

    async def _live(self, environment: NodeEnvironment, admitted: trio.Event | None) -> RetryableError | None:
        """Run one life of the role. Return the error that has ended it. None if the role is closed for good."""
        self._setback = None
        try:
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                handlers = await self._serve(attrs.evolve(environment, nursery=nursery, fail=self.fail))
                self.settled.set()
                if admitted is not None:
                    await admitted.wait()
                self._open = handlers
                await trio.sleep_forever()
        except* VirtualLogError as group:
            self.fail(retryable_cause(group) or _first(group))
        return self._setback if self.failure is None else None

    def fail(self, error: BaseException) -> None:
        """Close the role and cancel its tasks, for good unless the error is retryable. Once they have ended, `run` answers the calls
        in progress.

        An error that is no VirtualLogError is raised by `run`, and not here: the caller may be a connection, or a disk.
        """
        if isinstance(error, RetryableError):
            self._setback = self._setback or error
        else:
            if not isinstance(error, VirtualLogError):
                self._bug = self._bug or error
            elif self.failure is None:
                self._refuse(error)
            self.settled.set()
        self._open = None
        if self._scope is not None:
            self._scope.cancel()

    def _refuse(self, error: VirtualLogError) -> None:
        self.cause = error
        tells = isinstance(error, CorruptionError | StorageError | WrongRecipientError)
        self.failure = error if tells else StorageError(str(error))
        self.refused.set()
        log.error("role refused", role=self.name, reason=str(error))

    def _handler(self, request_class: type[Request[Any]]) -> Handler:
        def handle(request: Any, done: Done) -> None:
            if self._open is None:
                done(self.failure or UnavailableError(f"{self.name} is not ready on this node"))
                return
            number = next(self._numbers)
            self._calls[number] = done
            try:
                self._open[request_class](request, partial(self._answer, number))
            except BaseException:  # the caller answers
                self._calls.pop(number, None)
                raise

        return handle

    def _answer(self, number: int, outcome: Any) -> None:
        done = self._calls.pop(number, None)
        if done is not None:
            done(outcome)

    def _answer_all(self) -> None:
        """Answer the calls in progress. The tasks that would are gone, and connections count these calls until they have answers."""
        for number in list(self._calls):
            self._answer(number, UnavailableError(f"{self.name} was closed on this node meanwhile"))


def _first(group: BaseExceptionGroup[VirtualLogError]) -> VirtualLogError:
    """The first error that is not retryable."""
    _, terminal = group.split(RetryableError)
    error: BaseException | None = terminal
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, VirtualLogError)
    return error
