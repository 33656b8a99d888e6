"""Ports for real processes under test."""

from __future__ import annotations

import os
import socket


def free_ports(count: int = 3) -> int:
    """The first of `count` ports in a row that are free just now; processes start at different ones."""
    for port in range(20_000 + os.getpid() % 10_000, 30_000 + 20_000, count):
        try:
            for offset in range(count):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port + offset))
        except OSError:
            continue
        return port
    raise AssertionError("no free ports")
