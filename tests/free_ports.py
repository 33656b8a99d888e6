"""Ports for real processes under test."""

from __future__ import annotations

import random
import socket
from typing import Final

ATTEMPTS: Final = 1000


def free_ports(count: int = 3) -> int:
    """The first of `count` ports in a row that are free just now, below those of outgoing connections.

    Drawn, as they are bound only later: processes that look at the same moment, with numbers side by side, had better not find
    the same ones.
    """
    for _ in range(ATTEMPTS):
        port = random.randrange(20_000, 32_000)
        if all(_is_free(port + offset) for offset in range(count)):
            return port
    raise AssertionError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
