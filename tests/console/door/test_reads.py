"""Reads through the door."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from tests.console.asgi import Room, room
from tests.console.door.test_openapi import StubLog, as_log
from tests.virtuallog.client.world import world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.types import GapKind, LogPosition
from virtuallog_console.door.reads import LIMIT_MAX, READ_BYTES_MAX


@asynccontextmanager
async def door(entries: int = 0) -> AsyncIterator[tuple[Room, VirtualLog]]:
    async with world() as made:
        log = made.client()
        if entries:
            await log.append_many([b"entry %d" % number for number in range(entries)])
        yield room(log, made.nursery), log


async def test_entries_come_from_the_first_on() -> None:
    """With their positions and times, and where to go on. At the tail there is nothing more, which is no error."""
    async with door(3) as (one, _):
        found = (await one.ask(path="/v1/entries", query="encoding=text")).json
        rest = await one.ask(path="/v1/entries", query=f"from={found['next']}")

        assert [(entry["position"], entry["text"]) for entry in found["entries"]] == [
            (0, "entry 0"), (1, "entry 1"), (2, "entry 2"),
        ]  # fmt: skip
        assert all(entry["time_ms"] >= 0 for entry in found["entries"])
        assert (found["from"], found["next"], found["tail"], found["gaps"]) == (0, 3, 3, [])
        assert (rest.status, rest.json["entries"], rest.json["next"]) == (200, [], 3)


async def test_pages_fit_together() -> None:
    """With any bounds, following `next` gives each entry once."""
    async with door(300) as (one, _):
        for bounds in (
            "limit=7",
            "max_bytes=100",
            "limit=100&max_bytes=1",
            f"limit={LIMIT_MAX}&max_bytes={READ_BYTES_MAX}",
        ):
            at, seen = 0, list[int]()
            while at < 300:
                page = (await one.ask(path="/v1/entries", query=f"from={at}&{bounds}")).json
                assert page["next"] > at
                seen += [entry["position"] for entry in page["entries"]]
                at = page["next"]

            assert seen == [*range(300)]


async def test_payloads_that_are_no_text_come_in_base64() -> None:
    """Also if text is asked for, so that no byte is lost."""
    async with door() as (one, log):
        await log.append_many([b"\xff", '"\n\u2028'.encode()])

        entries = (await one.ask(path="/v1/entries", query="encoding=text")).json["entries"]
        assert (entries[0]["base64"], entries[1]["text"]) == ("/w==", '"\n\u2028')
        entries = (await one.ask(path="/v1/entries")).json["entries"]
        assert [entry["base64"] for entry in entries] == ["/w==", "Igri" + "gKg="]


async def test_one_entry_comes_as_it_is() -> None:
    """Bytes, with position and time in the head; a browser does not take them for a page."""
    async with door() as (one, log):
        await log.append(b"<script>alert(1)</script>")

        answer = await one.ask(path="/v1/entries/0")
        assert (answer.status, answer.body) == (200, b"<script>alert(1)</script>")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-position"] == "0"


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/v1/entries/3", "", 416),
        ("/v1/entries", "from=4", 416),
        ("/v1/entries/-1", "", 400),
        ("/v1/entries/x", "", 400),
        ("/v1/entries/" + "9" * 5000, "", 400),
        ("/v1/entries/\u0663", "", 400),
        ("/v1/entries/", "", 404),
        ("/v1/entries/0/0", "", 404),
        ("/v1/entries", "from=-1", 400),
        ("/v1/entries", "limit=0", 400),
        ("/v1/entries", f"limit={LIMIT_MAX + 1}", 400),
        ("/v1/entries", f"max_bytes={READ_BYTES_MAX + 1}", 400),
        ("/v1/entries", "encoding=hex", 400),
        ("/v1/entries", "start=1", 400),
        ("/v1/log", "x=1", 400),
    ],
)
async def test_what_is_not_there_is_refused(path: str, query: str, status: int) -> None:
    """Past the tail, out of bounds, or misspelt: each with its own status."""
    async with door(3) as (one, _):
        answer = await one.ask(path=path, query=query)

        assert answer.status == status
        if status == 416:
            assert answer.json["tail"] == 3


async def test_a_trimmed_position_names_the_trim_point() -> None:
    """410, and where to begin; without `from` the answer begins there by itself."""
    async with door() as (one, log):
        for number in range(4):
            await log.append(b"%d" % number)
        await log.prefix_trim(LogPosition(3))

        for path in ("/v1/entries?from=0", "/v1/entries/1"):
            answer = await one.ask(path=path.partition("?")[0], query=path.partition("?")[2])
            assert (answer.status, answer.json["trim_point"]) == (410, 3)
        found = (await one.ask(path="/v1/entries")).json
        assert (found["from"], [entry["position"] for entry in found["entries"]]) == (3, [3])


async def test_gaps_are_told_apart_from_entries() -> None:
    """A position that the log has used for itself is a gap with its kind."""
    async with world() as made:
        log = made.client()
        await log.append(b"a")
        await log.reconfig_extend("sparse")
        await log.append(b"b")
        await log.append(b"c")
        one = room(log, made.nursery)
        found = (await one.ask(path="/v1/entries")).json

        covered = [(entry["position"], entry["position"] + 1) for entry in found["entries"]]
        covered += [(gap["from"], gap["to"]) for gap in found["gaps"]]
        covered.sort()
        assert len(found["entries"]) == 3
        assert {gap["kind"] for gap in found["gaps"]} == {"filler"}
        assert all(before[1] == after[0] for before, after in pairwise(covered))
        hole = await one.ask(path=f"/v1/entries/{found['gaps'][0]['from']}")
        assert (hole.status, hole.json["type"]) == (404, "urn:virtuallog:problem:filler")


async def test_a_lost_entry_is_gone() -> None:
    """410, with another kind than a trim."""
    async with world() as made:
        answer = await room(as_log(StubLog(gap=GapKind.LOST)), made.nursery).ask(path="/v1/entries/3")

    assert (answer.status, answer.json["type"], answer.json["position"]) == (410, "urn:virtuallog:problem:lost", 3)


async def test_the_log_is_told_in_short() -> None:
    """Tail, trim point, and the chain as it is now."""
    async with door(3) as (one, log):
        await log.reconfig_extend("sparse")
        await log.prefix_trim(LogPosition(1))
        found = (await one.ask(path="/v1/log")).json

        assert (found["tail"], found["closed"], found["segments_left_out"]) == (3, False, 0)
        assert [(each["kind"], each["from"], each["to"]) for each in found["segments"]] == [
            ("memory", 0, 3), ("sparse", 3, None),
        ]  # fmt: skip
        assert found["trim_point"] == 1
        await log.seal()
        assert (await one.ask(path="/v1/log")).json["closed"] is True


async def test_a_head_has_no_body() -> None:
    """HEAD is answered as GET; a tail has none."""
    async with door(1) as (one, _):
        assert (await one.ask(method="HEAD", path="/v1/log")).status == 200
        assert (await one.ask(method="HEAD", path="/v1/tail")).status == 405
