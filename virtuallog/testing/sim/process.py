"""One life of a simulated process. Its ports ask here before they act.

A crash is abrupt. First the ports die: every use raises `CrashedError`, no reply of this life
arrives anywhere. Only then are the tasks cancelled. So the world does not see what a `finally` or a
shielded scope still tries to do. A paused process neither receives nor sends anything until it is
resumed, then everything arrives at once: a long garbage collection, a suspended virtual machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NoReturn

import attrs
import trio

from virtuallog.contract.types import NodeId
from virtuallog.runtime.end_of_turn import end_of_turn


class CrashedError(Exception):
    """A port was used after its process had crashed. Only the simulator should catch it."""

    def __init__(self, process: Process) -> None:
        super().__init__(f"node {process.node}, boot {process.boot} has crashed")
        self.process = process


_EXECUTING: Final[ContextVar[Process | None]] = ContextVar("executing", default=None)


def executing() -> Process | None:
    """Return the process that runs code at this moment; None for the world itself, or without a
    simulation."""
    return _EXECUTING.get()


@attrs.define(eq=False)
class Process:
    """One life of a process, shared by all its ports."""

    node: NodeId
    boot: int = 1
    end: Callable[[bool], None] | None = None
    """Ends this life as a whole: the ports, then the disks, then the tasks. None if unset.

    Set by the runner of the process. The argument tells if power is lost, too.
    """
    flushes: bool = False
    """True if the end of the turn comes right behind each callback, as for what a connection has read."""
    alive: bool = attrs.field(default=True, init=False)
    _held: list[Callable[[], None]] | None = attrs.field(default=None, init=False)
    """Callbacks to run on resume; None while the process runs."""
    _resumed: trio.Event = attrs.field(factory=trio.Event, init=False)

    @property
    def paused(self) -> bool:
        return self._held is not None

    def check(self) -> None:
        """Check that this life goes on; every port calls it before it acts.

        Raises:
            CrashedError: this life is over.
        """
        if not self.alive:
            raise CrashedError(self)

    def run(self, callback: Callable[[], None]) -> None:
        """Call back into this process: now if it runs, on resume if it is paused, never if it is dead.

        If the process dies within the callback, the caller does not notice.
        """
        if not self.alive:
            return
        if self._held is not None:
            self._held.append(callback)
            return
        before = _EXECUTING.set(self)
        try:
            callback()
            if self.flushes:
                end_of_turn().flush()
        except CrashedError:
            if self.alive:  # otherwise a port of another life was used: a bug
                raise
        finally:
            _EXECUTING.reset(before)

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Attribute everything that the current task does inside, and every task it starts, to this
        process."""
        before = _EXECUTING.set(self)
        try:
            yield
        finally:
            _EXECUTING.reset(before)

    def die(self, *, power: bool) -> NoReturn:
        """End this process abruptly, with the power or alone. For the process itself.

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
        """Wait until the process is not paused.

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
