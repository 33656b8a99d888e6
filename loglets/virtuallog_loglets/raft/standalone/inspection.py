"""Records in the directory of a store that no process uses, to look at. Nothing is sent, and no replica runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

from virtuallog.contract.errors import CorruptionError
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.disk import DiskStorage
from virtuallog_loglets.raft.core.records import RaftRecord, parse_untrusted
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.wal_records import DurableReplicas
from virtuallog_loglets.raft.drivers.replica_service import STORAGE
from virtuallog_loglets.raft.provider import RAFT_WAL
from virtuallog_loglets.raft.standalone.client import SEGMENT
from virtuallog_loglets.raft.standalone.facade import read_store
from virtuallog_loglets.raft.standalone.store import StoreIdentity
from virtuallog_loglets.wal import WriteAheadLog


@attrs.frozen
class StoredLog:
    """A store at rest."""

    identity: StoreIdentity
    state: ReplicaState
    """State after a replay. What is committed is known up to what the last record says."""
    _wal: WriteAheadLog

    async def records(self) -> AsyncIterator[RaftRecord]:
        """Yield the records that are left, in order, those that are not committed included.

        Raises:
            CorruptionError, MalformedError: one is damaged.
        """
        log = self.state.log
        for index in range(log.base.index + 1, log.last_index + 1):
            yield parse_untrusted((await self._wal.read(log.address(index))).payload)


@asynccontextmanager
async def open_stored(path: Path | str) -> AsyncIterator[StoredLog]:
    """Open the store in a directory that no process uses.

    Raises:
        InvalidSettingError: it is not formatted, or a process uses it.
        MalformedError, CorruptionError, StorageError: it cannot be read.
    """
    identity, durable = await read_store(path), DurableReplicas()
    with DiskStorage(Path(path, STORAGE)) as storage:
        wal = await WriteAheadLog.open(storage, RAFT_WAL, durable.replay, SystemClock().monotonic)
        state = durable.states.get(SEGMENT)
        if state is None:
            raise CorruptionError(f"the records of store {identity.store} are lost: format a new store and add it")
        yield StoredLog(identity, state, wal)
        await storage.close_files()
