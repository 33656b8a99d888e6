"""Calls from an asyncio loop to objects on the trio loop of another thread.

    asyncio's thread                                     trio's thread
    call -> requests ----- one run_sync_soon ----------> a task per call, with a cancel scope
    future <- completions <- one call_soon_threadsafe -- end of the scheduler turn

All calls of one turn of asyncio cross together, and so do all completions of one turn of trio: a wake-up of the other
thread costs more than a call. This is the only module that knows both loops.

A cancelled call is cancelled on trio's side, and its end is waited for. `CancelledError` is raised in any case, as asyncio
requires. Its `__cause__` keeps an outcome that came first: CompletedError, or the error of the call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Final, Generic, TypeVar

import attrs
import outcome
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.runtime.asyncio_blocks import Block, outlast, resolve, tell_loop
from virtuallog.runtime.bridge_errors import ClientClosedError, CompletedError, WrongLoopError
from virtuallog.runtime.end_of_turn import EndOfTurn, end_of_turn
from virtuallog.runtime.loop_thread import LoopThread, ThreadRun

OpenedT = TypeVar("OpenedT")
ResultT = TypeVar("ResultT")

OUTSTANDING_MAX: Final = 1024
"""Calls of one client that run at a time; further ones wait for their turn on the side of asyncio. A call costs some 5 KB."""


class _BlockFailedError(Exception):
    """Raised within a block on trio's side if its body on asyncio's side has failed."""


_CLOSED: Final = "the client was closed: unknown outcome"


@attrs.define(eq=False)
class _Call:
    """A call, from its request until it has ended on trio's side."""

    function: Callable[..., Awaitable[Any]]
    arguments: tuple[Any, ...]
    context: Context
    done: asyncio.Future[Any]
    """Result for the caller; cancelled with it."""
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    result: outcome.Maybe[Any] | None = attrs.field(default=None, init=False)
    """None until it has ended, and after it has been cancelled without another outcome."""
    is_over: bool = attrs.field(default=False, init=False)
    on_end: Callable[[], object] | None = attrs.field(default=None, init=False)
    """Called on asyncio's side."""

    def finish(self, result: outcome.Maybe[Any] | None) -> None:
        """Note the outcome, None for a cancellation, and tell the caller."""
        self.result, self.is_over = result, True
        if not self.done.done():
            if isinstance(result, outcome.Value):
                self.done.set_result(result.value)
            elif isinstance(result, outcome.Error):
                self.done.set_exception(result.error)
        if self.on_end is not None:
            self.on_end()

    def keep_outcome(self, error: BaseException) -> None:
        """Make the outcome the cause of a cancellation."""
        if isinstance(self.result, outcome.Value):
            error.__cause__ = CompletedError(self.result.value)
        elif isinstance(self.result, outcome.Error):
            error.__cause__ = self.result.error


@attrs.define(eq=False)
class _Opening:
    """The object of a block on its way to asyncio's side."""

    opened: asyncio.Future[Any]

    def finish(self, result: outcome.Maybe[Any] | None) -> None:
        if not self.opened.done():
            assert isinstance(result, outcome.Value)
            self.opened.set_result(result.value)


