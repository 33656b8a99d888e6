"""An answer that is sent as it is made, and ends when the client goes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Final

import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

PIECE_BYTES: Final = 64 << 10
"""Bytes that are sent at a time, or one line."""


class LinesResponse(Response):
    """An answer made of lines."""

    def __init__(self, lines: AsyncGenerator[str, None], media_type: str, headers: Mapping[str, str]) -> None:
        super().__init__(None, 200, dict(headers), media_type)
        del self.headers["content-length"]
        self._lines = lines

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait_disconnect, receive, nursery.cancel_scope)
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )  # fmt: skip
            async with aclosing(self._lines) as lines:
                pending = bytearray()
                async for line in lines:
                    pending += line.encode()
                    if len(pending) >= PIECE_BYTES:
                        await send({"type": "http.response.body", "body": bytes(pending), "more_body": True})
                        pending.clear()
            await send({"type": "http.response.body", "body": bytes(pending), "more_body": False})
            nursery.cancel_scope.cancel()


async def wait_disconnect(receive: Receive, scope: trio.CancelScope) -> None:
    """Cancel the scope when the client goes."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
