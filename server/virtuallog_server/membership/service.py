"""Serves what operators ask about nodes (`virtuallog.admin.membership`), in tasks of the node that is asked.

A drain or a replacement is a *chore*: it goes on when nobody asks any more, there is one for each request at a time, and who asks
the same meanwhile hears how far it is. None of its state matters: it looks at what is decided, here or on another node.
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
"""Being answered at a time on one node. Operators are few; more is a script gone wild."""
OPERATIONS_MAX: Final = 128
"""Under way at a time on one node: a drain and a replacement of each node of the largest cluster."""
REPORT_SECONDS: Final = 2.0
"""How long an operator waits for the end of a chore before it hears how far the chore is: longer than a look at all nodes takes
when one is silent. So an outcome that nobody has heard is found again by the next request, before its time is over."""
EARLY_REPORT_SECONDS: Final = 1.5
EARLY_REPORTS_MAX: Final = 64
"""A refusal that came between two requests of an operator is the answer to the next one, if that comes so soon."""

Work: TypeAlias = Callable[[Callable[[str], None]], Awaitable[Progress]]


@attrs.define(eq=False)
class MembershipOperation:
    """One that is under way, or has just ended."""

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
    """The handlers. `log` raises an UnavailableError that says why as long as there is none."""

    _log: Callable[[], VirtualLog]
    _survey: Survey
    _nursery: Callable[[], trio.Nursery]
    _pace: Pace
    _level: Callable[[], int]
    _check_company: Callable[[NodeId], None]
    """`Residence.check_can_add`."""
    _requests: int = 0
    _chores: dict[DrainNode | ReplaceNode, MembershipOperation] = attrs.field(factory=dict)
    _untold: dict[DrainNode | ReplaceNode, tuple[float, VirtualLogError]] = attrs.field(factory=dict)
    """Refusals that no request has waited for, and when they came."""

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

    # -- short ones -----------------------------------------------------------------------------------------------

    async def _add(self, virtual_log: VirtualLog, request: AddNode) -> ChainChanged:
        self._check_company(request.node)
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

    # -- chores ---------------------------------------------------------------------------------------------------

    async def _drain(self, virtual_log: VirtualLog, request: DrainNode) -> Progress:
        drain = Drain(request.node, virtual_log, self._survey, self._pace, self._level)
        return await drain.check() if request.check else await self._chore(virtual_log, request, drain.run)

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
        return await self._chore(virtual_log, request, replace.run)

    async def _chore(self, virtual_log: VirtualLog, request: DrainNode | ReplaceNode, work: Work) -> Progress:
        clock = virtual_log.view.environment.clock
        came, refusal = self._untold.pop(request, (0.0, None))
        if refusal is not None and clock.monotonic() - came <= EARLY_REPORT_SECONDS:
            raise refusal
        chore = self._chores.get(request)
        if chore is None:
            if len(self._chores) >= OPERATIONS_MAX:
                raise OverloadedError(f"{OPERATIONS_MAX} drains and replacements are under way on this node")
            chore = self._chores[request] = MembershipOperation()
            self._nursery().start_soon(self._do, chore, request, work, clock)
        chore.waiting += 1
        try:
            with clock.timeout(REPORT_SECONDS):
                await chore.ended.wait()
        finally:
            chore.waiting -= 1
        if not chore.ended.is_set():
            return chore.progress
        if isinstance(chore.outcome, VirtualLogError):
            raise chore.outcome
        return chore.outcome

    async def _do(self, chore: MembershipOperation, request: DrainNode | ReplaceNode, work: Work, clock: Clock) -> None:
        try:
            chore.outcome = await work(chore.tell)
        except VirtualLogError as error:
            chore.outcome = error
            if not chore.waiting:
                self._untold[request] = clock.monotonic(), error
                if len(self._untold) > EARLY_REPORTS_MAX:
                    del self._untold[next(iter(self._untold))]
        finally:
            del self._chores[request]
            chore.ended.set()