class AsyncioBridge:
    """Way from an asyncio loop to the trio loop of a thread. Made by `open_bridge`; used on its asyncio loop only."""

    def __init__(self, outstanding_max: int = OUTSTANDING_MAX) -> None:
        """Belong to the running loop. `outstanding_max` bounds the calls that run at a time."""
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(outstanding_max)
        self._calls: set[_Call] = set()
        """Calls that have not ended. Of asyncio's thread, as is `_closed`."""
        self._closed = ""
        """Reason why no call may begin; empty while they may."""
        self._requests: deque[Callable[[], object]] = deque()
        self._is_flush_due = False
        self._is_drain_due = False
        self._completions: deque[tuple[_Call | _Opening, outcome.Maybe[Any] | None]] = deque()
        self._is_wake_due = False
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        """Tasks of calls; None before it is open and after it is closed. Of trio's thread, as is `_end`."""
        self._end: EndOfTurn | None = None
        self._on_lost_loop: Callable[[], None] = lambda: None
        self.trio_wake_ups = 0
        """Times that requests were handed to trio's thread."""
        self.asyncio_wake_ups = 0
        """Times that completions were handed to asyncio's thread."""

    # -- on asyncio's side ----------------------------------------------------------------------------------------------

    async def call(self, function: Callable[..., Awaitable[ResultT]], *arguments: Any) -> ResultT:
        """Run an async function on trio's side; returns its result, or raises its error.

        It sees the caller's context variables. A cancelled caller waits until the function has ended.

        Raises:
            CancelledError: with the outcome of the function as its cause, if there is one.
            ClientClosedError, WrongLoopError: nothing has been done.
            UnavailableError: the client was closed meanwhile: unknown outcome.
        """
        self._check()
        async with self._slots:
            return await self.wait(function, *arguments)

    async def wait(self, function: Callable[..., Awaitable[ResultT]], *arguments: Any) -> ResultT:
        """`call`, without a bound: for functions that wait for an event for as long as it takes."""
        result: ResultT = await self._result(self._begin(function, arguments))
        return result

    async def call_sync(self, function: Callable[..., ResultT], *arguments: Any) -> ResultT:
        """`call`, for a function that is not async."""
        return await self.call(_carry, function, arguments)

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run a function on trio's side soon, if that still runs. It must not raise.

        Raises:
            WrongLoopError: nothing has been done.
        """
        if not self.is_here:
            raise WrongLoopError
        self._request(partial(function, *arguments))

    @asynccontextmanager
    async def hold(self, opens: Callable[[], AbstractAsyncContextManager[OpenedT]]) -> AsyncIterator[OpenedT]:
        """Open something on trio's side while the block runs. An exception of the body fails the block on that side, too.

        If it ends there first, the body is cancelled, and its error is raised.

        Raises:
            as `call`, and the errors of opening and closing it.
        """
        opened: asyncio.Future[OpenedT] = self._loop.create_future()
        over, has_failed = trio.Event(), False

        async def hold_open() -> None:
            async with opens() as found:
                self._complete(_Opening(opened), outcome.Value(found))
                await over.wait()
                if has_failed:
                    raise _BlockFailedError

        block, call = Block(), self._begin(hold_open, ())

        def ended() -> None:
            if opened.done():
                block.end_early()
            elif isinstance(call.result, outcome.Error):
                opened.set_exception(call.result.error)
                call.done.exception()  # retrieved: it is raised here instead

        call.on_end = ended
        try:
            found = await opened
        except asyncio.CancelledError as error:
            await self._cancel(call, error)
            raise
        try:
            yield found
        except BaseException as error:
            if await block.leave(error):
                await self._result(call)  # raises the reason of its end
                raise
            if isinstance(error, asyncio.CancelledError):
                await self._cancel(call, error)
                raise
            has_failed = True
            self.post(over.set)
            with suppress(_BlockFailedError):
                await self._result(call)
            raise
        await block.leave(None)
        self.post(over.set)
        await self._result(call)

    @property
    def is_open(self) -> bool:
        """True if calls may begin."""
        return not self._closed

    def _check(self) -> None:
        if self._closed:
            raise ClientClosedError(self._closed)
        if not self.is_here:
            raise WrongLoopError

    @property
    def is_here(self) -> bool:
        """True on the loop of this bridge, in the process that has opened it."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:  # none runs, such as behind a fork
            return False

    def _begin(self, function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...]) -> _Call:
        self._check()
        call = _Call(function, arguments, copy_context(), self._loop.create_future())
        self._calls.add(call)
        self._request(partial(self._start, call))
        return call

    async def _result(self, call: _Call) -> Any:
        try:
            return await call.done
        except asyncio.CancelledError as error:
            await self._cancel(call, error)
            raise

    async def _cancel(self, call: _Call, error: asyncio.CancelledError) -> None:
        """Cancel a call, and wait until it has ended, also if the waiting task is cancelled again."""
        if not call.done.cancel() and not call.done.cancelled():
            call.done.exception()  # retrieved: it becomes the cause
        if not call.is_over:
            self.post(call.scope.cancel)
            ended = self._loop.create_future()
            call.on_end = partial(resolve, ended)
            await outlast(ended)  # the caller raises `error`, also for a later cancellation
        call.keep_outcome(error)

    def _request(self, function: Callable[[], object]) -> None:
        self._requests.append(function)
        if not self._is_flush_due:
            self._is_flush_due = True
            self._loop.call_soon(self._flush)  # behind all calls of this turn

    def _flush(self) -> None:
        self._is_flush_due = False
        if not self._is_drain_due and self._token is not None:
            self._is_drain_due = True
            self.trio_wake_ups += 1
            with suppress(trio.RunFinishedError):  # all calls are told by `finish_all`
                self._token.run_sync_soon(self._drain_requests)

    def _drain_completions(self) -> None:
        self._is_wake_due = False  # first: what is added from now on wakes this loop again
        self.asyncio_wake_ups += 1
        while self._completions:
            call, result = self._completions.popleft()
            if isinstance(call, _Call):
                self._calls.discard(call)
            call.finish(result)

    def close(self, reason: str) -> None:
        """Let no call begin from now on. Those that run go on."""
        self._closed = self._closed or reason

    def finish_all(self, reason: str) -> None:
        """After the end of trio's side: give all calls that have not ended an unknown outcome."""
        self._drain_completions()
        for call in list(self._calls):
            self._calls.discard(call)
            call.finish(outcome.Error(UnavailableError(reason)))

    # -- on trio's side -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def serve(self, opens: Callable[[], AbstractAsyncContextManager[OpenedT]]) -> AsyncIterator[OpenedT]:
        """Open something, and run calls while the block runs. Those that still run at its end are cancelled."""
        self._end = end_of_turn()
        async with opens() as found, trio.open_nursery() as nursery:
            self._nursery = nursery
            self._token = trio.lowlevel.current_trio_token()
            try:
                yield found
            finally:
                self._nursery = None
                nursery.cancel_scope.cancel()

    def _drain_requests(self) -> None:
        self._is_drain_due = False
        while self._requests:
            self._requests.popleft()()

    def _start(self, call: _Call) -> None:
        if self._nursery is None:
            self._complete(call, outcome.Error(UnavailableError(_CLOSED)))
        else:
            call.context.run(self._nursery.start_soon, self._carry_out, call)

    async def _carry_out(self, call: _Call) -> None:
        """Run a call in a task of its own. Its errors belong to the caller."""
        result: outcome.Maybe[Any] | None = None
        try:
            with call.scope:
                result = outcome.Value(await call.function(*call.arguments))
        except Exception as error:
            result = outcome.Error(error)
        except BaseException:  # the client is being closed
            result = outcome.Error(UnavailableError(_CLOSED))
            raise
        finally:
            self._complete(call, result)

    def _complete(self, call: _Call | _Opening, result: outcome.Maybe[Any] | None) -> None:
        self._completions.append((call, result))
        if not self._is_wake_due and self._end is not None:
            self._is_wake_due = True
            self._end.put(self._wake)

    def _wake(self) -> None:
        tell_loop(self._loop, self._drain_completions, self._on_lost_loop)


