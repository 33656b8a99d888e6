"""Routes with the role that each needs, in groups that an application is assembled from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs
from starlette.requests import Request
from starlette.responses import Response

from virtuallog.contract.caller_roles import Role
from virtuallog_console.access.core.caller import Caller
from virtuallog_server.process.console.http_connections import HttpConnection

REQUEST_SECONDS: Final = 30.0
"""Longest duration of a request, its body and its answer included. An append that takes longer has an unknown outcome."""


@attrs.frozen(kw_only=True)
class ConsoleRequest:
    """A request that access has let through."""

    http: Request
    """Its head. Do not read the body from it."""
    caller: Caller
    connection: HttpConnection
    body: bytes = b""
    """The whole body, at most `ConsoleRoute.body_bytes`."""
    media_type: str = ""
    """Media type of the body, in lower case and without parameters. Empty if there is no body."""


Endpoint: TypeAlias = Callable[[ConsoleRequest], Awaitable[Response]]
"""Answers a request. Raises ProblemError for answers that are problems."""


@attrs.frozen(kw_only=True)
class Parameter:
    """A parameter of a route, for its description."""

    name: str
    description: str
    schema: Mapping[str, Any] = attrs.field(factory=lambda: {"type": "integer", "minimum": 0})
    place: str = "query"
    """`query`, `path` or `header`."""


@attrs.frozen(kw_only=True)
class ConsoleRoute:
    """One method of one path."""

    method: str
    """GET, which serves HEAD as well unless `is_stream`, or POST."""
    path: str
    """Path of Starlette, with `{name}` for a part that is a parameter."""
    endpoint: Endpoint
    role: Role
    """Least role that may call it. Access refuses others before the endpoint runs."""
    summary: str
    """One line for the description of the API, and for refusals."""
    seconds: float = REQUEST_SECONDS
    """Longest duration."""
    media_types: tuple[str, ...] = ()
    """Media types of bodies that it takes. Empty if it takes no body."""
    body_bytes: int = 0
    """Most bytes of a body."""
    acts: bool = False
    """True for a route that changes the cluster: access refuses it unless `AccessPolicy.actions`."""
    is_stream: bool = False
    """True for an answer that stays open. It counts among the streams, and its origin is checked."""
    parameters: tuple[Parameter, ...] = ()
    answers: Mapping[int, str] = attrs.field(factory=dict)
    """Statuses that the endpoint answers with, and what each means. Those of access are the same for all routes."""


@attrs.frozen
class RouteGroup:
    """Routes that belong together, such as the door or the pages."""

    name: str
    routes: Sequence[ConsoleRoute]
