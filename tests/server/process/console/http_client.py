"""A client of HTTP that does what a test says, and no more."""

from __future__ import annotations

import attrs
import trio


@attrs.frozen
class Answer:
    """The response."""

    status: int
    headers: dict[str, str]
    text: str


async def get(port: int, path: str, host: str = "localhost", authorization: str = "") -> Answer:
    """Ask for one page."""
    more = f"Authorization: {authorization}\r\n" if authorization else ""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n".encode())
        received = b"".join([chunk async for chunk in stream])
    head, _, body = received.decode().partition("\r\n\r\n")
    first, *lines = head.splitlines()
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(first.split()[1]), headers, body)
