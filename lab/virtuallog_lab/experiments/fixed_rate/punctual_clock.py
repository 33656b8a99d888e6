"""A clock that also waits until a point in time, exact to some microseconds. Linux only.

The event loop waits in whole milliseconds, which is more than a median latency and twice the interval of 2,000
operations a second. A timer of the kernel is a descriptor, and a descriptor wakes the loop at once.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

import attrs
import trio

from virtuallog.contract.ports import Clock
from virtuallog.runtime.clock import SystemClock

_ABSOLUTE: Final = 1
"""TFD_TIMER_ABSTIME."""
_libc: Final = ctypes.CDLL(None, use_errno=True)


class PunctualClock(Clock, Protocol):
    """The Clock port, and punctual waits for one task at a time."""

    async def wait_until(self, moment: float) -> None:
        """Wait until a time of `monotonic`. A checkpoint, also if that has passed."""
        ...


class _TimerSpecification(ctypes.Structure):
    """`struct itimerspec`."""

    _fields_ = [(name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns")]


@attrs.frozen
class _TimerClock(SystemClock):
    _descriptor: int
    """A timer of the kernel."""

    async def wait_until(self, moment: float) -> None:
        """A cancelled wait leaves the timer set; the next one sets it anew."""
        nanoseconds = max(1, round(moment * 1e9))  # 0 would stop it
        specification = _TimerSpecification(0, 0, *divmod(nanoseconds, 1_000_000_000))
        _check(_libc.timerfd_settime(self._descriptor, _ABSOLUTE, ctypes.byref(specification), None))
        await trio.lowlevel.wait_readable(self._descriptor)


@contextmanager
def open_punctual_clock() -> Iterator[PunctualClock]:
    """The clock of this machine, for the length of the block."""
    descriptor = _check(_libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
    try:
        yield _TimerClock(descriptor)
    finally:
        os.close(descriptor)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
