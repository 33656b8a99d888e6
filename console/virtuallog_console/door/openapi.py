"""The description of the door, as OpenAPI 3.1: made from the routes themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from virtuallog_console.access.routes import ConsoleRoute, Parameter

VERSION: Final = "1"
OF_ALL_ROUTES: Final[Mapping[int, str]] = {
    400: "The request is malformed, or the proxy's header is.",
    401: "The caller is not known.",
    403: "The caller has not the right, or a page of another site made the request.",
    421: "The console has another name.",
    429: "Too much is under way; nothing was done.",
}
"""Statuses with which access refuses any request, and their meaning. 404 and 405 are for other paths and methods."""
OF_BODIES: Final[Mapping[int, str]] = {
    408: "The body did not come in time; nothing was done.",
    413: "The body or an entry is too large; nothing was done.",
    415: "The body is of another type.",
}
"""The same, of routes that take a body."""


def describe(routes: Sequence[ConsoleRoute]) -> dict[str, Any]:
    """The description of these routes."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "virtuallog: the log over HTTP", "version": VERSION},
        "paths": paths,
        "components": {"schemas": {"Problem": _PROBLEM}},
    }


def statuses(route: ConsoleRoute) -> dict[int, str]:
    """All statuses of a route, and their meaning."""
    return dict(sorted({**OF_ALL_ROUTES, **(OF_BODIES if route.media_types else {}), **route.answers}.items()))


def _operation(route: ConsoleRoute) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": route.summary,
        "description": f"Needs the role {route.role.name.lower()}.",
        "parameters": [_parameter(each) for each in route.parameters],
        "responses": {str(status): _answer(status, meaning, route) for status, meaning in statuses(route).items()},
    }
    if route.media_types:
        content: dict[str, Any] = {media_type: {} for media_type in route.media_types}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.place == "path",
        "description": parameter.description,
        "schema": dict(parameter.schema),
    }


def _answer(status: int, meaning: str, route: ConsoleRoute) -> dict[str, Any]:
    if status >= HTTPStatus.BAD_REQUEST:
        schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
        return {"description": meaning, "content": {"application/problem+json": schema}}
    media_type = "text/event-stream" if route.is_stream else "application/json"
    return {"description": meaning, "content": {media_type: {}}}


_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "remedy"],
    "properties": {
        "type": {"type": "string", "description": "Kind of the problem; stable."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "remedy": {"type": "string", "description": "What the caller or an operator can do."},
        "outcome": {"enum": ["nothing", "unknown"], "description": "Outcome of an append that failed."},
        "trim_point": {"type": "integer"},
        "tail": {"type": "integer"},
        "limit": {"type": "integer"},
        "position": {"type": "integer"},
    },
}
