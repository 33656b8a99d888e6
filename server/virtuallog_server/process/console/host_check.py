"""Guard for pages on loopback addresses without authentication: it accepts only requests that name this machine.

A page from elsewhere, shown by a browser on this machine, can let its own name point to 127.0.0.1 (DNS rebinding), and would
then read these pages as its own. Its requests carry that name in `Host`. Pages are served on loopback addresses only
(`check_address`), so an honest request names `localhost` or such an address, with any port: tunnels have others.
"""

from __future__ import annotations

from typing import Final

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from virtuallog_server.process.console.host_names import is_local

REFUSAL: Final = "this is served to requests for localhost or a loopback address only\n"


class LoopbackHostsOnly:
    """An ASGI application around another one. Answers 421 to requests for other names."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not all(map(is_local, Headers(scope=scope).getlist("host"))):
            await PlainTextResponse(REFUSAL, status_code=421)(scope, receive, send)
            return
        await self._application(scope, receive, send)
