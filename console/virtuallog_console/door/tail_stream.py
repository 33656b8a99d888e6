"""`GET /v1/tail`: entries as they are appended, as server-sent events.

    event: entry   id: its position          data: as in /v1/entries
    event: gap     id: its last position     data: {"from": 3, "to": 7, "kind": "trimmed"}
    event: skipped id: the last position     data: {"from": 7, "to": 41, "count": 34}: entries that were not sent, with `latest=true`
    event: resume  data: {"from": 41, "reason": "..."}, the last one: the connection ends, and another may go on from there
    event: closed  data: {"from": 41}, the last one: the log is closed
    event: problem data: a problem, the last one

A comment comes at the beginning, and while there is nothing else. A browser's EventSource comes back by itself, with `Last-Event-ID`.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

import attrs
import trio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import BeyondTailError, VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog_console.access.routes import ConsoleRequest
from virtuallog_console.door.entry_json import ENCODINGS, Hides, hides_nothing
from virtuallog_console.door.error_answers import problem_of
from virtuallog_console.door.query import Query, malformed, parse_number
from virtuallog_console.door.reads import translated
from virtuallog_console.door.tail_hub import BehindError, ClosedError, TailCursor, TailHub
from virtuallog_console.door.tail_window import TailChunk

TAIL_SECONDS: Final = 3600.0
"""Longest duration of a tail. Then it ends with `resume`: what a proxy or a client has forgotten does not stay for ever."""
HEARTBEAT_SECONDS: Final = 15.0
"""Longest silence. Proxies end connections that are silent for a minute, and a send shows that a client has gone."""
END_SECONDS: Final = 30.0
"""Time to send the last event, beyond `TAIL_SECONDS`."""
RECONNECT_MS: Final = 1000
"""Milliseconds after which an EventSource comes back."""


@attrs.frozen
class TailStream:
    """Tails of one log."""

    _log: VirtualLog
    hub: TailHub
    clock: Clock
    hides: Hides = hides_nothing

    async def tail(self, request: ConsoleRequest) -> Response:
        """Follow the log: behind `Last-Event-ID`, from `from` on, or from the tail on."""
        query = Query.of(request.http.query_params, ("from", "encoding", "latest"))
        encoding = query.word("encoding", ENCODINGS)
        complete = query.word("latest", ("false", "true")) == "false"
        start = query.number("from")
        last = request.http.headers.getlist("last-event-id")
        if len(last) > 1:
            raise malformed("Last-Event-ID", ", ".join(last), "given once")
        if last and last[0]:  # it is newer than the address, which a browser uses again
            start = parse_number("Last-Event-ID", last[0]) + 1
        with translated():
            tail = (await self._log.check_tail()).tail
            if start is not None and start > tail:
                raise BeyondTailError(start, tail)
        return _TailResponse(self, request, tail if start is None else start, encoding, complete)


class _TailResponse(Response):
    """The answer: it sends until the tail ends or the client goes."""

    def __init__(self, tails: TailStream, request: ConsoleRequest, start: int, encoding: str, complete: bool) -> None:
        super().__init__(None, 200, media_type="text/event-stream")
        del self.headers["content-length"]
        self.headers["X-Accel-Buffering"] = "no"
        self._hub = tails.hub
        self._clock = tails.clock
        self._hides = tails.hides
        self._request = request
        self._start = start
        self._encoding = encoding
        self._complete = complete

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_wait_disconnect, receive, nursery.cancel_scope)
            with self._hub.follow(self._start, self._request.connection.cut, self._complete) as cursor:
                await self._send_all(cursor, partial(self._send, cursor, send), send)
            nursery.cancel_scope.cancel()

    async def _send_all(self, cursor: TailCursor, send: Any, start: Send) -> None:
        await start({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send(f"retry: {RECONNECT_MS}\n: the log from {cursor.position} on\n\n".encode())
        end = self._clock.monotonic() + TAIL_SECONDS
        try:
            while (left := end - self._clock.monotonic()) > 0:
                chunk: TailChunk | None = None
                with self._clock.timeout(min(HEARTBEAT_SECONDS, left)):
                    chunk = await self._hub.next(cursor)
                if chunk is None:
                    await send(b":\n\n")
                else:
                    await send(chunk.events(self._encoding, cursor.position, self._hides))
                    self._hub.move(cursor, chunk)
            last = _event("resume", {"from": cursor.position, "reason": f"open for {TAIL_SECONDS:g} s"})
        except BehindError:
            last = _event("resume", {"from": cursor.position, "reason": "read too slowly"})
        except ClosedError:
            last = _event("closed", {"from": cursor.position})
        except VirtualLogError as error:
            last = _event("problem", problem_of(error).plain() | {"from": cursor.position})
        await send(last)
        await start({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, cursor: TailCursor, send: Send, events: bytes) -> None:
        cursor.sending_since = self._clock.monotonic()
        await send({"type": "http.response.body", "body": events, "more_body": True})
        cursor.sending_since = None


async def _wait_disconnect(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
