"""Guard of appends by clients: refused once the log belongs to its members (`Register.guarded`).

    append to a loglet of version s, at a node that knows the register of version k

    s <= k                     decided by that register, at once. A node that does not know yet that the log is guarded from version g on
                               takes the append, so then s <= k < g: the loglet is older than the guard
    s > k                      the register is read first: one read for all appends that wait for it

So an append that any node takes from a client after version g goes to a loglet that stood in the chain before. Sealing the last
segment once (`virtuallog_server.database.ownership`) ends that, however far nodes lag behind: none can serve a loglet of the next
segment to a client without having read a register that has both the segment and the guard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import ForbiddenError, OverloadedError, SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.register import Register

WAITING_MAX: Final = 4096
"""Appends of all clients together that wait until the register is read. More are refused as overload."""
APPEND: Final = "an append to the log of a database"
"""Name of the refused operation, for the client."""

_Decide: TypeAlias = Callable[[VirtualLogError | None], None]


@attrs.define(eq=False)
class AppendGuard:
    """The `virtuallog.rpc.security.permissions.AppendPermission` of one node."""

    _find_log: Callable[[], VirtualLog | None]
    """None if this node knows no register yet."""
    _find_nursery: Callable[[], trio.Nursery]
    """Called once there is a log."""
    _waiting: deque[tuple[Any, Principal, _Decide]] = attrs.field(factory=deque, init=False)
    _is_reading: bool = attrs.field(default=False, init=False)

    def __call__(self, request: Any, caller: Principal, decide: _Decide) -> None:
        """Decide one append (`AppendPermission`)."""
        log = self._find_log()
        if log is None:
            decide(UnavailableError("this node is not part of a cluster yet"))
            return
        register = log.view.cached
        if register is not None and request.segment.version <= register.version:
            decide(_refusal(register, caller))
        elif len(self._waiting) >= WAITING_MAX:
            decide(OverloadedError(f"{WAITING_MAX} appends wait until the register is read"))
        else:
            self._waiting.append((request, caller, decide))
            if not self._is_reading:
                self._is_reading = True
                self._find_nursery().start_soon(self._read, log)

    async def _read(self, log: VirtualLog) -> None:
        """Read the register until no append waits. Appends that arrive during a read wait for the next one."""
        try:
            while self._waiting:
                waiting = [*self._waiting]
                found: Register | UnavailableError
                try:
                    found = await log.view.refresh()
                except VirtualLogError as error:
                    found = UnavailableError(f"the register cannot be read: {error}")
                for request, caller, decide in waiting:
                    self._waiting.popleft()
                    decide(_judge(found, request, caller))
        finally:
            self._is_reading = False


def _judge(register: Register | UnavailableError, request: Any, caller: Principal) -> VirtualLogError | None:
    if isinstance(register, UnavailableError):
        return register
    if request.segment.version > register.version:
        return SealedError(f"segment {request.segment} is not in the chain", refused=True)
    return _refusal(register, caller)


def _refusal(register: Register, caller: Principal) -> VirtualLogError | None:
    return ForbiddenError(APPEND, str(caller), Role.ADMIN.name.lower()) if register.is_guarded else None
