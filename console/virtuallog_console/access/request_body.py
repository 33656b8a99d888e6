"""Bodies of requests, read with bounds."""

from __future__ import annotations

from typing import Final

import attrs
import trio
from starlette.datastructures import Headers
from starlette.types import Message, Receive

from virtuallog.contract.ports import Clock
from virtuallog_console.access.admission import BufferAllowance
from virtuallog_console.access.core.problem import Problem, ProblemError
from virtuallog_console.access.routes import ConsoleRoute

DRAIN_BYTES_MAX: Final = 32 << 20
"""Bytes of a refused body that are read and dropped. A connection that is closed with unread bytes could lose the answer."""
DRAIN_SECONDS: Final = 2.0
"""Seconds for that."""
DEFAULT_MEDIA_TYPE: Final = "application/octet-stream"
_LENGTH_DIGITS: Final = 19


class DisconnectedError(Exception):
    """The client has gone. There is no answer to send."""


@attrs.define(eq=False)
class IncomingBody:
    """Body of one request as it comes, and if all of it has come."""

    _receive: Receive
    is_whole: bool

    async def receive(self) -> Message:
        """The next part, or the news that the client has gone."""
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self.is_whole = True
        return message


def has_body(headers: Headers) -> bool:
    """True if the head announces a body."""
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


def check_head(headers: Headers, route: ConsoleRoute) -> str:
    """Check what the head says about the body. Returns its media type; empty if the route takes no body.

    Raises:
        ProblemError: the route takes no such body.
    """
    if "transfer-encoding" in headers and "content-length" in headers:
        raise ProblemError(_TWO_LENGTHS)
    if not route.media_types:
        if has_body(headers):
            raise ProblemError(
                Problem(
                    status=400,
                    kind="unexpected-body",
                    title="The request has a body",
                    detail=f"{route.method} {route.path} takes none",
                    remedy="leave the body out",
                )
            )
        return ""
    types = headers.getlist("content-type") or [DEFAULT_MEDIA_TYPE]
    media_type = types[0].partition(";")[0].strip().lower()
    if len(types) > 1 or media_type not in route.media_types or "content-encoding" in headers:
        raise ProblemError(
            Problem(
                status=415,
                kind="media-type",
                title="The body is of another type",
                detail=f"Content-Type is '{', '.join(types)[:200]}'",
                remedy=f"send one of {', '.join(route.media_types)}, without Content-Encoding",
            )
        )
    _check_length(_announced(headers), route)
    return media_type


async def read_body(headers: Headers, receive: Receive, route: ConsoleRoute, allowance: BufferAllowance) -> bytes:
    """Read the whole body.

    Raises:
        ProblemError: it is larger than the route takes, or than there is room for.
        DisconnectedError: the client has gone.
    """
    allowance.grow(_announced(headers))
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectedError
        part = message.get("body", b"")
        size += len(part)
        _check_length(size, route)
        allowance.grow(size)
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)


async def drain_body(incoming: IncomingBody, clock: Clock) -> None:
    """Read the rest of a body and drop it, within bounds."""
    size = 0
    with clock.timeout(DRAIN_SECONDS):
        while size < DRAIN_BYTES_MAX and not incoming.is_whole:
            size += len((await incoming.receive()).get("body", b""))
            await trio.lowlevel.checkpoint()


def _announced(headers: Headers) -> int:
    length = headers.get("content-length", "0")
    return int(length) if length.isascii() and length.isdecimal() and len(length) <= _LENGTH_DIGITS else 0


_TWO_LENGTHS: Final = Problem(
    status=400,
    kind="malformed",
    title="The request is malformed",
    detail="it has Content-Length and Transfer-Encoding",
    remedy="send one of them: a proxy could take another end of the body for its own",
)


def _check_length(size: int, route: ConsoleRoute) -> None:
    if size > route.body_bytes:
        raise ProblemError(
            Problem(
                status=413,
                kind="too-large",
                title="The request is too large",
                detail=f"the body has more than {route.body_bytes} bytes",
                remedy="nothing was done; send fewer or smaller entries, or store a large value elsewhere and append a reference",
                more={"limit": route.body_bytes},
            )
        )
