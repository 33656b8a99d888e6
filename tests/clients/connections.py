"""Connections of a client's process to the servers of an ensemble, as the kernel lists them."""

from __future__ import annotations

import psutil

from tests.clients.ensembles import Ensemble


def servers_of(ensemble: Ensemble, pid: int) -> set[int]:
    """The servers that a process is connected to."""
    open_ones = (each for each in psutil.Process(pid).net_connections("tcp") if each.status == psutil.CONN_ESTABLISHED)
    ports = {str(each.raddr.port) for each in open_ones}  # Java's addresses are those of IPv6, ::ffff:127.0.0.1
    return {number for number, address in enumerate(ensemble.addresses, start=1) if address.rpartition(":")[2] in ports}
