"""Permissions of callers: the handlers that each role may call.

Each method declares its role. Without TLS callers have no identity, and only this machine can call;
then all is allowed. The choice is made once per connection, by giving it handlers of its own: a
call costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import attrs

from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.errors import ForbiddenError, VirtualLogError
from virtuallog.contract.ports import Done, Handler, Handlers

AppendPermission: TypeAlias = Callable[[Any, Principal, Callable[[VirtualLogError | None], None]], None]
"""Decides about one append of a client.

Gets the request, its caller, and a function to call, now or later: with None if the client may
append to the loglet that the request names, else with the error to answer. Bounded, and in the
order of the calls where it can.
"""


def allow(_: Any, __: Principal, decide: Callable[[VirtualLogError | None], None]) -> None:
    """Allow every append: the `AppendPermission` of a log that clients append to."""
    decide(None)


@attrs.frozen(eq=False)
class Permissions:
    """Methods and their roles for some interfaces."""

    table: tuple[tuple[Method, Role], ...]
    """Each method with the least role that may call it."""

    @classmethod
    def of(cls, interfaces: Iterable[Interface]) -> Permissions:
        return cls(
            tuple((method, interface.role_of(method)) for interface in interfaces for method in interface.methods)
        )

    def narrow(
        self,
        handlers: Handlers,
        caller: Principal,
        on_refused: Callable[[ForbiddenError], None],
        guard: AppendPermission = allow,
    ) -> Handlers:
        """Return the handlers that `caller` may call.

        Args:
            handlers: all handlers.
            caller: owner of the verified certificate.
            on_refused: called for each refused call; must not raise.
            guard: decides about each append, if the caller is a client.
        """
        if caller.role is Role.NODE:
            return handlers
        narrowed = dict(handlers)
        for method, role in self.table:
            if caller.role < role:
                narrowed[method.request] = _refuse(method, role, caller, on_refused)
            elif method.distrusted and caller.role is Role.CLIENT and method.request in handlers:
                narrowed[method.request] = _without_hints(handlers[method.request], method)
            if method.appends and role <= caller.role < Role.ADMIN and method.request in handlers:
                narrowed[method.request] = _guarded(narrowed[method.request], caller, guard, on_refused)
        return narrowed


def _refuse(method: Method, role: Role, caller: Principal, on_refused: Callable[[ForbiddenError], None]) -> Handler:
    def refuse(_: Any, done: Done) -> None:
        error = ForbiddenError(method.title, str(caller), role.name.lower())
        on_refused(error)
        done(error)

    return refuse


def _without_hints(handler: Handler, method: Method) -> Handler:
    def handle(request: Any, done: Done) -> None:
        handler(attrs.evolve(request, **method.distrusted), done)

    return handle


def _guarded(
    handler: Handler, caller: Principal, guard: AppendPermission, on_refused: Callable[[ForbiddenError], None]
) -> Handler:
    def handle(request: Any, done: Done) -> None:
        def decide(refusal: VirtualLogError | None) -> None:
            if refusal is None:
                handler(request, done)
                return
            if isinstance(refusal, ForbiddenError):
                on_refused(refusal)
            done(refusal)

        guard(request, caller, decide)

    return handle
