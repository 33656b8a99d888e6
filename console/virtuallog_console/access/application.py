"""The application of a console: every check, then the route.

Checks go from the connection inward: the name that was called, the caller, the path, the method, the origin, the role, the head of the
body, what is under way. The first that fails answers, with a problem, and no code of the route has run. A problem is a page for clients that
prefer HTML, as browsers do, and JSON for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import attrs
import trio
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from virtuallog.contract import metrics
from virtuallog.contract.metrics import MetricFamily
from virtuallog.contract.ports import Clock
from virtuallog.runtime import log
from virtuallog_console.access.admission import Admission
from virtuallog_console.access.core.caller import RequestFacts
from virtuallog_console.access.core.media_preference import prefers_html
from virtuallog_console.access.core.policy import SAFE_METHODS, AccessPolicy
from virtuallog_console.access.core.problem import Problem, ProblemError
from virtuallog_console.access.request_body import (
    DisconnectedError,
    IncomingBody,
    check_head,
    drain_body,
    has_body,
    read_body,
)
from virtuallog_console.access.routes import ConsoleRequest, ConsoleRoute, RouteGroup
from virtuallog_server.process.console.http_connections import CONNECTION, HttpConnection

REFUSAL_SECONDS: Final = 10.0
"""Seconds to send a refusal."""
SLICE_BYTES: Final = 64 << 10
"""Bytes that are sent at a time: HTTP and TLS make copies of what a connection has yet to take."""
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer browsers send the forms of our own pages with `Origin: null`
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer."""
_CLASSES: Final = ("2xx", "3xx", "4xx", "5xx")
NO_STORE: Final = "no-store"
"""`Cache-Control` of every answer that does not set its own: what the log holds stays out of caches."""


@attrs.frozen
class _Placed:
    """A route, and the matcher of its path."""

    route: ConsoleRoute
    path: Route


