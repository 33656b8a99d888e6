"""Calls from an asyncio loop to objects on the trio loop of another thread.

    asyncio's thread                                     trio's thread
    call -> requests ------ one byte in a pipe --------> a worker per call, with a cancel scope
    future <- completions <- one byte in a pipe -------- end of the scheduler turn

All calls of one turn of asyncio cross together, and so do all completions of one turn of trio: a wake-up of the other
thread costs more than a call. Only the modules of this folder know both loops.

A cancelled call is cancelled on trio's side, and its end is waited for. `CancelledError` is raised in any case, as asyncio
requires. Its `__cause__` keeps an outcome that came first: CompletedError, or the error of the call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

import attrs
import outcome
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog.runtime.bridge.blocks import Block, outlast, resolve, tell_loop
from virtuallog.runtime.bridge.call_workers import CallWorkers
from virtuallog.runtime.bridge.calls import BridgeCall, BridgeOpening, Crossing
from virtuallog.runtime.bridge.slots import Slots
from virtuallog.runtime.bridge.wake_pipe import WakePipe
from virtuallog.runtime.bridge_errors import ClientClosedError, CompletedError, WrongLoopError
from virtuallog.runtime.end_of_turn import EndOfTurn, end_of_turn
from virtuallog.runtime.loop_thread import ThreadRun

OpenedT = TypeVar("OpenedT")
ResultT = TypeVar("ResultT")

OUTSTANDING_MAX: Final = 1024
"""Calls of one client that run at a time; further ones wait for their turn on the side of asyncio. A call costs some 5 KB."""


class _BlockFailedError(Exception):
    """Raised within a block on trio's side if its body on asyncio's side has failed."""


class AsyncioBridge:
    """Way from an asyncio loop to the trio loop of a thread. Made by `open_bridge`; used on its asyncio loop only."""

    def __init__(self, outstanding_max: int = OUTSTANDING_MAX) -> None:
        """Belong to the running loop. `outstanding_max` bounds the calls that run at a time."""
        self.loop = asyncio.get_running_loop()
        self.slots = Slots(outstanding_max)
        self.turn = 0
        """Number of turns of asyncio that had requests. Requests with the same number cross together."""
        self._under_way: set[Crossing] = set()
        """Requests that have not ended. Of asyncio's thread, as is `_closed`."""
        self._closed = ""
        """Reason why no call may begin; empty while they may."""
        self._gathered: list[BridgeCall | Callable[[], object]] = []
        """Requests of this turn of asyncio."""
        self._requests: deque[BridgeCall | Callable[[], object]] = deque()
        self._completions: deque[tuple[Crossing | BridgeOpening, outcome.Maybe[Any] | None]] = deque()
        self._is_wake_due = False
        self._to_trio, self._to_asyncio = WakePipe(), WakePipe()
        self._nursery: trio.Nursery | None = None
        """Tasks of calls; None before it is open and after it is closed. Of trio's thread, as is `_end`."""
        self._end: EndOfTurn | None = None
        self.on_lost_loop: Callable[[], None] = lambda: None
        self.trio_wake_ups = 0
        """Times that requests were handed to trio's thread."""
        self.asyncio_wake_ups = 0
        """Times that completions were handed to asyncio's thread."""
        self.loop.add_reader(self._to_asyncio.fileno(), self._woken)

    # -- on asyncio's side ----------------------------------------------------------------------------------------------

    async def call(self, function: Callable[..., Awaitable[ResultT]], *arguments: Any) -> ResultT:
        """Run an async function on trio's side; returns its result, or raises its error.

        It sees the caller's context variables. A cancelled caller waits until the function has ended.

        Raises:
            CancelledError: with the outcome of the function as its cause, if there is one.
            ClientClosedError, WrongLoopError: nothing has been done.
            UnavailableError: the client was closed meanwhile: unknown outcome.
        """
        self.check()
        if not self.slots.try_take():
            await self.wait_for_slot()
        try:
            result: ResultT = await self.result(self.begin(function, arguments))
            return result
        finally:
            self.slots.give_back()

    async def wait_for_slot(self) -> None:
        """Take a slot that is given back. Raises ClientClosedError: the client was closed meanwhile, and the caller has no slot."""
        await self.slots.wait()
        if self._closed:
            self.slots.give_back()
            raise ClientClosedError(self._closed)

    async def wait(self, function: Callable[..., Awaitable[ResultT]], *arguments: Any) -> ResultT:
        """`call`, without a bound: for functions that wait for an event for as long as it takes."""
        result: ResultT = await self.result(self.begin(function, arguments))
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
        self._gather(partial(function, *arguments))

    def hold(self, opens: Callable[[], AbstractAsyncContextManager[OpenedT]]) -> AbstractAsyncContextManager[OpenedT]:
        """Open something on trio's side while the block runs. An exception of the body fails the block on that side, too.

        If it ends there first, the body is cancelled, and its error is raised. Raises as `call`, and the errors of
        opening and closing it.
        """
        return _Held(self, opens)

    @property
    def is_open(self) -> bool:
        """True if calls may begin."""
        return not self._closed

    def check(self) -> None:
        """Raise ClientClosedError or WrongLoopError if no call may begin here."""
        if self._closed:
            raise ClientClosedError(self._closed)
        if not self.is_here:
            raise WrongLoopError

    @property
    def is_here(self) -> bool:
        """True on the loop of this bridge, in the process that has opened it."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:  # none runs, such as behind a fork
            return False

    def begin(self, function: Callable[..., Awaitable[Any]], arguments: tuple[Any, ...] = ()) -> BridgeCall:
        """Begin a call, without waiting. Raises ClientClosedError or WrongLoopError: nothing has been done."""
        self.check()
        call = BridgeCall(function, arguments, copy_context(), self.loop.create_future())
        self._under_way.add(call)
        self._gather(call)
        return call

    def begin_posted(self, crossing: Crossing, start: Callable[[], object]) -> None:
        """Begin something whose `start` runs on trio's side, and which ends with `complete`. `start` must not raise."""
        self.check()
        self._under_way.add(crossing)
        self._gather(start)

    async def result(self, call: BridgeCall) -> Any:
        """Wait for a call."""
        try:
            return await call.done
        except asyncio.CancelledError as error:
            await self.cancel(call, error)
            raise

    async def cancel(self, call: BridgeCall, error: asyncio.CancelledError) -> None:
        """Cancel a call, and wait until it has ended, also if the waiting task is cancelled again."""
        if not call.done.cancel() and not call.done.cancelled():
            call.done.exception()  # retrieved: it becomes the cause
        if not call.is_over:
            self.post(call.stop)
            ended = self.loop.create_future()
            call.on_end = partial(resolve, ended)
            await outlast(ended)  # the caller raises `error`, also for a later cancellation
        call.keep_outcome(error)

    def _gather(self, request: BridgeCall | Callable[[], object]) -> None:
        if not self._gathered:
            self.loop.call_soon(self._flush)  # behind all calls of this turn
        self._gathered.append(request)

    def _flush(self) -> None:
        self.turn += 1
        self._requests.extend(self._gathered)
        self._gathered.clear()
        self.trio_wake_ups += self._to_trio.wake()

    def _woken(self) -> None:
        self._to_asyncio.clear()
        self.asyncio_wake_ups += 1
        self.drain_completions()

    def drain_completions(self) -> None:
        """Hand out what has ended on trio's side so far."""
        while self._completions:
            crossing, result = self._completions.popleft()
            if not isinstance(crossing, BridgeOpening):
                self._under_way.discard(crossing)
            crossing.finish(result)

    def close(self, reason: str) -> None:
        """Let no call begin from now on. Those that run go on."""
        self._closed = self._closed or reason

    def finish_all(self, reason: str) -> None:
        """After the end of trio's side: give all calls that have not ended an unknown outcome."""
        self.loop.remove_reader(self._to_asyncio.fileno())
        self._to_trio.close()
        self._to_asyncio.close()
        self.drain_completions()
        for crossing in list(self._under_way):
            self._under_way.discard(crossing)
            crossing.finish(outcome.Error(UnavailableError(reason)))

    # -- on trio's side -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def serve(self, opens: Callable[[], AbstractAsyncContextManager[OpenedT]]) -> AsyncIterator[OpenedT]:
        """Open something, and run calls while the block runs. Those that still run at its end are cancelled."""
        self._end = end_of_turn()
        async with opens() as found, trio.open_nursery() as nursery:
            self._nursery = nursery
            CallWorkers(nursery, self._to_trio, self._take, self.complete)
            try:
                yield found
            finally:
                self._nursery = None
                nursery.cancel_scope.cancel()

    def _take(self) -> list[BridgeCall]:
        """Run the posted functions, and return the calls."""
        calls = list[BridgeCall]()
        while self._requests:
            request = self._requests.popleft()
            if isinstance(request, BridgeCall):
                calls.append(request)
            else:
                request()
        return calls

    def spawn(self, function: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        """Run an async function in a task of its own; while requests are taken on trio's side."""
        assert self._nursery is not None
        self._nursery.start_soon(function, *arguments)

    def complete(self, crossing: Crossing | BridgeOpening, result: outcome.Maybe[Any] | None) -> None:
        """Take a result to asyncio's side; once for each crossing."""
        self._completions.append((crossing, result))
        if not self._is_wake_due and self._end is not None:
            self._is_wake_due = True
            self._end.put(self._wake)

    def _wake(self) -> None:
        self._is_wake_due = False
        if self.loop.is_closed():
            self.on_lost_loop()
        else:
            self._to_asyncio.wake()


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


class _Held(AbstractAsyncContextManager[OpenedT]):
    """A block on both sides; see `AsyncioBridge.hold`. No generator: a loop that closes all of them would close nested ones at once."""

    def __init__(self, bridge: AsyncioBridge, opens: Callable[[], AbstractAsyncContextManager[OpenedT]]) -> None:
        self._bridge = bridge
        self._opens = opens
        self._over = trio.Event()
        self._has_failed = False

    async def __aenter__(self) -> OpenedT:
        self._block = Block()
        self._opened: asyncio.Future[OpenedT] = asyncio.get_running_loop().create_future()
        self._call = self._bridge.begin(self._hold_open)
        self._call.on_end = self._ended
        try:
            return await self._opened
        except asyncio.CancelledError as error:
            await self._bridge.cancel(self._call, error)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_ended = await self._block.leave(error)
        if isinstance(error, asyncio.CancelledError) and not is_ended:
            await self._bridge.cancel(self._call, error)
            return
        self._has_failed = error is not None
        self._bridge.post(self._over.set)
        with suppress(_BlockFailedError):  # the error of the body goes on
            await self._bridge.result(self._call)

    async def _hold_open(self) -> None:
        """Runs on trio's side."""
        async with self._opens() as found:
            self._bridge.complete(BridgeOpening(self._opened), outcome.Value(found))
            await self._over.wait()
            if self._has_failed:
                raise _BlockFailedError

    def _ended(self) -> None:
        if self._opened.done():
            self._block.end_early()
        elif isinstance(self._call.result, outcome.Error):
            self._opened.set_exception(self._call.result.error)
            self._call.done.exception()  # retrieved: it is raised by entering instead


class _Opened(AbstractAsyncContextManager[Bridged[OpenedT]]):
    """A thread with an object, for the length of a block; see `open_bridge`."""

    def __init__(self, start: Callable[[AsyncioBridge], ThreadRun[OpenedT]], outstanding_max: int) -> None:
        self._start = start
        self._outstanding_max = outstanding_max

    async def __aenter__(self) -> Bridged[OpenedT]:
        self._bridge, self._block, loop = AsyncioBridge(self._outstanding_max), Block(), asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._run = run = self._start(self._bridge)
        self._bridge.on_lost_loop = run.end
        run.opened.add_done_callback(lambda _: tell_loop(loop, self._told_opened, run.end))
        run.ended.add_done_callback(lambda _: tell_loop(loop, self._told_ended, run.end))
        try:
            await self._opened
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return Bridged(run.opened.result().opened, self._bridge)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_ended = await self._block.leave(error)
        self._bridge.close("the client is closed")
        self._run.end()
        if not self._bridge.is_here:
            return
        cancelled = await outlast(self._ended)
        self._run.join()
        if cancelled is not None:
            raise cancelled
        if error is None or is_ended:
            self._run.ended.result()  # raises the error that has ended it early

    def _told_opened(self) -> None:
        if not self._opened.done():
            error = None if self._run.opened.cancelled() else self._run.opened.exception()
            self._opened.set_exception(error) if error else self._opened.set_result(None)

    def _told_ended(self) -> None:
        error = self._run.ended.exception()
        reason = f"the client has failed: {error!r}" if error else "the client is closed"
        self._bridge.close(reason)
        self._bridge.finish_all(f"{reason}: unknown outcome")
        resolve(self._ended)
        if self._opened.done() and not self._opened.cancelled() and self._opened.exception() is None:
            self._block.end_early()


def open_bridge(
    opens: Callable[[], AbstractAsyncContextManager[OpenedT]],
    name: str,
    *,
    outstanding_max: int = OUTSTANDING_MAX,
    clock: trio.abc.Clock | None = None,
) -> AbstractAsyncContextManager[Bridged[OpenedT]]:
    """Open something on the trio loop of a new thread, which is called `name`, for the length of the block.

    At the end of the block it is closed; calls that still wait raise UnavailableError: unknown outcome. If it fails
    earlier, the block is cancelled, and its error is raised. Raises the errors of opening it.
    """
    return _Opened(lambda bridge: ThreadRun(partial(bridge.serve, opens), name, clock), outstanding_max)


async def _carry(function: Callable[..., ResultT], arguments: tuple[Any, ...]) -> ResultT:
    return function(*arguments)
