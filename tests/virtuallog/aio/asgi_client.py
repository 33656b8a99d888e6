"""A client of an ASGI application, without sockets: requests, streams of a response, and a client that goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import attrs

Message: TypeAlias = MutableMapping[str, Any]
Application: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


@attrs.define
class Response:
    """A response as it comes."""

    messages: asyncio.Queue[Message] = attrs.field(factory=asyncio.Queue)
    gone: asyncio.Event = attrs.field(factory=asyncio.Event)
    """Set when the client goes away."""

    async def status(self) -> int:
        started = await self.messages.get()
        assert started["type"] == "http.response.start"
        return int(started["status"])

    async def chunk(self) -> bytes:
        """The next piece of the body; empty at its end."""
        return bytes((await self.messages.get()).get("body", b""))

    async def json(self) -> Any:
        body = b""
        while True:
            message = await self.messages.get()
            body += message.get("body", b"")
            if not message.get("more_body"):
                return json.loads(body)


@attrs.define
class AsgiClient:
    """Sends requests to an application."""

    application: Application

    @asynccontextmanager
    async def request(
        self, method: str, path: str, body: bytes = b"", query: str = "", headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> AsyncIterator[Response]:
        """A request. At the end of the block the client is gone, and the application has ended its part."""
        response, sent = Response(), False
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": method, "path": path,
            "raw_path": path.encode(), "query_string": query.encode(), "headers": list(headers), "scheme": "http", "root_path": "",
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        }  # fmt: skip

        async def receive() -> Message:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await response.gone.wait()
            return {"type": "http.disconnect"}

        task = asyncio.ensure_future(self.application(scope, receive, response.messages.put))
        try:
            yield response
        finally:
            response.gone.set()
            await task


@asynccontextmanager
async def lifespan(application: Application) -> AsyncIterator[AsgiClient]:
    """Run the application's lifespan while the block runs."""
    received, sent = asyncio.Queue[Message](), asyncio.Queue[Message]()
    task = asyncio.ensure_future(
        application({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, received.get, sent.put)
    )
    await received.put({"type": "lifespan.startup"})
    assert (await sent.get())["type"] == "lifespan.startup.complete"
    yield AsgiClient(application)
    await received.put({"type": "lifespan.shutdown"})
    assert (await sent.get())["type"] == "lifespan.shutdown.complete"
    await task
