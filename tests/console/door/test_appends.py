"""Appends through the door."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.console.asgi import Exchange, Room, room
from tests.console.door.test_openapi import StubLog, as_log
from tests.console.served import Answer
from tests.virtuallog.client.world import contents, world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.types import LogPosition
from virtuallog_console.access.routes import REQUEST_SECONDS
from virtuallog_console.door.payloads import BODY_BYTES_MAX, ENTRIES_MAX

POST: dict[str, Any] = {"method": "POST", "path": "/v1/entries"}


@asynccontextmanager
async def door() -> AsyncIterator[tuple[Room, VirtualLog]]:
    async with world() as made:
        log = made.client()
        yield room(log, made.nursery), log


async def post(one: Room, body: bytes, media_type: str = "text/plain", **more: Any) -> Answer:
    return await one.ask(**POST, body=[body], headers={"Content-Type": media_type}, **more)


async def test_an_entry_is_the_bytes_of_the_body() -> None:
    """Of any value; the answer says where the entry is."""
    async with door() as (one, log):
        answer = await post(one, b"\x00\xff\n", "application/octet-stream")
        again = await post(one, "größer\n".encode(), "Text/Plain; charset=utf-8")

        assert (answer.status, answer.json, answer.headers["location"]) == (
            201,
            {"position": 0, "count": 1},
            "/v1/entries/0",
        )
        assert again.json == {"position": 1, "count": 1}
        assert await contents(log) == [(0, b"\x00\xff\n"), (1, "größer\n".encode())]


async def test_a_body_without_a_type_is_bytes() -> None:
    """As HTTP says; an empty one is an empty entry."""
    async with door() as (one, log):
        assert (await one.ask(**POST)).status == 201
        assert await contents(log) == [(0, b"")]


@pytest.mark.parametrize(
    ("body", "media_type", "payloads"),
    [
        (b'{"a": 1}\n{"b": 2}\n', "application/x-ndjson", [b'{"a": 1}', b'{"b": 2}']),
        (b"one\r\ntwo", "application/x-ndjson", [b"one", b"two"]),
        (b'["aGVsbG8=", {"text": "\\u00e4"}, {"base64": ""}]', "application/json", [b"hello", "ä".encode(), b""]),
    ],
)
async def test_several_entries_lie_side_by_side(body: bytes, media_type: str, payloads: list[bytes]) -> None:
    """Lines, or the items of an array: in one batch, in their order."""
    async with door() as (one, log):
        answer = await post(one, body, media_type)

        assert (answer.status, answer.json) == (201, {"position": 0, "count": len(payloads)})
        assert [payload for _, payload in await contents(log)] == payloads


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b"", "application/x-ndjson", 400),
        (b"\n", "application/x-ndjson", 400),
        (b"a\n\nb", "application/x-ndjson", 400),
        (b"a\n" * (ENTRIES_MAX + 1), "application/x-ndjson", 413),
        (b"[]", "application/json", 400),
        (b"{}", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b'["no base 64"]', "application/json", 400),
        (b'["\xff"]', "application/json", 400),
        (b'[{"text": "\\ud800"}]', "application/json", 400),
        (b'[{"text": "a", "base64": ""}]', "application/json", 400),
        (b'[{"other": "a"}]', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"1" * 10_000, "application/json", 400),
        (b"[" + b'"",' * ENTRIES_MAX + b'""]', "application/json", 413),
        (b"a" * (4 << 20) + b"a", "text/plain", 413),
        (b"a" * (BODY_BYTES_MAX + 1), "text/plain", 413),
        (b"a=b", "application/x-www-form-urlencoded", 415),
        (b"a", "multipart/form-data", 415),
        (b"a", "", 415),
    ],
)
async def test_other_bodies_are_refused(body: bytes, media_type: str, status: int) -> None:
    """With what is wrong and what to do; nothing is appended."""
    async with door() as (one, log):
        answer = await post(one, body, media_type)

        assert answer.status == status
        assert answer.json["remedy"]
        assert await contents(log) == []


async def test_a_length_that_is_too_large_is_refused_before_the_body() -> None:
    """A client that waits with its body (`Expect: 100-continue`) need not send it."""
    async with door() as (one, _):
        there = Exchange(
            **POST, headers={"Content-Length": str(BODY_BYTES_MAX + 1), "Content-Type": "text/plain"}, takes=0
        )

        assert (await there.run(one.application, one.clock)).status == 413


async def test_an_entry_lands_at_the_expected_tail_or_not_at_all() -> None:
    """412 tells the tail; nothing was done, and the same request fails again."""
    async with door() as (one, log):
        first = await post(one, b"a", query="expected_tail=0")
        late = [await post(one, b"b", query="expected_tail=0") for _ in range(2)]

        assert first.json == {"position": 0, "count": 1}
        assert [(answer.status, answer.json["tail"], answer.json["outcome"]) for answer in late] == [
            (412, 1, "nothing")
        ] * 2
        assert await contents(log) == [(0, b"a")]
        assert (await post(one, b"a\nb", "application/x-ndjson", query="expected_tail=1")).status == 400


@pytest.mark.parametrize("query", ["expected_tail=-1", "expected_tail=x", "expected_tail=", "expected_tail=0&expected_tail=1", "tail=0",
                                   "expected_tail=99999999999999999999"])  # fmt: skip
async def test_a_condition_is_never_passed_over(query: str) -> None:
    """A misspelt one would append what should not be there."""
    async with door() as (one, log):
        assert (await post(one, b"a", query=query)).status == 400
        assert await contents(log) == []


async def test_keys_of_requests_are_refused() -> None:
    """Idempotency-Key cannot be honoured; to pass it over would promise what is not kept. The answer names what does it."""
    async with door() as (one, log):
        answer = await one.ask(**POST, body=[b"a"], headers={"Idempotency-Key": "1"})

        assert (answer.status, answer.json["outcome"]) == (400, "nothing")
        assert "expected_tail" in answer.json["remedy"]
        assert await contents(log) == []


@pytest.mark.parametrize(
    ("error", "status", "outcome"),
    [(UnavailableError("given up"), 504, "unknown"), (SealedError(), 409, "nothing")],
)
async def test_the_outcome_of_a_failed_append_is_said(error: VirtualLogError, status: int, outcome: str) -> None:
    """A timeout is unknown, never failed."""
    async with trio.open_nursery() as nursery:
        answer = await post(room(as_log(StubLog(error)), nursery), b"a")
        nursery.cancel_scope.cancel()

    assert (answer.status, answer.json["outcome"]) == (status, outcome)


async def test_an_append_that_takes_too_long_is_unknown(autojump_clock: MockClock) -> None:
    """The client is answered in time, and learns that the entry may be in the log."""
    async with trio.open_nursery() as nursery:
        one = room(as_log(StubLog(silent=True)), nursery)
        began = one.clock.monotonic()
        answer = await post(one, b"a")
        seconds = one.clock.monotonic() - began
        nursery.cancel_scope.cancel()

    assert (answer.status, answer.json["outcome"]) == (504, "unknown")
    assert seconds == pytest.approx(REQUEST_SECONDS, abs=1)


async def test_a_body_that_stops_coming_is_given_up(autojump_clock: MockClock) -> None:
    """Its bytes are counted until then, and nothing is appended."""
    async with door() as (one, log):
        answer = await one.ask(**POST, body=[b"a"], is_unfinished=True)

        assert (answer.status, answer.json["outcome"]) == (408, "nothing")
        assert one.application.admission.requests == 0
        assert await contents(log) == []


async def test_a_closed_log_takes_nothing() -> None:
    """409, with what an operator does."""
    async with door() as (one, log):
        await log.seal()
        answer = await post(one, b"a")

        assert (answer.status, answer.json["outcome"]) == (409, "nothing")


async def test_as_many_bytes_as_a_batch_may_come_in_base64() -> None:
    """One request fills a batch; one byte more is refused by the log itself."""
    async with door() as (one, log):
        part = b"x" * ((4 << 20) - 1000)
        answer = await post(one, json.dumps([b64encode(part).decode()] * 2).encode(), "application/json")
        too_large = await post(one, json.dumps([b64encode(part).decode()] * 3).encode(), "application/json")

        assert (answer.status, too_large.status) == (201, 413)
        assert (await log.check_tail()).tail == LogPosition(2)
