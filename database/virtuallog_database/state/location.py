"""Locations of states, as commands and examples name them.

cluster:FILE                                        the database of a cluster: its cluster.toml
rocks:DIR                                           a directory of this machine
zookeeper:HOST:PORT,HOST:PORT/ROOT                  znodes below /ROOT of any ZooKeeper
paxos-log:DIR?quorum=2&node=1&peers=1@HOST:PORT,... Mesos' replicated log by itself: a replica of it runs meanwhile
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_database.state.records import PackedRecords, RecordStorage, WatchesRecords
from virtuallog_database.state.storage import StateStorage

KINDS: Final = ("cluster", "rocks", "zookeeper", "paxos-log")
_LOG_SETTINGS: Final = {"quorum": int, "node": int, "peers": lambda text: text.split(","), "name": str,
                        "auto_initialize": lambda text: text in ("yes", "true", "1")}  # fmt: skip


@asynccontextmanager
async def open_storage(location: str) -> AsyncIterator[StateStorage]:
    """Open the storage of a location while the block runs.

    Raises:
        InvalidSettingError: not a location.
        VirtualLogError: the storage cannot be opened.
    """
    kind, colon, rest = location.partition(":")
    if kind not in KINDS or not colon or not rest:
        raise InvalidSettingError("storage", f"'{location}' is not one of {', '.join(f'{each}:...' for each in KINDS)}")
    opened = {"cluster": _cluster, "rocks": _rocks, "zookeeper": _zookeeper, "paxos-log": _paxos_log}[kind]
    async with opened(rest) as storage:
        yield storage


def records_of(storage: StateStorage) -> RecordStorage:
    """The records of a storage: its own, or those in its values."""
    return (
        storage
        if isinstance(storage, RecordStorage) and isinstance(storage, WatchesRecords)
        else PackedRecords(storage)
    )


@asynccontextmanager
async def _cluster(file: str) -> AsyncIterator[StateStorage]:
    from virtuallog_database.client.passive_replica import open_replica

    with tempfile.TemporaryDirectory(prefix="virtuallog-state-") as folder:
        async with open_replica(file, folder) as client:
            yield client.variables


@asynccontextmanager
async def _rocks(folder: str) -> AsyncIterator[StateStorage]:
    from virtuallog_database.state.storages.rocks import open_rocks_storage

    async with open_rocks_storage(folder) as storage:
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
async def _paxos_log(place: str) -> AsyncIterator[StateStorage]:
    from virtuallog_database.state.storages.replicated_log import ReplicatedLogStorage
    from virtuallog_loglets.paxos.standalone.facade import open_log

    folder, _, query = place.partition("?")
    settings: dict[str, Any] = {}
    try:
        for name, text in parse_qsl(query, strict_parsing=bool(query)):
            settings[name] = _LOG_SETTINGS[name](text)  # type: ignore[operator]
    except (KeyError, ValueError) as error:
        raise InvalidSettingError(
            "storage", f"'paxos-log:{place}': {error}; there are {', '.join(_LOG_SETTINGS)}"
        ) from error
    if "quorum" not in settings:
        raise InvalidSettingError("storage", f"'paxos-log:{place}' has no quorum: paxos-log:DIR?quorum=1")
    async with open_log(Path(folder), **settings) as log:
        yield ReplicatedLogStorage(log)
