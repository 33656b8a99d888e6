"""kazoo for trio: runs kazoo's threads and forwards their results to the event loop.

Imported only when a ZooKeeper is used: kazoo is an extra.
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
"""kazoo's retry settings for servers that do not answer: for ever, at least every two seconds. Its
default longest pause is an hour."""


def open_client(hosts: str, session_seconds: float, auth: tuple[str, str] | None = None) -> Any:
    """Make a client. It is not started yet.

    Args:
        hosts: host:port,host:port
        session_seconds: session timeout: ZooKeeper ends the session after so long without a
            message.
        auth: scheme and credential; None if there is none.

    Raises:
        UnsupportedError: kazoo is not installed.
        InvalidSettingError: `hosts` is malformed.
    """
    try:
        from kazoo.client import KazooClient
    except ImportError as error:
        raise UnsupportedError("ZooKeeper needs the package kazoo: pip install 'virtuallog[zookeeper]'") from error
    auth_data = None if auth is None else [auth]
    try:
        return KazooClient(
            hosts=hosts, timeout=session_seconds, auth_data=auth_data, connection_retry=PATIENCE, logger=_quiet_logger()
        )
    except ValueError as error:
        raise InvalidSettingError("hosts", f"'{hosts}': {error}") from error


async def close_client(client: Any) -> None:
    """End the client's session and its threads. Bounded: kazoo waits for its threads no longer than
    a session's time."""

    def close() -> None:
        from kazoo.exceptions import KazooException

        with suppress(KazooException, OSError):  # the session times out by itself
            client.stop()
            client.close()

    with trio.CancelScope(shield=True):
        await trio.to_thread.run_sync(close)


class KazooBridge:
    """Bridge from kazoo's threads into the event loop that made this object."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()

    def call_soon(self, function: Callable[[], None]) -> None:
        """Run a function in the event loop; for other threads. Does nothing once the loop has ended."""
        with suppress(trio.RunFinishedError):
            self._token.run_sync_soon(function)

    async def answer(self, pending: Any, clock: Clock, seconds: float) -> Any:
        """Wait for ZooKeeper's answer.

        kazoo fails waiting calls when the connection breaks; `seconds` is for a connection that is
        silent.

        Raises:
            UnavailableError: no answer within this time, or the connection is gone: unknown
                outcome.
            KazooException: ZooKeeper refused.
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
        except Exception as error:  # errors of its threads, such as a socket that was closed under them
            raise UnavailableError(f"ZooKeeper: {_said(error)}") from error


def _quiet_logger() -> logging.Logger:
    """Return a logger without the warning of each connection attempt. Callers report once that
    there is no connection."""
    logger = logging.getLogger("virtuallog.kazoo")
    logger.setLevel(logging.ERROR)
    return logger


def _said(error: Exception) -> str:
    return f"{type(error).__name__} {error}".rstrip()
