"""Locations of states, as commands and examples name them.

cluster:FILE                                        the database of a cluster: its cluster.toml
rocks:DIR                                           a directory of this machine
zookeeper:HOST:PORT,HOST:PORT/ROOT                  znodes below /ROOT of any ZooKeeper
paxos-log:DIR?quorum=2&node=1&peers=1@HOST:PORT,... Mesos' replicated log by itself: a replica of it runs meanwhile
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from virtuallog.contract.errors import InvalidSettingError, UnavailableError, VirtualLogError
from virtuallog.runtime.clock import SystemClock
from virtuallog_database.state.records import PackedRecords, RecordStorage, WatchesRecords
from virtuallog_database.state.storage import StateStorage

FoundT = TypeVar("FoundT")

KINDS: Final = ("cluster", "rocks", "zookeeper", "paxos-log")
OPEN_SECONDS: Final = 60.0
"""Longest time to open the database of a cluster: to find a majority, to fetch a snapshot and to play what follows it."""


def _flag(text: str) -> bool:
    flags = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    if text not in flags:
        raise ValueError(f"'{text}' is neither yes nor no")
    return flags[text]


_LOG_SETTINGS: Final = {"quorum": int, "node": int, "peers": lambda text: text.split(","), "name": str,
                        "auto_initialize": _flag}  # fmt: skip


@asynccontextmanager
async def open_storage(
    location: str, *, create: bool = True, open_seconds: float = OPEN_SECONDS
) -> AsyncIterator[StateStorage]:
    """Open the storage of a location while the block runs.

    Args:
        location: see `virtuallog_database.state.location`.
        create: make the store of a directory if it is missing. False: refuse it; for programs that only read.
        open_seconds: longest time to open the database of a cluster.

    Raises:
        InvalidSettingError: not a location, or a directory of something else, or without a store where `create` is False.
        UnavailableError: the database of a cluster was not there within `open_seconds`.
        VirtualLogError: the storage cannot be opened.
    """
    kind, colon, rest = location.partition(":")
    if kind not in KINDS or not colon or not rest:
        raise InvalidSettingError("storage", f"'{location}' is not one of {', '.join(f'{each}:...' for each in KINDS)}")
    opened: dict[str, Callable[[], AbstractAsyncContextManager[StateStorage]]] = {
        "cluster": partial(_cluster, rest, open_seconds),
        "rocks": partial(_rocks, rest, create),
        "zookeeper": partial(_zookeeper, rest),
        "paxos-log": partial(_paxos_log, rest, create),
    }
    async with opened[kind]() as storage:
        yield storage


def records_of(storage: StateStorage) -> RecordStorage:
    """The records of a storage: its own, or those in its values."""
    return (
        storage
        if isinstance(storage, RecordStorage) and isinstance(storage, WatchesRecords)
        else PackedRecords(storage)
    )


@asynccontextmanager
async def open_within(
    manager: AbstractAsyncContextManager[FoundT], seconds: float, missing: Callable[[], Awaitable[str]]
) -> AsyncIterator[FoundT]:
    """Enter a context manager before a deadline, which does not hold for the block.

    Raises:
        UnavailableError: not entered in time; its reason is what `missing` tells then.
    """
    is_open = False
    with SystemClock().timeout(seconds) as scope:  # around the block too: it must not end within the manager's nursery
        async with manager as found:
            scope.deadline, is_open = float("inf"), True
            yield found
    if scope.cancelled_caught and not is_open:
        raise UnavailableError(f"not open within {seconds:g} s: {await missing()}")


@asynccontextmanager
async def _cluster(file: str, open_seconds: float) -> AsyncIterator[StateStorage]:
    from virtuallog_database.client.passive_replica import open_replica

    with tempfile.TemporaryDirectory(prefix="virtuallog-state-") as folder:
        async with open_within(open_replica(file, folder), open_seconds, partial(_missing, file)) as client:
            yield client.variables


async def _missing(file: str) -> str:
    """Reason why the database of a cluster is not open, as far as its nodes tell."""
    from virtuallog.admin.cluster_status import fetch_statuses
    from virtuallog.client.cluster_file import read_cluster_file
    from virtuallog.node_services import listed_nodes, open_services_to

    cluster = read_cluster_file(Path(file))
    async with open_services_to(cluster) as services:
        answers = await fetch_statuses(services, listed_nodes(cluster))
    silent = [f"{node}" for node, answer in answers.items() if isinstance(answer, VirtualLogError)]
    if silent:
        return f"of the nodes of {file} no answer comes from {', '.join(silent)}; a majority must run"
    return f"all nodes of {file} answer; see `virtuallog explain`, or allow more time to read its log"


@asynccontextmanager
async def _rocks(folder: str, create: bool) -> AsyncIterator[StateStorage]:
    from virtuallog_database.state.storages.rocks import open_rocks_storage

    async with open_rocks_storage(folder, create=create) as storage:
        yield storage


@asynccontextmanager
async def _zookeeper(place: str) -> AsyncIterator[StateStorage]:
    from virtuallog_database.state.storages.zookeeper import open_zookeeper_storage

    hosts, slash, root = place.partition("/")
    if not slash or not root:
        raise InvalidSettingError("storage", f"'zookeeper:{place}' has no root: zookeeper:HOST:PORT/ROOT")
    async with open_zookeeper_storage(hosts, f"/{root}") as storage:
        yield storage


@asynccontextmanager
async def _paxos_log(place: str, create: bool) -> AsyncIterator[StateStorage]:
    from virtuallog.runtime.rocks_map import has_store
    from virtuallog_database.state.storages.replicated_log import ReplicatedLogStorage
    from virtuallog_loglets.paxos.drivers.store_incarnation import STORE
    from virtuallog_loglets.paxos.standalone.facade import open_log

    folder, _, query = place.partition("?")
    settings: dict[str, Any] = {}
    try:
        for name, text in parse_qsl(query, strict_parsing=bool(query), keep_blank_values=True):
            settings[name] = _LOG_SETTINGS[name](text)  # type: ignore[operator]
    except (KeyError, ValueError) as error:
        raise InvalidSettingError(
            "storage", f"'paxos-log:{place}': {error}; there are {', '.join(_LOG_SETTINGS)}"
        ) from error
    if "quorum" not in settings:
        raise InvalidSettingError("storage", f"'paxos-log:{place}' has no quorum: paxos-log:DIR?quorum=1")
    if not create and not has_store(Path(folder) / STORE):
        raise InvalidSettingError("storage", f"'{folder}' has no replica of a log")
    async with open_log(Path(folder), **settings) as log:
        yield ReplicatedLogStorage(log)
