"""Heads, queries and bodies of any content: each has an answer, and no answer is a failure of the console."""

from __future__ import annotations

import json
from typing import Any

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.console.asgi import Exchange, room
from tests.virtuallog.client.world import world
from virtuallog_console.access.core.policy import AccessPolicy

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
