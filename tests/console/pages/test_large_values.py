"""Large payloads on pages: cut at first, whole on demand, and never more than a bound."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.console.asgi import Room, room
from tests.console.pages.page_reader import read
from tests.virtuallog.client.world import world
from virtuallog_console.door.tail_hub import TailHub
from virtuallog_console.pages.page_routes import Pages
from virtuallog_metastore import PaxosProvider

MIB = 1 << 20


@pytest.mark.parametrize(
    ("payload", "query", "most"),
    [
        (b"a\x01" * (MIB // 2), "decoder=text", MIB // 2),
        (b"a\x01" * (MIB // 2), "decoder=text&whole=1", 4 * MIB),
        (b"<" * MIB, "whole=1", 5 * MIB),
        (b"\xff" * MIB, "whole=1", 3 * MIB),
        (b"\xf0\x9f\x92\xa9" * (MIB // 4), "whole=1", 2 * MIB),
        (b"x" * (2 * MIB), "whole=1", 2 * MIB),
    ],
    ids=["cut", "control", "escaped", "bytes", "wide", "too large"],
)
async def test_a_large_payload_has_a_page_of_a_bounded_size(
    payload: bytes, query: str, most: int, autojump_clock: MockClock
) -> None:
    """The worst values for escapes, too. What is left out is said, and the bytes can be downloaded."""
    async with world() as made:
        log = made.client()
        hub = TailHub(log, log.view.environment.clock)
        made.nursery.start_soon(hub.run)
        one: Room = room(log, made.nursery, groups=[Pages(log, PaxosProvider()).routes(hub)])
        await log.append(payload)
        answer = await one.ask(path="/entries/0", query=query)
        listed = await one.ask(path="/entries", query="")
        bytes_of_it = await one.ask(path="/v1/entries/0")

    found = read(answer.body.decode())
    assert answer.status == 200
    assert len(answer.body) <= most
    assert ("the rest is cut off" in found.text) == ("whole" not in query or len(payload) > MIB)
    assert "Download the bytes" in found.text
    assert len(listed.body) <= 64 << 10
    assert bytes_of_it.body == payload
