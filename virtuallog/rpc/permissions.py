"""What a caller may call.                                                                                        Pure.

Each method says which role it takes. Without TLS nobody can tell who calls, and only this machine can; then all is
allowed. The choice is made once per connection, by giving it handlers of its own: a call costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

from virtuallog.errors import ForbiddenError
from virtuallog.ports import Done, Handler, Handlers
from virtuallog.rpc.interface import Interface, Method
from virtuallog.rpc.roles import Principal, Role


@attrs.frozen(eq=False)
class Permissions:
    """The table for some interfaces."""

    table: tuple[tuple[Method, Role], ...]
    """Each method with the least role that may call it."""

    @classmethod
    def of(cls, interfaces: Iterable[Interface]) -> Permissions:
        return cls(
            tuple((method, interface.role_of(method)) for interface in interfaces for method in interface.methods)
        )

    def narrow(self, handlers: Handlers, caller: Principal, on_refused: Callable[[ForbiddenError], None]) -> Handlers:
        """What `caller` gets of `handlers`.

        Args:
            handlers: of everything.
            caller: whose certificate was verified.
            on_refused: told of each call that he may not make; must not raise.
        """
        if caller.role is Role.NODE:
            return handlers
        narrowed = dict(handlers)
        for method, role in self.table:
            if caller.role < role:
                narrowed[method.request] = _refuse(method, role, caller, on_refused)
            elif method.distrusted and caller.role is Role.CLIENT and method.request in handlers:
                narrowed[method.request] = _without_hints(handlers[method.request], method)
        return narrowed


def _refuse(method: Method, role: Role, caller: Principal, on_refused: Callable[[ForbiddenError], None]) -> Handler:
    def refuse(_: Any, done: Done) -> None:
        error = ForbiddenError(method.request.__name__, str(caller), role.name.lower())
        on_refused(error)
        done(error)

    return refuse


def _without_hints(handler: Handler, method: Method) -> Handler:
    def handle(request: Any, done: Done) -> None:
        handler(attrs.evolve(request, **method.distrusted), done)

    return handle
