"""Messages to a service manager, such as systemd, by the protocol of sd_notify(3): datagrams to the socket `$NOTIFY_SOCKET`.

    READY=1      once the node listens; other nodes may still be down, or units would wait for each other
    STATUS=...   one line, at each change: `ready`, or what the node waits for
    WATCHDOG=1   thrice in each `$WATCHDOG_USEC`, from the event loop: a loop that is stuck sends none, and the unit is restarted
    STOPPING=1   once the end has begun

A manager that does not read costs the node nothing: a datagram that cannot be sent at once is dropped. The messages are states, so the
next one makes up for it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract.ports import Clock
from virtuallog.runtime import log

STATUS_SECONDS: Final = 5.0
"""Longest time between two looks at the state of the node."""
BEATS: Final = 3
"""Signs of life in the time that the manager waits for one: two may be late."""
STATUS_CHARACTERS_MAX: Final = 200
"""Longest status. It is shown on one line of a terminal."""


@attrs.define(eq=False)
class ServiceManager:
    """The manager of this process. Without a socket every message is dropped."""

    _socket: socket.socket | None
    _watchdog_seconds: float
    """Longest time that the manager waits for a sign of life. 0 if it waits for none."""
    _status: str = attrs.field(default="", init=False)
    _has_failed: bool = attrs.field(default=False, init=False)

    @classmethod
    def of_environment(cls, environment: Mapping[str, str], pid: int) -> ServiceManager:
        """The manager that the environment names, for the process `pid`.

        A watchdog of another process is none. A socket that cannot be reached is logged and not used.
        """
        address = environment.get("NOTIFY_SOCKET", "")
        if not address:
            return cls(None, 0.0)
        micros = environment.get("WATCHDOG_USEC", "")
        is_ours = environment.get("WATCHDOG_PID", str(pid)) == str(pid)
        watchdog_seconds = int(micros) / 1e6 if micros.isdecimal() and is_ours else 0.0
        sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            sender.setblocking(False)
            sender.connect(f"\0{address[1:]}" if address.startswith("@") else address)
        except (OSError, ValueError) as error:
            sender.close()
            log.warning("the service manager cannot be reached", socket=address, reason=str(error))
            return cls(None, 0.0)
        return cls(sender, watchdog_seconds)

    async def run(self, clock: Clock, not_ready: Callable[[], Sequence[str]]) -> None:
        """Report the node until cancelled; then its end. Returns at once without a manager.

        Args:
            clock: of the process.
            not_ready: reasons why the node does not serve. Empty once it serves.
        """
        if self._socket is None:
            return
        pause = min(STATUS_SECONDS, self._watchdog_seconds / BEATS or STATUS_SECONDS)
        self._send("READY=1")
        try:
            while True:
                missing = "; ".join(not_ready())
                self._tell_status(f"waiting: {missing}" if missing else "ready")
                if self._watchdog_seconds:
                    self._send("WATCHDOG=1")
                await clock.sleep(pause)
        finally:
            self._send("STOPPING=1")
            self._socket.close()

    def _tell_status(self, status: str) -> None:
        line = " ".join(status.split())[:STATUS_CHARACTERS_MAX]
        if line != self._status and self._send(f"STATUS={line}"):
            self._status = line

    def _send(self, message: str) -> bool:
        """Send one message. False if it was dropped."""
        assert self._socket is not None, "`run` returns without one"
        try:
            self._socket.send(message.encode())
        except OSError as error:
            if not self._has_failed:
                log.warning("the service manager does not listen", reason=str(error))
            self._has_failed = True
            return False
        self._has_failed = False
        return True


def service_manager() -> ServiceManager:
    """The manager that started this process."""
    return ServiceManager.of_environment(os.environ, os.getpid())
