"""Heads, queries and bodies of any content: each has an answer, and no answer is a failure of the console."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from trio.testing import MockClock, memory_stream_pair

from tests.console.asgi import Exchange, room
from tests.console.served import all_of
from tests.virtuallog.client.world import world
from virtuallog.testing.logs import capture_logs
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.process import BOUNDS, CONNECTION_SECONDS
from virtuallog_server.process.console.http_connections import CONNECTION, HttpConnections

PATHS = ("/v1/entries", "/v1/entries/0", "/v1/log", "/v1/tail", "/v1/openapi.json", "/", "*", "")
NAMES = ("from", "limit", "max_bytes", "encoding", "expected_tail", "x")
HEADERS = (
    b"host", b"origin", b"sec-fetch-site", b"x-forwarded-user", b"content-type", b"content-length", b"content-encoding", b"transfer-encoding",
    b"last-event-id", b"idempotency-key", b"x",
)  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(
        [b"localhost", b"text/plain", b"application/json", b"same-origin", b"0", b"99999999999999999999", b""]
    ),
    st.binary(max_size=30),
)
QUERIES = st.lists(
    st.tuples(st.sampled_from(NAMES), st.one_of(st.integers().map(str), st.text("0123456789%&=+\u0663-.", max_size=9)))
)
REFUSED = {400, 401, 403, 404, 405, 410, 412, 413, 415, 416, 421, 429}


@settings(max_examples=100)
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "X"]),
    path=st.one_of(st.sampled_from(PATHS), st.text(max_size=20).map(lambda text: "/v1/entries/" + text)),
    query=QUERIES,
    headers=st.lists(st.tuples(st.sampled_from(HEADERS), VALUES), max_size=4),
    body=st.lists(st.binary(max_size=40), max_size=3),
    address=st.sampled_from(["127.0.0.1", "::1", "10.0.0.1", "", "x"]),
)
def test_any_request_is_answered(
    method: str,
    path: str,
    query: list[tuple[str, str]],
    headers: list[tuple[bytes, bytes]],
    body: list[bytes],
    address: str,
) -> None:
    """With success or a refusal that says what to do, never with 500; nothing is appended but by POST."""
    exchange = Exchange(
        method=method,
        path=path,
        query="&".join(f"{name}={value}" for name, value in query),
        body=body,
        raw_headers=headers,
        address=address,
        takes=0,
    )
    status, tail = trio.run(_ask, exchange, clock=MockClock(autojump_threshold=0))

    assert status in {200, 201} | REFUSED
    assert tail == 2 + (status == 201)


async def _ask(exchange: Exchange) -> tuple[int, int]:
    async with world() as made:
        log = made.client()
        await log.append_many([b"a", b"b"])
        one = room(log, made.nursery, AccessPolicy())
        answer = await exchange.run(one.application, one.clock)
        if answer.status >= 400:
            problem: dict[str, Any] = json.loads(answer.body)
            assert problem["status"] == answer.status
            assert problem["remedy"]
        return answer.status, (await log.check_tail()).tail


WHOLE = b"POST /v1/entries HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
PARTS = (
    WHOLE, b"GET ", b"HEAD ", b"POST ", b"CONNECT ", b"/v1/log", b"/v1/tail", b"/v1/entries/0", b"http://localhost/v1/log", b"%", b"%ff%00", b" ",
    b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b" HTTP/2.0\r\n", b"\r\n", b"\n", b"\r\n\r\n", b"Host: localhost\r\n", b"Content-Length: 3\r\n",
    b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"3\r\nabc\r\n",
    b"0\r\n\r\n", b"fffffffffffffffff\r\n", b"-1\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Connection: Upgrade\r\n",
    b"Upgrade: websocket\r\n", b"Upgrade: h2c\r\n", b"Sec-WebSocket-Version: 13\r\n", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", b"X: \xff\r\n",
    b" folded\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)  # fmt: skip


@settings(max_examples=200)
@given(
    sent=st.lists(st.one_of(st.sampled_from(PARTS), st.binary(max_size=8)), max_size=14).map(b"".join),
    ends=st.booleans(),
)
def test_any_bytes_are_answered_with_http_or_nothing(sent: bytes, ends: bool) -> None:
    """Pieces of requests in any order, cut anywhere: the connection ends in order and in time, and nothing is logged as a failure."""
    received, lines = trio.run(_send_bytes, sent, ends, clock=MockClock(autojump_threshold=0))

    assert received == b"" or received.startswith(b"HTTP/1.1 ")
    assert b"HTTP/1.1 500" not in received
    assert lines == []


async def _send_bytes(sent: bytes, ends: bool) -> tuple[bytes, list[dict[str, Any]]]:
    ours, theirs = memory_stream_pair()
    async with world() as made:
        one = room(made.client(), made.nursery)

        async def on_loopback(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                scope["state"][CONNECTION].address = "127.0.0.1"  # a stream in memory has none
            await one.application(scope, receive, send)

        connections = HttpConnections(on_loopback, BOUNDS, one.clock)
        with capture_logs() as lines:
            made.nursery.start_soon(connections.serve, theirs)
            with suppress(trio.BrokenResourceError):
                await ours.send_all(sent)
                if ends:
                    await ours.send_eof()
            with one.clock.timeout(10 * CONNECTION_SECONDS) as limit:
                received = await all_of(ours)
        assert not limit.cancelled_caught or b"text/event-stream" in received
    return received, lines
