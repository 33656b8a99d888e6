"""Tails of a console inside TLS while a log is faster than they may be."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import trio

from tests.console.served import PATIENCE_SECONDS, Owners, Served, served
from tests.console.test_metrics import figures
from virtuallog_console.access.core.policy import AccessPolicy

TAILS = 40
ENTRIES = 4000


async def events(
    one: Served, path: str, *, task_status: trio.TaskStatus[None]
) -> AsyncGenerator[tuple[str, Any], None]:
    """(name, data) of what a tail sends. Started once it is open."""
    async with await one.connect() as stream:
        await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        received, body = b"", b""
        while b"\r\n\r\n" not in received:
            received += await stream.receive_some(1 << 16)
        received = received.partition(b"\r\n\r\n")[2]
        task_status.started()
        while part := await stream.receive_some(1 << 16):
            received += part
            chunks, received = whole_chunks(received)
            *blocks, body = (body + chunks).split(b"\n\n")
            for block in blocks:
                fields = dict(line.split(": ", 1) for line in block.decode().splitlines() if line[0] != ":")
                if "event" in fields:
                    yield fields["event"], json.loads(fields["data"])


def whole_chunks(received: bytes) -> tuple[bytes, bytes]:
    """The bytes of all whole chunks of an HTTP body, and the rest."""
    found = b""
    while b"\r\n" in received:
        size, _, more = received.partition(b"\r\n")
        if len(more) < int(size, 16) + 2:
            break
        found, received = found + more[: int(size, 16)], more[int(size, 16) + 2 :]
    return found, received


async def follow(one: Served, found: list[tuple[int, int]], path: str, *, task_status: trio.TaskStatus[None]) -> None:
    """Add (positions sent, positions skipped) once the last entry has come; each position has come once by then."""
    sent, skipped = 0, 0
    async with aclosing(events(one, path, task_status=task_status)) as sent_events:
        async for name, data in sent_events:
            if name == "skipped":
                assert (data["from"], data["to"]) == (sent + skipped, sent + skipped + data["count"])
                skipped += data["count"]
            else:
                assert (name, data["position"]) == ("entry", sent + skipped)
                sent += 1
            if sent + skipped == ENTRIES:
                break
    found.append((sent, skipped))


async def test_every_tail_accounts_for_every_position(tmp_path: Path) -> None:
    """Forty tails are told how many entries they were not sent, and end at the newest one. One that does not ask for the latest has all."""
    owners, live, complete = Owners.in_(tmp_path), list[tuple[int, int]](), list[tuple[int, int]]()
    policy = AccessPolicy(tls=True, hosts=frozenset({"localhost"}))
    async with served(policy, tls=owners.console) as served_one:
        one = served_one.as_(owners.client)
        with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real sockets
            async with trio.open_nursery() as nursery:
                for _ in range(TAILS):
                    await nursery.start(follow, one, live, "/v1/tail?latest=true")
                await nursery.start(follow, one, complete, "/v1/tail")
                for _ in range(ENTRIES // 400):
                    await one.log.append_many([b"x" * 1000] * 400)
            counted = await figures(one)

    assert complete == [(ENTRIES, 0)]
    assert len(live) == TAILS
    assert all(sent > 0 and skipped > 0 for sent, skipped in live)
    assert (
        counted["virtuallog_console_tail_skipped_total"] >= sum(skipped for _, skipped in live) - ENTRIES * TAILS // 2
    )
