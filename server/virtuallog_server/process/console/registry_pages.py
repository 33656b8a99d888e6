"""Registries of a program over HTTP, as Mesos' master shows its own: for operators, read-only.

    /registrar/NAME/registry    the tables as last stored, as JSON; {} before the recovery
                                ?jsonp=CALLBACK wraps it, if that is switched on
    /metrics                    figures of all registrars, for Prometheus

    listeners = await trio.open_tcp_listeners(8080, host="127.0.0.1")
    await serve_registries([registrar], listeners, users={"operator": "a password"})

Serve it on loopback addresses only: passwords travel as they are. With JSONP every page that the operator's browser shows can read the
registries, so it is off. Needs the extra `console`.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from trio.abc import Listener

from virtuallog.contract import metrics
from virtuallog_database.registrar.registrar import Registrar
from virtuallog_server.process.console import exposition
from virtuallog_server.process.console.http_server import HttpServer
from virtuallog_server.process.registry_tables import tables_of

CALLBACK_CHARACTERS_MAX: Final = 128
"""Longest name of a function in `?jsonp`."""
_CALLBACK: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*(\.[A-Za-z_$][A-Za-z0-9_$]*)*")
_HEADERS: Final = {"X-Content-Type-Options": "nosniff"}


@attrs.define(eq=False)
class RegistryPages:
    """The application."""

    registrars: Sequence[Registrar]
    users: Mapping[str, str] | None = None
    """Passwords by user, of whom each request must name one. None: no request needs to."""
    has_jsonp: bool = False

    def application(self) -> Starlette:
        """Routes of all pages."""
        pages = {"/registrar/{name:path}/registry": self._registry, "/metrics": self._metrics}
        return Starlette(routes=[Route(path, page, methods=["GET"]) for path, page in pages.items()])

    async def _registry(self, request: Request) -> Response:
        if not self._is_known(request):
            return _unauthorized()
        found = next((each for each in self.registrars if each.name == request.path_params["name"]), None)
        if found is None:
            return _text("there is no such registry here", 404)
        callback = request.query_params.get("jsonp")
        if callback is not None and not self.has_jsonp:
            return _text("jsonp is switched off", 400)
        if callback is not None and not is_callback(callback):
            return _text("jsonp is not the name of a function", 400)
        # ASCII: a lone surrogate in a record is no UTF-8.
        shown = json.dumps(await _tables_of(found))
        if callback is None:
            return Response(shown, media_type="application/json", headers=_HEADERS)
        return Response(f"{callback}({shown});", media_type="text/javascript", headers=_HEADERS)

    async def _metrics(self, request: Request) -> Response:
        if not self._is_known(request):
            return _unauthorized()
        return Response(
            await exposition.expose(metrics.of(self.registrars), ()),
            media_type=exposition.CONTENT_TYPE,
            headers=_HEADERS,
        )

    def _is_known(self, request: Request) -> bool:
        if self.users is None:
            return True
        scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
        try:
            user, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            return False
        expected = self.users.get(user)
        if scheme.lower() != "basic" or not colon or expected is None:
            return False
        return hmac.compare_digest(expected.encode(), password.encode())


def is_callback(name: str) -> bool:
    """True for the name of a function in JavaScript: identifiers of ASCII, separated by dots."""
    return len(name) <= CALLBACK_CHARACTERS_MAX and _CALLBACK.fullmatch(name) is not None


def _text(message: str, status: int, **headers: str) -> Response:
    return PlainTextResponse(f"{message}\n", status, {**_HEADERS, **headers})


def _unauthorized() -> Response:
    return _text("a user and a password are needed", 401, **{"WWW-Authenticate": 'Basic realm="registrar"'})


async def _tables_of(registrar: Registrar) -> dict[str, dict[str, Any]]:
    """The tables as of one version; empty before the recovery."""
    if not registrar.version:
        return {}
    records = [(table, key, record) for table in registrar.tables for key, record in registrar.registry.items(table)]
    encoded = ((table.name, key, table.encode(record)) for table, key, record in records)
    return await tables_of(encoded, [table.name for table in registrar.tables])


async def serve_registries(
    registrars: Sequence[Registrar],
    listeners: Sequence[Listener[Any]],
    *,
    users: Mapping[str, str] | None = None,
    jsonp: bool = False,
) -> None:
    """Serve until cancelled.

    Args:
        registrars: whose registries are shown.
        listeners: on loopback addresses.
        users: passwords by user. None: requests need none.
        jsonp: True: scripts of other pages may read the registries, with the user's password if the browser has it.
    """
    await HttpServer(RegistryPages(registrars, users, jsonp)).run(listeners)
