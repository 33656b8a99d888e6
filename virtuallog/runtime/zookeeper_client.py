"""kazoo, a client of ZooKeeper, for trio tasks: its threads stay behind this module, what they tell comes into the event loop.

Imported when a ZooKeeper is used, and not before: kazoo is an extra.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import trio

from virtuallog.contract.errors import InvalidSettingError, UnavailableError, UnsupportedError
from virtuallog.contract.ports import Clock

PATIENCE: Final = {"max_tries": -1, "max_delay": 2.0}
"""Of kazoo with servers that do not answer: for ever, at least every two seconds; its own longest pause is an hour."""


def open_client(hosts: str, session_seconds: float, auth: tuple[str, str] | None = None) -> Any:
    """Not started yet.

    Args:
        hosts: host:port,host:port
        session_seconds: of its sessions: so long after its last word ZooKeeper counts it as gone.
        auth: scheme and credential.

    Raises:
        UnsupportedError: kazoo is not installed.
        InvalidSettingError: these are no hosts.
    """
    try:
        from kazoo.client import KazooClient
    except ImportError as error:
        raise UnsupportedError("ZooKeeper needs the package kazoo: pip install 'virtuallog[zookeeper]'") from error
    auth_data = None if auth is None else [auth]
    try:
        return KazooClient(
            hosts=hosts, timeout=session_seconds, auth_data=auth_data, connection_retry=PATIENCE, logger=_quiet()
        )
    except ValueError as error:
        raise InvalidSettingError("hosts", f"'{hosts}': {error}") from error


async def close_client(client: Any) -> None:
    """End its session and its threads. Bounded: kazoo waits no longer than a session's time for its threads."""

    def close() -> None:
        from kazoo.exceptions import KazooException

        with suppress(KazooException, OSError):  # the session ends by itself in the end
            client.stop()
            client.close()

    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(close)


class KazooBridge:
    """From the threads of kazoo into the event loop that made this object."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()

    def call_soon(self, function: Callable[[], None]) -> None:
        """For other threads. Does nothing once the loop has ended."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)

    async def answer(self, pending: Any, clock: Clock, seconds: float) -> Any:
        """What ZooKeeper says. kazoo fails what waits when the connection goes; the time is for one that is silent.

        Raises:
            UnavailableError: nothing within this time, or the connection is gone: unknown.
            KazooException: it said no.
        """
        from kazoo.exceptions import (
            CancelledError,
            ConnectionClosedError,
            ConnectionLoss,
            KazooException,
            OperationTimeoutError,
            SessionExpiredError,
        )

        answered = trio.Event()
        pending.rawlink(lambda _: self.call_soon(answered.set))
        with clock.timeout(seconds):
            await answered.wait()
        if not answered.is_set():
            raise UnavailableError(f"ZooKeeper has not answered within {seconds:g} s")
        try:
            return pending.get_nowait()
        except (
            CancelledError, ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError,
        ) as error:  # fmt: skip
            raise UnavailableError(f"ZooKeeper: {_said(error)}") from error
        except (KazooException, UnavailableError):
            raise
        except Exception as error:  # what its threads tripped over, such as a socket that was closed under them
            raise UnavailableError(f"ZooKeeper: {_said(error)}") from error


def _quiet() -> logging.Logger:
    """Without the warning of each attempt to connect. Who uses it says once that there is no connection."""
    logger = logging.getLogger("virtuallog.kazoo")
    logger.setLevel(logging.ERROR)
    return logger


def _said(error: Exception) -> str:
    return f"{type(error).__name__} {error}".rstrip()