class ConsoleApplication:
    """An ASGI application for `HttpConnections`, made of groups of routes."""

    def __init__(
        self,
        groups: Sequence[RouteGroup],
        policy: AccessPolicy,
        clock: Clock,
        admission: Admission | None = None,
        problem_page: Callable[[Problem], str] | None = None,
    ) -> None:
        """Serve the routes of all groups; of two that match a path the first one is served.

        Args:
            groups: the groups.
            policy: says who may do what.
            clock: clock of all times.
            admission: bounds what is under way. None: with the defaults.
            problem_page: makes the page of a problem. None: problems are JSON for all clients.
        """
        self._problem_page = problem_page
        self._requests = metrics.Counters.of(
            "virtuallog_console_requests_total", "Answers that have begun, by class of status.", "status", _CLASSES
        )
        self._problems = metrics.Counters(
            "virtuallog_console_problems_total", "Requests that a problem has ended, by its kind.", ("kind",)
        )
        self._policy = policy
        self._clock = clock
        self.admission = admission or Admission()
        self._placed = [
            _Placed(route, Route(route.path, _unused, methods=[route.method]))
            for group in groups
            for route in group.routes
        ]

    @property
    def routes(self) -> Sequence[ConsoleRoute]:
        """All routes, in the order in which they are looked for."""
        return [placed.route for placed in self._placed]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close"})
        elif scope["type"] == "http":
            answer, body = (
                _Answer(send, self._requests),
                IncomingBody(receive, is_whole=not has_body(Headers(scope=scope))),
            )
            try:
                await self._serve(scope, body, answer)
            except ProblemError as error:
                await self._refuse(error.problem, scope, body, answer)
            except DisconnectedError:
                pass
            except Exception:
                log.exception("a request failed", path=scope["path"][:200])
                await self._refuse(_FAILED, scope, body, answer)

    async def _serve(self, scope: Scope, incoming: IncomingBody, answer: _Answer) -> None:
        headers = Headers(scope=scope)
        connection: HttpConnection = scope["state"][CONNECTION]
        facts = self._facts(scope["method"], headers, connection)
        self._policy.check_host(facts)
        caller = self._policy.identify(facts)
        placed, inner = self._find(scope)
        route = placed.route
        self._policy.check_origin(facts, always=route.is_stream)
        self._policy.check_role(caller, route.role, f"{route.method} {route.path}", acts=route.acts)
        media_type = check_head(headers, route)
        with (
            self.admission.admit(caller, is_stream=route.is_stream) as allowance,
            connection.hold(route.seconds),
            self._clock.timeout(route.seconds) as limit,
        ):
            body = await read_body(headers, incoming.receive, route, allowance) if route.media_types else b""
            scope = {**scope, **inner}
            request = ConsoleRequest(
                http=Request(scope), caller=caller, connection=connection, body=body, media_type=media_type
            )
            response = await route.endpoint(request)
            if route.method in SAFE_METHODS:  # a change is done, and its answer is short
                allowance.grow(len(getattr(response, "body", b"")))
            await response(scope, incoming.receive, answer.send)
        if limit.cancelled_caught:
            raise ProblemError(_too_slow(route) if incoming.is_whole else _body_too_slow(route))

    def _facts(self, method: str, headers: Headers, connection: HttpConnection) -> RequestFacts:
        return RequestFacts(
            method=method,
            address=connection.address,
            peer=connection.peer,
            hosts=tuple(headers.getlist("host")),
            origins=tuple(headers.getlist("origin")),
            sites=tuple(headers.getlist("sec-fetch-site")),
            users=tuple(headers.getlist(self._policy.proxy_header)),
        )

    def _find(self, scope: Scope) -> tuple[_Placed, Any]:
        """The route, and what its path adds to the scope."""
        allowed: set[str] = set()
        for placed in self._placed:
            match, inner = placed.path.matches(scope)
            if match is Match.NONE:
                continue
            if match is Match.FULL and not (scope["method"] == "HEAD" and placed.route.is_stream):
                return placed, inner
            allowed |= {placed.route.method} | ({"HEAD"} if _serves_head(placed.route) else set())
        if allowed:
            raise ProblemError(_wrong_method(scope["method"], sorted(allowed)))
        raise ProblemError(_NOT_FOUND)

    def metrics(self) -> Sequence[MetricFamily]:
        """Requests, problems, and what is under way."""
        return [self._requests.family(), self._problems.family(), *self.admission.metrics()]

    def _problem_answer(self, problem: Problem, headers: Headers) -> Response:
        if self._problem_page is not None and prefers_html(headers.getlist("accept")):
            return HTMLResponse(self._problem_page(problem), problem.status, dict(problem.headers))
        return JSONResponse(
            problem.plain(), problem.status, dict(problem.headers), media_type="application/problem+json"
        )

    async def _refuse(self, problem: Problem, scope: Scope, incoming: IncomingBody, answer: _Answer) -> None:
        """Answer with a problem, unless an answer has begun: then the connection ends in the middle of it, which clients notice."""
        self._problems.add(problem.kind)
        if answer.has_begun:
            return
        response = self._problem_answer(problem, Headers(scope=scope))
        drains = not incoming.is_whole
        if drains:
            response.headers["connection"] = "close"
        with self._clock.timeout(REFUSAL_SECONDS):
            await answer.send(
                {"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers}
            )
            await answer.send({"type": "http.response.body", "body": response.body, "more_body": drains})
            if drains:
                await drain_body(incoming, self._clock)
                await answer.send({"type": "http.response.body", "body": b"", "more_body": False})


@attrs.define(eq=False)
class _Answer:
    """The answer to one request, with the headers that every answer has."""

    _send: Send
    _counted: metrics.Counters
    has_begun: bool = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_begun = True
            self._counted.add(f"{message['status'] // 100}xx")
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", NO_STORE)
        body = message.get("body", b"")
        if len(body) <= SLICE_BYTES:
            await self._send(message)
            return
        more = message.get("more_body", False)
        for start in range(0, len(body), SLICE_BYTES):
            part = body[start : start + SLICE_BYTES]
            is_last = start + SLICE_BYTES >= len(body)
            await self._send({"type": message["type"], "body": part, "more_body": more or not is_last})


def _serves_head(route: ConsoleRoute) -> bool:
    return route.method == "GET" and not route.is_stream


async def _unused(_: Request) -> None:
    """Endpoint of routes that only match paths."""
    await trio.lowlevel.checkpoint()


def _wrong_method(method: str, allowed: Sequence[str]) -> Problem:
    return Problem(
        status=405,
        kind="wrong-method",
        title="The path has no such method",
        detail=f"the method is {method[:20]}",
        remedy=f"use {', '.join(allowed)}",
        headers={"Allow": ", ".join(allowed)},
    )


def _too_slow(route: ConsoleRoute) -> Problem:
    return Problem(
        status=504,
        kind="too-slow",
        title="Not done in time",
        detail=f"the request took more than {route.seconds:g} s",
        remedy="look for the effect before it is sent again" if route.method != "GET" else "try again",
        more={"outcome": "unknown"} if route.method != "GET" else {},
    )


def _body_too_slow(route: ConsoleRoute) -> Problem:
    return Problem(
        status=408,
        kind="body-too-slow",
        title="The body did not come in time",
        detail=f"after {route.seconds:g} s a part of the body was missing",
        remedy="nothing was done; send less at a time",
        more={"outcome": "nothing"},
        headers={"Connection": "close"},
    )


_NOT_FOUND: Final = Problem(
    status=404,
    kind="not-found",
    title="There is no such path",
    detail="no route has this path",
    remedy="see /v1/openapi.json",
)
_FAILED: Final = Problem(
    status=500,
    kind="failed",
    title="The console failed",
    detail="a bug; the reason is in the log of the console",
    remedy="report it; the outcome of a change is unknown",
)
