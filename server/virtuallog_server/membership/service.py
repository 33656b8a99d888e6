"""The service for operators' requests about nodes (`virtuallog.admin.membership`), in tasks of the node that is asked.

A drain or a replacement is a long *operation*: it continues when its client is gone. There is one for each request at a time,
and the same request again returns its progress. None of its state matters: it reads what is decided, here or on another node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import attrs
import trio

from virtuallog.admin.control import ChainChanged
from virtuallog.admin.membership import AddNode, DrainNode, Progress, ReconfigMembers, RemoveNode, ReplaceNode
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import OverloadedError, UnavailableError, VirtualLogError
from virtuallog.contract.ports import Clock, Done, Handler, Handlers
from virtuallog.contract.provider import Pace
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import roles_at
from virtuallog.reconfiguration.core.node_table import Amendment, Expect, Remove
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog_server.membership.cluster_state import Survey, placement_of, user_of
from virtuallog_server.membership.drain import Drain
from virtuallog_server.membership.replace import Replace

REQUESTS_MAX: Final = 32
"""Requests in progress on one node. Operators are few; only a faulty script sends more."""
OPERATIONS_MAX: Final = 128
"""Operations in progress on one node: a drain and a replacement of each node of the largest cluster."""
REPORT_SECONDS: Final = 2.0
"""Seconds for which a request waits for the end of an operation before it returns the progress.

Longer than a round over all nodes takes when one is silent. So an outcome that no request has received is found again by the next
one, before its time is over.
"""
EARLY_REPORT_SECONDS: Final = 1.5
"""Longest age of a refusal that came between two requests of an operator, to be the answer to the next one."""
EARLY_REPORTS_MAX: Final = 64
"""Failures kept for operators who were not waiting when their operation failed. Beyond, the oldest is dropped."""

Work: TypeAlias = Callable[[Callable[[str], None]], Awaitable[Progress]]


@attrs.define(eq=False)
class MembershipOperation:
    """An operation that is in progress, or has just ended."""

    says: str = "beginning"
    outcome: Progress | VirtualLogError = attrs.field(factory=lambda: UnavailableError("this node is stopping"))
    ended: trio.Event = attrs.field(factory=trio.Event)
    waiting: int = 0
    """Requests that wait for its end."""

    def tell(self, says: str) -> None:
        self.says = says

    @property
    def progress(self) -> Progress:
        return Progress(done=False, waits=False, says=self.says)


@attrs.define(eq=False)
class MembershipService:
    """The handlers of the service. `log` raises an UnavailableError with the reason while there is no log."""

    _log: Callable[[], VirtualLog]
    _survey: Survey
    _nursery: Callable[[], trio.Nursery]
    _pace: Pace
    _level: Callable[[], int]
    _check_can_add: Callable[[NodeId], None]
    """`IdentityFence.check_can_add`."""
    _requests: int = 0
    _operations: dict[DrainNode | ReplaceNode, MembershipOperation] = attrs.field(factory=dict)
    _unreported: dict[DrainNode | ReplaceNode, tuple[float, VirtualLogError]] = attrs.field(factory=dict)
    """Refusals that no request has received, with their times."""

    @property
    def handlers(self) -> Handlers:
        return {
            AddNode: self._serving(self._add),
            ReplaceNode: self._serving(self._replace),
            DrainNode: self._serving(self._drain),
            RemoveNode: self._serving(self._remove),
            ReconfigMembers: self._serving(self._reconfig_members),
        }

    def _serving(self, work: Callable[[VirtualLog, Any], Awaitable[Any]]) -> Handler:
        def handle(request: Any, done: Done) -> None:
            if self._requests >= REQUESTS_MAX:
                done(OverloadedError(f"{REQUESTS_MAX} requests about nodes are being answered by this one"))
                return
            try:
                virtual_log = self._log()
            except VirtualLogError as error:
                done(error)
                return
            self._requests += 1
            self._nursery().start_soon(self._answer, work, virtual_log, request, done)

        return handle

    async def _answer(
        self, work: Callable[[VirtualLog, Any], Awaitable[Any]], virtual_log: VirtualLog, request: Any, done: Done
    ) -> None:
        try:
            done(await work(virtual_log, request))
        except VirtualLogError as error:
            done(error)
        finally:
            self._requests -= 1

    async def _add(self, virtual_log: VirtualLog, request: AddNode) -> ChainChanged:
        self._check_can_add(request.node)
        roles = roles_at(self._level(), request.roles)
        expect = Expect(node=request.node, addresses=request.addresses, roles=roles)
        return await self._amend(virtual_log, expect)

    async def _remove(self, virtual_log: VirtualLog, request: RemoveNode) -> ChainChanged:
        is_used, placement = user_of(virtual_log, request.node), placement_of(virtual_log)
        remove = Remove(node=request.node, is_used=is_used, placement=placement)
        return await self._amend(virtual_log, remove)

    async def _reconfig_members(self, virtual_log: VirtualLog, request: ReconfigMembers) -> ChainChanged:
        changed = await virtual_log.reconfig_members(request.members, request.seen or None)
        return ChainChanged(register=changed.encode())

    async def _amend(self, virtual_log: VirtualLog, amendment: Amendment) -> ChainChanged:
        view = virtual_log.view
        changed = view.adopt(await update_node_table(view.metastore, amendment, view.environment.random))
        return ChainChanged(register=changed.encode())

    async def _drain(self, virtual_log: VirtualLog, request: DrainNode) -> Progress:
        drain = Drain(request.node, virtual_log, self._survey, self._pace, self._level)
        return await drain.check() if request.check else await self._operate(virtual_log, request, drain.run)

    async def _replace(self, virtual_log: VirtualLog, request: ReplaceNode) -> Progress:
        replace = Replace(
            node=request.node,
            store_id=request.store_id,
            addresses=request.addresses,
            force=request.force,
            log=virtual_log,
            survey=self._survey,
            pace=self._pace,
            level=self._level,
        )
        return await self._operate(virtual_log, request, replace.run)

    async def _operate(self, virtual_log: VirtualLog, request: DrainNode | ReplaceNode, work: Work) -> Progress:
        clock = virtual_log.view.environment.clock
        came, refusal = self._unreported.pop(request, (0.0, None))
        if refusal is not None and clock.monotonic() - came <= EARLY_REPORT_SECONDS:
            raise refusal
        operation = self._operations.get(request)
        if operation is None:
            if len(self._operations) >= OPERATIONS_MAX:
                raise OverloadedError(f"{OPERATIONS_MAX} drains and replacements are under way on this node")
            operation = self._operations[request] = MembershipOperation()
            self._nursery().start_soon(self._do, operation, request, work, clock)
        operation.waiting += 1
        try:
            with clock.timeout(REPORT_SECONDS):
                await operation.ended.wait()
        finally:
            operation.waiting -= 1
        if not operation.ended.is_set():
            return operation.progress
        if isinstance(operation.outcome, VirtualLogError):
            raise operation.outcome
        return operation.outcome

    async def _do(
        self, operation: MembershipOperation, request: DrainNode | ReplaceNode, work: Work, clock: Clock
    ) -> None:
        try:
            operation.outcome = await work(operation.tell)
        except VirtualLogError as error:
            operation.outcome = error
            if not operation.waiting:
                self._unreported[request] = clock.monotonic(), error
                if len(self._unreported) > EARLY_REPORTS_MAX:
                    del self._unreported[next(iter(self._unreported))]
        finally:
            del self._operations[request]
            operation.ended.set()
