"""A Raft log used by itself, as seen from the process of one of its replicas. `facade.open_log` makes one on a real machine.

    async with open_log("data/1") as log:
        offset = await log.append(b"hello")
        entries = await log.read(0)                       what this replica knows
        entries = await log.read(0, linearizable=True)    all that was acknowledged before

One process is one replica. Any process may append, at any time; the leader orders all. A replica whose store has joined no
log yet serves too: it waits until an operator adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import (
    CorruptionError,
    InvalidSettingError,
    RetryableError,
    StorageError,
    VirtualLogError,
)
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Handlers, NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.config import RaftLimits
from virtuallog_loglets.raft.core.membership import Configuration, MemberKind, RaftMember
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.transitions import RunState
from virtuallog_loglets.raft.drivers.replica_driver import ReplicaDriver
from virtuallog_loglets.raft.drivers.replica_service import RaftService
from virtuallog_loglets.raft.messages import LogMembership, RaftTrim
from virtuallog_loglets.raft.metrics import replica_families
from virtuallog_loglets.raft.standalone import store as stores
from virtuallog_loglets.raft.standalone.client import SEGMENT, LogClient
from virtuallog_loglets.raft.standalone.membership_service import MembershipService
from virtuallog_loglets.raft.standalone.store import StoreIdentity
from virtuallog_loglets.wal import WalSettings

LOOK_SECONDS: Final = 0.05
"""Pause between two looks at the state of the replica."""


async def format_store(
    environment: NodeEnvironment, identity: StoreIdentity, wal_settings: WalSettings, *, founds: bool
) -> None:
    """Format a store: save the state that its replica begins with, then its identity.

    Args:
        environment: that of the store; its nursery is cancelled by the caller afterwards.
        identity: number, log and address, drawn by the caller.
        wal_settings: settings of the write-ahead log.
        founds: True to found the log, with this store as its only voter; False for a store that is to be added to one.

    Raises:
        InvalidSettingError: the directory has been used before; nothing has been done.
        DiskFullError, StorageError, CorruptionError: it cannot be used.
    """
    storage = await environment.storage(stores.DIRECTORY)
    found = await stores.read_identity(storage)
    if found is not None:
        raise InvalidSettingError("directory", f"it is store {found.store} of log '{found.log}' already")
    service = await RaftService.start(environment, wal_settings, set(), RaftLimits())
    if service.drivers:
        raise InvalidSettingError("directory", "it has records and no identity: delete what is left of a former store")
    members = Configuration.unknown()
    if founds:
        members = Configuration(0, {identity.store: RaftMember(MemberKind.VOTER, identity.address)})
    driver = service.host(SEGMENT, ReplicaState.begin(members))
    saved, outcomes = trio.Event(), list[Any]()

    def done(outcome: Any) -> None:
        outcomes.append(outcome)
        saved.set()

    driver.step(RaftTrim(segment=SEGMENT, offset=0), done)  # is answered once all that was written before is durable
    await saved.wait()
    if isinstance(outcomes[0], VirtualLogError):
        raise outcomes[0]
    await stores.write_identity(storage, identity)


@attrs.define(eq=False)
class ReplicatedLog(LogClient):
    """A log as seen from its replica in this process. Made by `start`."""

    identity: StoreIdentity
    driver: ReplicaDriver
    service: RaftService
    """The replica's owner."""
    _membership: MembershipService
    _failure: VirtualLogError | None = attrs.field(default=None, init=False)
    _bug: BaseException | None = attrs.field(default=None, init=False)
    _ended: trio.Event = attrs.field(factory=trio.Event, init=False)

    @classmethod
    async def start(
        cls,
        environment: NodeEnvironment,
        identity: StoreIdentity,
        wal_settings: WalSettings,
        learn: Callable[[NodeId, str], None],
    ) -> ReplicatedLog:
        """Open the replica of a formatted store. On return `handlers` can be served.

        Args:
            environment: that of the store; its nursery owns all tasks of the log.
            identity: that of the store.
            wal_settings: settings of the write-ahead log.
            learn: notes the address of a store, for the services of `environment`.

        Raises:
            CorruptionError, MalformedError, StorageError: the store cannot be used.
        """
        logs: list[ReplicatedLog] = []

        def fail(error: BaseException) -> None:
            for log in logs:
                log.fail(error)

        environment = attrs.evolve(environment, fail=fail)
        service = await RaftService.start(environment, wal_settings, set(), RaftLimits())
        driver = service.drivers.get(SEGMENT)
        if driver is None:
            # Never begun anew: it may have voted, and have acknowledged records.
            raise CorruptionError(f"the records of store {identity.store} are lost: format a new store and add it")
        membership = MembershipService(driver, environment, learn)
        log = cls(environment, learn, (identity.store,), identity, driver, service, membership)
        logs.append(log)
        log._learn_members()
        if driver.replica.state.log.configuration.voters == (identity.store,):
            driver.stand()  # it needs no other vote, and need not wait for a leader
        environment.nursery.start_soon(log._watch_bugs)
        return log

    @property
    def handlers(self) -> Handlers:
        """Handlers of requests from other stores and from clients."""
        return {**self.service.handlers, **self._membership.handlers}

    @property
    def store(self) -> NodeId:
        """Number of the store of this process."""
        return self.identity.store

    @property
    def local(self) -> LogMembership:
        """Members and standing, as the replica in this process has them."""
        return self._membership.membership()

    @property
    def failure(self) -> VirtualLogError | None:
        """Error that has ended this log for good; None while it runs."""
        return self._failure

    async def members(self) -> LogMembership:
        """The members as the replica in this process has them, or those that others told, if it is none."""
        self._check_running()
        self._learn_members()
        return await super().members()

    async def running(self) -> None:
        """Return once this replica is a member and knows that a leader of the present term works.

        Raises:
            VirtualLogError: the log has ended with this error.
        """
        self._check_running()
        while not (self.driver.replica.run_state is RunState.RUNNING and self.local.members):
            await self.environment.clock.sleep(LOOK_SECONDS)
            self._check_running()

    async def ended(self) -> VirtualLogError:
        """Wait until this log has ended and return the error."""
        await self._ended.wait()
        assert self._failure is not None
        return self._failure

    def metrics(self) -> Sequence[MetricFamily]:
        """Metrics of the replica; see `virtuallog.contract.metrics.MetricsSource`."""
        return replica_families(self.service)

    def fail(self, error: BaseException) -> None:
        """End this log: all later calls raise `error`, and its replica stops.

        An error that is no VirtualLogError is a bug, and ends the nursery as well.
        """
        if self._failure is None:
            failure = error if isinstance(error, VirtualLogError) else StorageError(f"a bug: {error!r}")
            # for good: no caller is to try again
            self._failure = StorageError(str(failure)) if isinstance(failure, RetryableError) else failure
            self._bug = None if isinstance(error, VirtualLogError) else error
            self.driver.stop(
                self._failure
            )  # a leader that served no store, and sent heartbeats, would be followed for ever
            self._ended.set()

    def _reader(self) -> NodeId | None:
        return self.store

    def _check_running(self) -> None:
        if self._failure is not None:
            raise copy(self._failure)

    def _learn_members(self) -> None:
        local = self.local
        if local.members and (self.view is None or local.index > self.view.index):
            self._note(local)

    async def _watch_bugs(self) -> None:
        await self._ended.wait()
        if self._bug is not None:
            raise self._bug
