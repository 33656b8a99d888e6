"""Connections of a client's process to the servers of an ensemble, as the kernel lists them."""

from __future__ import annotations

import psutil

from tests.clients.ensembles import Ensemble


def server_of(ensemble: Ensemble, pid: int) -> int:
    """The server that a process is connected to. 0 if it is to none."""
    open_ones = (each for each in psutil.Process(pid).net_connections("tcp") if each.status == psutil.CONN_ESTABLISHED)
    remote = {f"{each.raddr.ip}:{each.raddr.port}" for each in open_ones}
    return next((number for number, address in enumerate(ensemble.addresses, start=1) if address in remote), 0)
