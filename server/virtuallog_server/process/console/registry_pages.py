"""Registries of a program over HTTP, as Mesos' master shows its own: for operators, read-only.

    /registrar/NAME/registry    the tables as last stored, as JSON; {} before the recovery; ?jsonp=CALLBACK wraps it
    /metrics                    figures of all registrars, for Prometheus

    listeners = await trio.open_tcp_listeners(8080, host="127.0.0.1")
    await serve_registries([registrar], listeners, users={"operator": "a password"})

Serve it on loopback addresses only: passwords travel as they are. Needs the extra `console`.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from trio.abc import Listener

from virtuallog.contract import metrics
from virtuallog_database.registrar.registrar import Registrar
from virtuallog_server.process.console import exposition
from virtuallog_server.process.console.http_server import HttpServer

PIECE: Final = 256
"""Records encoded between two checkpoints."""
_CALLBACK: Final = re.compile(r"[A-Za-z_$][\w$.]{0,127}")


@attrs.define(eq=False)
class RegistryPages:
    """The application."""

    registrars: Sequence[Registrar]
    users: Mapping[str, str] | None = None
    """Passwords by user, of whom each request must name one. None: no request needs to."""

    def application(self) -> Starlette:
        """Routes of all pages."""
        pages = {"/registrar/{name}/registry": self._registry, "/metrics": self._metrics}
        return Starlette(routes=[Route(path, page, methods=["GET"]) for path, page in pages.items()])

    async def _registry(self, request: Request) -> Response:
        if not self._is_known(request):
            return _unauthorized()
        found = next((each for each in self.registrars if each.name == request.path_params["name"]), None)
        if found is None:
            return PlainTextResponse("there is no such registry here\n", status_code=404)
        tables = await tables_of(found)
        callback = request.query_params.get("jsonp")
        if callback is None:
            return JSONResponse(tables)
        if _CALLBACK.fullmatch(callback) is None:
            return PlainTextResponse("jsonp is not the name of a function\n", status_code=400)
        return Response(f"{callback}({json.dumps(tables)});", media_type="text/javascript")

    async def _metrics(self, request: Request) -> Response:
        if not self._is_known(request):
            return _unauthorized()
        return Response(await exposition.expose(metrics.of(self.registrars), ()), media_type=exposition.CONTENT_TYPE)

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


def _unauthorized() -> Response:
    return PlainTextResponse("a user and a password are needed\n", 401, {"WWW-Authenticate": 'Basic realm="registrar"'})


async def tables_of(registrar: Registrar) -> dict[str, dict[str, Any]]:
    """Records by table and key, in their order, as last stored; empty before the recovery. Records that are not JSON are in base 64."""
    found: dict[str, dict[str, Any]] = {}
    if not registrar.version:
        return found
    for table in registrar.tables:
        records = found[table.name] = {}
        for count, (key, record) in enumerate(list(registrar.registry.items(table)), 1):
            encoded = table.encode(record)
            try:
                records[key] = json.loads(encoded)
            except ValueError:
                records[key] = {"base64": base64.b64encode(encoded).decode()}
            if count % PIECE == 0:
                await trio.lowlevel.checkpoint()
    return found


async def serve_registries(
    registrars: Sequence[Registrar], listeners: Sequence[Listener[Any]], *, users: Mapping[str, str] | None = None
) -> None:
    """Serve until cancelled."""
    await HttpServer(RegistryPages(registrars, users)).run(listeners)
