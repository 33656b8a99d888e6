"""The service for operators' requests about the database, in tasks of the replica that is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import attrs

from virtuallog.contract.errors import OverloadedError, UnsupportedError
from virtuallog.contract.ports import Done, Handler, Handlers
from virtuallog.contract.types import LogPosition
from virtuallog_database.control import messages
from virtuallog_database.control.messages import (
    Allowed,
    CompareChecksums,
    Compared,
    DatabaseStatus,
    EjectReplica,
    FindAllowedTrim,
    PlaceHold,
    ReleaseHold,
    SetEngine,
    WriteRaw,
)
from virtuallog_database.engines.brain_doctor import BrainDoctorEngine
from virtuallog_database.engines.checksums import ChecksumEngine
from virtuallog_database.engines.core import view
from virtuallog_database.engines.layers.replicated_call import wait_for_done
from virtuallog_database.engines.log_backup import LogBackupEngine
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.view_tracking import ViewTrackingEngine
from virtuallog_database.replica.host import ReplicaIncarnation
from virtuallog_database.replies import reply_with_result
from virtuallog_server.database.status import allowed_trim

REQUESTS_MAX: Final = 32
"""Requests in progress. Operators are few; only a faulty script sends more."""


@attrs.define(eq=False)
class DatabaseAdminService:
    """The handlers, for one life of the replica."""

    _life: ReplicaIncarnation
    _view: ViewTrackingEngine
    _status: Callable[[], DatabaseStatus]
    _requests: int = attrs.field(default=0, init=False)

    @property
    def handlers(self) -> Handlers:
        return {
            FindAllowedTrim: self._working(self._find_allowed),
            PlaceHold: self._working(self._place_hold),
            ReleaseHold: self._working(self._release_hold),
            EjectReplica: self._working(self._eject),
            CompareChecksums: self._working(self._compare),
            WriteRaw: self._working(self._write_raw),
            SetEngine: self._working(self._set_engine),
        }

    def _working(self, work: Callable[[Any], Awaitable[Any]]) -> Handler:
        def handle(request: Any, done: Done) -> None:
            if self._requests >= REQUESTS_MAX:
                done(OverloadedError(f"{REQUESTS_MAX} requests about the database are being answered by this node"))
                return
            self._requests += 1
            self._life.environment.nursery.start_soon(self._answer, work, request, done)

        return handle

    async def _answer(self, work: Callable[[Any], Awaitable[Any]], request: Any, done: Done) -> None:
        try:
            await reply_with_result(work, request, done)
        finally:
            self._requests -= 1

    async def _find_allowed(self, _: FindAllowedTrim) -> Allowed:
        await self._life.replica.sync()
        state = self._life.store
        position = allowed_trim(state, self._view)
        members = [f"replica {name}" for name, member in view.members(state).items() if member.durable <= position]
        holds = [f"hold {name}" for name, hold in view.holds(state).items() if hold.position <= position]
        backups = [LogBackupEngine.name] if position < self._view.trimmable() else []
        lacking = (
            [f"fewer than {self._view.copies} snapshots past it"] if self._view.trimmable() < view.floor(state) else []
        )
        return Allowed(position=position, reasons=(*members, *holds, *backups, *lacking))

    async def _place_hold(self, request: PlaceHold) -> messages.Done:
        await self._view.hold_exactly(request.name, LogPosition(request.position), request.milliseconds / 1000)
        return messages.Done()

    async def _release_hold(self, request: ReleaseHold) -> messages.Done:
        await self._view.release(request.name)
        return messages.Done()

    async def _eject(self, request: EjectReplica) -> messages.Done:
        await self._view.eject(request.name)
        return messages.Done()

    async def _compare(self, _: CompareChecksums) -> Compared:
        return Compared(position=await self._engine(ChecksumEngine).compare())

    async def _write_raw(self, request: WriteRaw) -> messages.Done:
        writes = {write.key: write.value for write in request.writes}
        await wait_for_done(lambda done: self._engine(BrainDoctorEngine).operate(writes, done))
        return messages.Done()

    async def _set_engine(self, request: SetEngine) -> messages.Done:
        rollout = self._engine(RolloutEngine)
        await (rollout.enable(request.name) if request.enabled else rollout.disable(request.name))
        return messages.Done()

    def _engine(self, kind: Any) -> Any:
        found = self._life.replica.stack.find(kind)
        if found is None:
            raise UnsupportedError(f"the replica of this node has no engine {kind.name}")
        return found
