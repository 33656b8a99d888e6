"""Appends of one turn of asyncio, which cross to trio's side as one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

import attrs
import outcome
import trio

from virtuallog.client.append_queue import check_size
from virtuallog.client.appender_settings import AppenderSettings
from virtuallog.contract.errors import UnavailableError, VirtualLogError
from virtuallog.runtime.bridge.asyncio_bridge import AsyncioBridge
from virtuallog.runtime.bridge.calls import cause_of

GROUP_BYTES: Final = 256 << 10
"""Bytes at which a group takes no more. One append may exceed it."""

Post: TypeAlias = Callable[[Sequence[bytes], Callable[[range | VirtualLogError], None]], bool]
"""As `VirtualLog.post`."""


@attrs.define(eq=False)
class AppendGroup:
    """Appends in the order of their calls, and the tasks that wait for them. In the log they are side by side."""

    turn: int
    """The turn of asyncio that it gathers in."""
    payloads: list[Sequence[bytes]] = attrs.field(factory=list, init=False)
    waiting: list[asyncio.Future[range]] = attrs.field(factory=list, init=False)
    count: int = attrs.field(default=0, init=False)
    """Number of entries."""
    size: int = attrs.field(default=0, init=False)
    """Bytes of all entries."""
    outcomes: list[outcome.Maybe[range]] = attrs.field(factory=list, init=False)
    """One for each append; empty until it has ended."""
    left: int = attrs.field(default=0, init=False)
    """Tasks that were cancelled."""
    waits_for_room: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    """Scope of the wait for room in the queue. Of trio's thread."""

    def add(self, payloads: Sequence[bytes], size: int, future: asyncio.Future[range]) -> int:
        """Add an append; returns its index."""
        self.payloads.append(payloads)
        self.waiting.append(future)
        self.count += len(payloads)
        self.size += size
        return len(self.waiting) - 1

    def finish(self, result: outcome.Maybe[Any] | None) -> None:
        """Tell all tasks; see `Crossing`."""
        if isinstance(result, outcome.Error):
            self.outcomes = [result] * len(self.waiting)
            for future in self.waiting:
                if not future.done():
                    future.set_exception(result.error)
        elif result is not None:
            for places, future in zip(self._split(result.value), self.waiting, strict=True):
                self.outcomes.append(outcome.Value(places))
                if not future.done():
                    future.set_result(places)

    def leave(self) -> None:
        """Stop waiting for room if no task waits any more; on trio's side, where no task joins any more."""
        if self.left == len(self.waiting):
            self.waits_for_room.cancel()

    def _split(self, places: range) -> Iterator[range]:
        start = 0
        for payloads in self.payloads:
            yield places[start : start + len(payloads)]
            start += len(payloads)


class GroupedAppends:
    """Appends of one session by tasks of one asyncio loop."""

    def __init__(
        self,
        bridge: AsyncioBridge,
        settings: AppenderSettings,
        post: Post,
        append: Callable[[Sequence[bytes]], Awaitable[range]],
    ) -> None:
        """Make no call yet.

        Args:
            bridge: leads to the loop of the session.
            settings: of the session.
            post: begins an append if the queue has room.
            append: waits until it has.
        """
        self._bridge = bridge
        self._settings = settings
        self._count_max = settings.batch_entries
        self._size_max = min(GROUP_BYTES, settings.batch_bytes)
        self._post = post
        self._append = append
        self._group = AppendGroup(-1)

    async def append(self, payloads: Sequence[bytes]) -> range:
        """Append entries side by side. A cancelled caller does not stop it once there is room for it."""
        size, bridge = check_size(payloads, self._settings.entry_bytes_max), self._bridge
        bridge.check()
        if not bridge.slots.try_take():
            await bridge.wait_for_slot()
        try:
            group = self._gathering(len(payloads), size)
            future: asyncio.Future[range] = bridge.loop.create_future()
            index = group.add(payloads, size, future)
            try:
                return await future
            except asyncio.CancelledError as error:
                bridge.drain_completions()  # its outcome may be here
                error.__cause__ = cause_of(group.outcomes[index]) if group.outcomes else None
                group.left += 1
                if group.left == len(group.waiting) and not group.outcomes:
                    bridge.post(group.leave)
                raise
        finally:
            bridge.slots.give_back()

    def _gathering(self, count: int, size: int) -> AppendGroup:
        """The group of this turn, or another one if that has no room."""
        group, turn = self._group, self._bridge.turn
        if group.turn != turn or group.count + count > self._count_max or group.size + size > self._size_max:
            group = AppendGroup(turn)
            self._bridge.begin_posted(group, partial(self._begin, group))
            self._group = group
        return group

    def _begin(self, group: AppendGroup) -> None:
        """Runs on trio's side."""
        payloads = [*chain.from_iterable(group.payloads)]
        try:
            if not self._post(payloads, partial(self._done, group)):
                self._bridge.spawn(self._append_later, group, payloads)
        except Exception as error:
            self._bridge.complete(group, outcome.Error(error))

    def _done(self, group: AppendGroup, found: range | VirtualLogError) -> None:
        self._bridge.complete(group, outcome.Error(found) if isinstance(found, Exception) else outcome.Value(found))

    async def _append_later(self, group: AppendGroup, payloads: Sequence[bytes]) -> None:
        result: outcome.Maybe[range] = outcome.Error(UnavailableError("the client was closed: unknown outcome"))
        try:
            with group.waits_for_room:
                result = outcome.Value(await self._append(payloads))
        except Exception as error:
            result = outcome.Error(error)
        finally:
            self._bridge.complete(group, result)
