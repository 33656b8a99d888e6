"""One life of a simulated process: what its ports ask before they do anything.

A crash is abrupt. First the ports die (every use raises `CrashedError`, no reply of this life reaches anybody), and
only then are the tasks cancelled; so whatever a `finally` or a shielded scope still tries to do, the world does not
see it. A paused process neither hears nor says anything until it is resumed, then everything reaches it at once: a long
garbage collection, a suspended virtual machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NoReturn

import attrs
import trio

from virtuallog.contract.types import NodeId


class CrashedError(Exception):
    """A port was used after its process had crashed. Nobody but the simulator should catch it."""

    def __init__(self, process: Process) -> None:
        super().__init__(f"node {process.node}, boot {process.boot} has crashed")
        self.process = process


_EXECUTING: Final[ContextVar[Process | None]] = ContextVar("executing", default=None)


def executing() -> Process | None:
    """The process whose code runs at this moment; None: the world itself, or no simulation."""
    return _EXECUTING.get()


@attrs.define(eq=False)
class Process:
    """The ports of one process share one of these."""

    node: NodeId
    boot: int = 1
    end: Callable[[bool], None] | None = None
    """How to end this life as a whole, set by whoever runs the process: the ports, then the disks, then the tasks. The
    argument says whether power is lost, too."""
    alive: bool = attrs.field(default=True, init=False)
    _held: list[Callable[[], None]] | None = attrs.field(default=None, init=False)
    """What will happen on resume; None while the process runs."""
    _resumed: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def paused(self) -> bool:
        return self._held is not None

    def check(self) -> None:
        """Called by every port before it does something.

        Raises:
            CrashedError: this life is over.
        """
        if not self.alive:
            raise CrashedError(self)

    def run(self, callback: Callable[[], None]) -> None:
        """Let the world reach into this process: now if it runs, on resume if it is paused, never if it is dead.

        A process that dies within the callback is no affair of the caller's.
        """
        if not self.alive:
            return
        if self._held is not None:
            self._held.append(callback)
            return
        before = _EXECUTING.set(self)
        try:
            callback()
        except CrashedError:
            if self.alive:  # then it was a port of another life that was used: a bug
                raise
        finally:
            _EXECUTING.reset(before)

    @contextmanager
    def acting(self) -> Iterator[None]:
        """What the current task does in here, and every task that it starts, is done by this process."""
        before = _EXECUTING.set(self)
        try:
            yield
        finally:
            _EXECUTING.reset(before)

    def die(self, *, power: bool) -> NoReturn:
        """For the process itself: it ends here, abruptly, with the power or alone.

        Raises:
            CrashedError: always; no line behind this call is executed.
        """
        if self.end is None:
            self.crash()
        else:
            self.end(power)
        self.check()
        raise AssertionError(f"node {self.node}, boot {self.boot} has survived its end")

    async def wait_running(self) -> None:
        """Return while the process is not paused.

        Raises:
            CrashedError: this life is over.
        """
        while self.alive and self._held is not None:
            await self._resumed.wait()
        self.check()

    def crash(self) -> None:
        self.alive = False
        self._held = None
        self._resumed.set()

    def pause(self) -> None:
        if self.alive and self._held is None:
            self._held = []
            self._resumed = trio.Event()

    def resume(self) -> None:
        held, self._held = self._held, None
        self._resumed.set()
        for callback in held or ():
            self.run(callback)
