"""Requests about the members of a log, at one of its replicas.

A leader asks a newcomer who it is before it adds it: a store that was removed, or has joined a log already, is refused.
When a removal is committed, the leader tells the removed store. One that cannot be reached then learns of it once it asks
for votes: the members refuse, and say that it was removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from virtuallog.contract.errors import (
    InvalidSettingError,
    OverloadedError,
    UnavailableError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.ports import Done, Handlers, NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.drivers.replica_driver import ReplicaDriver
from virtuallog_loglets.raft.messages import (
    NO_MEMBER,
    NOWHERE,
    ChangeLogMember,
    GetLogMembership,
    LeaderReply,
    LogMemberEntry,
    LogMembership,
    RetireReplica,
    TransferLogLeadership,
)

ASK_SECONDS: Final = 2.0
"""Timeout of the question to a newcomer, and of one attempt to tell a removed store, in seconds."""
TELL_ATTEMPTS: Final = 10
"""Attempts to tell a removed store: some seconds, in which a process may have been restarted."""
TELL_PAUSE_SECONDS: Final = 0.5
"""Pause between two of these attempts, in seconds."""
CHANGES_MAX: Final = 16
"""Most changes of the members that wait for a newcomer's answer. One at a time can be made."""


@attrs.define(eq=False)
class MembershipService:
    """Requests about members at one replica."""

    _driver: ReplicaDriver
    _environment: NodeEnvironment
    _learn: Callable[[NodeId, str], None]
    """Notes the address of a store."""
    _waiting: int = attrs.field(default=0, init=False)

    @property
    def handlers(self) -> Handlers:
        return {
            GetLogMembership: lambda _, done: done(self.membership()),
            ChangeLogMember: self._change,
            TransferLogLeadership: self._driver.step,
            RetireReplica: self._driver.step,
        }

    def membership(self) -> LogMembership:
        """Members and standing, as this replica has them."""
        replica, state = self._driver.replica, self._driver.replica.state
        configuration = state.log.configuration
        members = tuple(
            LogMemberEntry(store=store, kind=int(member.kind), address=member.address)
            for store, member in sorted(configuration.members.items())
        )
        return LogMembership(
            store=replica.node,
            index=configuration.index,
            members=members,
            removed=state.is_removed,
            standing=self._driver.standing,
        )

    def _change(self, request: ChangeLogMember, done: Done) -> None:
        if self._driver.replica.leading is None:
            self._driver.step(request, done)
        elif request.kind == NO_MEMBER:
            self._remove(request, done)
        elif self._waiting >= CHANGES_MAX:
            done(OverloadedError(f"{CHANGES_MAX} newcomers are being asked already"))
        else:
            self._waiting += 1
            self._environment.nursery.start_soon(self._add, request, done)

    async def _add(self, request: ChangeLogMember, done: Done) -> None:
        """Add a member, after it has said who it is."""
        try:
            if request.store not in self._driver.replica.state.log.configuration.members:
                self._learn(request.store, request.address)
                await self._check_newcomer(request)
        except VirtualLogError as error:
            done(error)
            return
        finally:
            self._waiting -= 1
        self._driver.step(request, done)

    async def _check_newcomer(self, request: ChangeLogMember) -> None:
        question = GetLogMembership(segment=request.segment)
        try:
            found = await self._environment.services.call(request.store, question, ASK_SECONDS)
        except (UnavailableError, WrongRecipientError) as error:
            # Not as it came: a client would take it for a leader that does not answer, and ask other replicas.
            reason = f"store {request.store} does not answer at {request.address}: {error}"
            raise InvalidSettingError("members", reason) from error
        if found.removed:
            raise InvalidSettingError("members", f"store {request.store} was removed from a log: format a new one")
        if found.members or found.standing.last_index:
            raise InvalidSettingError("members", f"store {request.store} has joined a log already: format a new one")

    def _remove(self, request: ChangeLogMember, done: Done) -> None:
        state = self._driver.replica.state

        def removed(outcome: Any) -> None:
            if isinstance(outcome, LeaderReply) and outcome.place != NOWHERE:
                index = state.log.configuration_at(state.commit).index
                told = RetireReplica(segment=request.segment, index=index)
                self._environment.nursery.start_soon(self._tell, request.store, told)
            done(outcome)

        self._driver.step(request, removed)

    async def _tell(self, store: NodeId, told: RetireReplica) -> None:
        for _ in range(TELL_ATTEMPTS):
            try:
                await self._environment.services.call(store, told, ASK_SECONDS)
            except UnavailableError:
                await self._environment.clock.sleep(TELL_PAUSE_SECONDS)
            except VirtualLogError:  # another store is there: the one that was meant is gone
                return
            else:
                return