@attrs.define(eq=False)
class Pieces(Generic[ResultT]):
    """Pieces of a stream on trio's side, fetched one by one. For one consumer at a time."""

    _bridge: AsyncioBridge
    _fetch: Callable[[], Awaitable[ResultT]]
    _kept: deque[ResultT] = attrs.field(factory=deque, init=False)
    """The piece that had come when the call that fetched it was cancelled; at most one."""

    async def next(self) -> ResultT:
        """The next piece. A cancelled call loses none."""
        if self._kept:
            return self._kept.popleft()
        try:
            return await self._bridge.wait(self._fetch)
        except asyncio.CancelledError as error:
            if isinstance(error.__cause__, CompletedError):
                self._kept.append(error.__cause__.result)
            raise


@attrs.frozen(eq=False)
class Bridged(Generic[OpenedT]):
    """An object on trio's side, and the way to it."""

    opened: OpenedT
    bridge: AsyncioBridge


@asynccontextmanager
async def open_bridge(
    opens: Callable[[], AbstractAsyncContextManager[OpenedT]],
    name: str,
    *,
    outstanding_max: int = OUTSTANDING_MAX,
    clock: trio.abc.Clock | None = None,
) -> AsyncIterator[Bridged[OpenedT]]:
    """Open something on the trio loop of a new thread, which is called `name`, for the length of the block.

    At the end of the block it is closed; calls that still wait raise UnavailableError: unknown outcome. If it fails
    earlier, the block is cancelled, and its error is raised. Raises the errors of opening it.
    """
    bridge, loop = AsyncioBridge(outstanding_max), asyncio.get_running_loop()
    block, opened, ended = Block(), loop.create_future(), loop.create_future()

    def told_opened() -> None:
        if not opened.done():
            error = None if run.opened.cancelled() else run.opened.exception()
            opened.set_exception(error) if error else opened.set_result(None)

    def told_ended() -> None:
        error = run.ended.exception()
        reason = f"the client has failed: {error!r}" if error else "the client is closed"
        bridge.close(reason)
        bridge.finish_all(f"{reason}: unknown outcome")
        resolve(ended)
        if opened.done() and not opened.cancelled() and opened.exception() is None:
            block.end_early()

    run = ThreadRun(partial(bridge.serve, opens), name, clock)
    bridge._on_lost_loop = run.end  # noqa: SLF001 -- the two are made for each other
    run.opened.add_done_callback(lambda _: tell_loop(loop, told_opened, run.end))
    run.ended.add_done_callback(lambda _: tell_loop(loop, told_ended, run.end))
    try:
        await opened
        thread: LoopThread[OpenedT] = run.opened.result()
        yield Bridged(thread.opened, bridge)
    except BaseException as error:
        if await block.leave(error):
            run.ended.result()  # raises the reason of its end
        raise
    else:
        await block.leave(None)
    finally:
        bridge.close("the client is closed")
        run.end()
        if bridge.is_here:
            cancelled = await outlast(ended)
            run.join()
            if cancelled is not None:
                raise cancelled
    if bridge.is_here:
        run.ended.result()


async def _carry(function: Callable[..., ResultT], arguments: tuple[Any, ...]) -> ResultT:
    return function(*arguments)
