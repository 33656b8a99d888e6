"""Clients of clusters, one for each node to prefer, for the lifetime of a process: processes of
Spark serve many tasks.

Read-only clients leave half-done changes of a chain to the nodes.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final, TypeVar

import trio

from virtuallog.blocking import BlockingLog, connect_blocking
from virtuallog.client.cluster_file import ClusterFile, with_own_certificate
from virtuallog.client.virtual_log import READS_ONLY
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.errors import RetryableError
from virtuallog.contract.types import NodeId
from virtuallog.runtime.clock import SystemClock

ResultT = TypeVar("ResultT")
_PAUSE_SECONDS: Final = 0.5
"""Pause between two tries, each of which waits a second or more by itself."""
_Key = tuple[ClusterFile, int | None, str | None, bool, bool]

_clients: Final[dict[_Key, BlockingLog]] = {}
_open: Final = ExitStack()
atexit.register(_open.close)


def client(
    cluster: ClusterFile,
    near: int | None = None,
    expected: str | None = None,
    *,
    writes: bool = False,
    holds: bool = False,
) -> BlockingLog:
    """The client of this process for a cluster.

    Args:
        cluster: where to look for it; a certificate named in the environment of this process
            replaces its own.
        near: the node to ask first.
        expected: id of the cluster, in hexadecimal digits, if it is known.
        writes: True if it appends, and so may have to find its log a successor.
        holds: True if it asks servers of the database on the log for holds.

    Raises: as `virtuallog.connect.connect`.
    """
    key = (cluster, near, expected, writes, holds)
    if (
        key not in _clients or not _clients[key].is_open
    ):  # a broken client must not fail every later task of the process
        _clients[key] = _open.enter_context(
            connect_blocking(
                with_own_certificate(cluster, os.environ),
                settings=None if writes else READS_ONLY,
                more=_of_databases() if holds else (),
                near=None if near is None else NodeId(near),
                expected_cluster=None if expected is None else bytes.fromhex(expected),
            )
        )
    return _clients[key]


def close_clients() -> None:
    """Close all clients: before a process forks, or continues without the log."""
    _clients.clear()
    _open.close()


def with_retries(seconds: float, call: Callable[[], ResultT]) -> ResultT:
    """Result of `call`, which is repeated after a RetryableError until so many seconds are over.

    Raises:
        RetryableError: the last of them.
    """
    clock = SystemClock()
    deadline = clock.monotonic() + seconds
    while True:
        try:
            return call()
        except RetryableError:
            if clock.monotonic() >= deadline:
                raise
        trio.run(clock.sleep, _PAUSE_SECONDS)


def _of_databases() -> tuple[Interface, ...]:
    from virtuallog_database.control.wire import DATABASE  # tasks do without the database

    return (DATABASE,)
