"""The service for questions and changes about the cluster (`virtuallog.admin.control`).

A change of the chain runs in a task of the node: it continues when its client is gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import attrs
import trio

from virtuallog.admin.control import (
    Alive,
    ChainChanged,
    FindTrimPoint,
    GetCondition,
    GetStatus,
    NodeCondition,
    NodeStatus,
    PrefixTrim,
    Probe,
    RebuildSegment,
    ReconfigExtend,
    ReconfigModify,
    ReconfigTruncate,
    SealLog,
    Trimmed,
)
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import OverloadedError, VirtualLogError
from virtuallog.contract.ports import Done, Handler, Handlers
from virtuallog.contract.types import LogletOffset, LogPosition
from virtuallog_server.database.trim_check import check_trim
from virtuallog_server.healing.rebuild import RateLimit, rebuild

CHANGES_MAX: Final = 32
"""Changes of the chain in progress on one node. They wait for each other anyway; only a faulty client starts more."""
QUESTIONS_MAX: Final = 32
"""Questions of clients in progress. They have a limit of their own, so that they do not block the changes of admins."""
_Work: TypeAlias = Callable[[VirtualLog, Any], Awaitable[Any]]


@attrs.define(eq=False)
class _Places:
    """A limited number of places for tasks."""

    limit: int
    what: str
    taken: int = 0


@attrs.define(eq=False)
class ControlService:
    """The handlers of the service. `log` raises an UnavailableError with the reason while there is no log."""

    _status: Callable[[], NodeStatus]
    _alive: Callable[[], Alive]
    _condition: Callable[[], NodeCondition]
    _log: Callable[[], VirtualLog]
    _nursery: Callable[[], trio.Nursery]
    _pace: RateLimit
    _level: Callable[[], int]
    """The version of the protocol that all nodes of the cluster can read."""
    _changes: _Places = attrs.field(factory=lambda: _Places(CHANGES_MAX, "changes of the chain"), init=False)
    _questions: _Places = attrs.field(factory=lambda: _Places(QUESTIONS_MAX, "questions of clients"), init=False)

    @property
    def handlers(self) -> Handlers:
        return {
            GetStatus: self._get_status,
            Probe: self._probe,
            GetCondition: self._get_condition,
            ReconfigExtend: self._changing(self._extend),
            ReconfigTruncate: self._changing(self._truncate),
            ReconfigModify: self._changing(self._modify),
            SealLog: self._changing(self._seal),
            PrefixTrim: self._changing(self._trim),
            FindTrimPoint: self._working(self._find_trim_point, self._questions),
            RebuildSegment: self._changing(self._rebuild),
        }

    def _get_status(self, _: GetStatus, done: Done) -> None:
        done(self._status())

    def _probe(self, _: Probe, done: Done) -> None:
        done(self._alive())

    def _get_condition(self, _: GetCondition, done: Done) -> None:
        done(self._condition())

    def _changing(self, work: _Work) -> Handler:
        return self._working(work, self._changes)

    def _working(self, work: _Work, places: _Places) -> Handler:
        def handle(request: Any, done: Done) -> None:
            if places.taken >= places.limit:
                done(OverloadedError(f"{places.limit} {places.what} are in progress on this node"))
                return
            try:
                virtual_log = self._log()
            except VirtualLogError as error:
                done(error)
                return
            places.taken += 1
            self._nursery().start_soon(self._run, work, places, virtual_log, request, done)

        return handle

    async def _run(self, work: _Work, places: _Places, virtual_log: VirtualLog, request: Any, done: Done) -> None:
        try:
            done(await work(virtual_log, request))
        except VirtualLogError as error:
            done(error)
        finally:
            places.taken -= 1

    async def _extend(self, virtual_log: VirtualLog, request: ReconfigExtend) -> ChainChanged:
        settings = {setting.name: setting.value for setting in request.settings}
        return ChainChanged(register=(await virtual_log.reconfig_extend(request.kind, settings)).encode())

    async def _truncate(self, virtual_log: VirtualLog, _: ReconfigTruncate) -> ChainChanged:
        return ChainChanged(register=(await virtual_log.reconfig_truncate()).encode())

    async def _modify(self, virtual_log: VirtualLog, request: ReconfigModify) -> ChainChanged:
        changed = await virtual_log.reconfig_modify(
            request.segment, request.kind, request.config, LogletOffset(request.base)
        )
        return ChainChanged(register=changed.encode())

    async def _seal(self, virtual_log: VirtualLog, _: SealLog) -> ChainChanged:
        return ChainChanged(register=(await virtual_log.seal()).encode())

    async def _find_trim_point(self, virtual_log: VirtualLog, _: FindTrimPoint) -> Trimmed:
        return Trimmed(position=await virtual_log.find_trim_point())

    async def _trim(self, virtual_log: VirtualLog, request: PrefixTrim) -> Trimmed:
        position = LogPosition(request.position)
        if not request.force:
            await check_trim(virtual_log, position)
        return Trimmed(position=await virtual_log.prefix_trim(position))

    async def _rebuild(self, virtual_log: VirtualLog, request: RebuildSegment) -> ChainChanged:
        changed = await rebuild(virtual_log, request.segment, request.servers, self._pace, self._level)
        return ChainChanged(register=changed.encode())
