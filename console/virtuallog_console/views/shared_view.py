"""A view that all viewers share, so that a hundred open pages cost the cluster as much as one.

For views that are the same for every viewer: the chain, the nodes, the holds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import attrs
import trio

from virtuallog.contract.ports import Environment

ViewT = TypeVar("ViewT")


@attrs.frozen
class _Gathered(Generic[ViewT]):
    """A view, and the time and the version when its gathering began."""

    view: ViewT
    began: float
    version: int


@attrs.define(eq=False)
class SharedView(Generic[ViewT]):
    """The latest result of a function, gathered anew for the first caller that finds it too old.

    Args:
        gather: gathers the view; its failures are in the view. Runs in the client's nursery, so a caller may be cancelled.
        environment: of the client.
        seconds: age up to which a view is given out again.
        version: version of what is viewed, as far as the client knows. A view of an earlier one is too old.
    """

    _gather: Callable[[], Awaitable[ViewT]]
    _environment: Environment
    _seconds: float
    _version: Callable[[], int] = lambda: 0
    _latest: _Gathered[ViewT] | None = attrs.field(default=None, init=False)
    _gathered: trio.Event | None = attrs.field(default=None, init=False)
    """Set when the gathering that runs has ended. None if none runs."""

    async def get(self) -> ViewT:
        """A view that was gathered for this call, or at most `seconds` before it."""
        now, version = self._environment.clock.monotonic(), self._version()
        while self._latest is None or now - self._latest.began > self._seconds or self._latest.version < version:
            if self._gathered is None:
                self._gathered = trio.Event()
                self._environment.nursery.start_soon(self._run, self._gathered)
            await self._gathered.wait()
        return self._latest.view

    async def _run(self, gathered: trio.Event) -> None:
        began, version = self._environment.clock.monotonic(), self._version()
        try:
            self._latest = _Gathered(await self._gather(), began, version)
        finally:
            self._gathered = None
            gathered.set()
