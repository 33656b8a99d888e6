"""Signals that end a process in order."""

from __future__ import annotations

import signal

import trio

from virtuallog.runtime import log


async def end_on_signal(scope: trio.CancelScope) -> None:
    """Cancel `scope` on SIGTERM or SIGINT."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for received in signals:
            log.info("ending", signal=signal.Signals(received).name)
            scope.cancel()
