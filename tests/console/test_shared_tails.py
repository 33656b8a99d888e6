"""Tails of a console inside TLS while a log is faster than they may be."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import h11
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
    protocol, received = h11.Connection(h11.CLIENT), b""
    async with await one.connect() as stream:
        await stream.send_all(
            protocol.send(h11.Request(method="GET", target=path, headers=[("Host", "localhost")]))
            + protocol.send(h11.EndOfMessage())
        )
        while part := await stream.receive_some(1 << 16):
            protocol.receive_data(bytes(part))
            while isinstance(event := protocol.next_event(), h11.InformationalResponse | h11.Response | h11.Data):
                received += event.data if isinstance(event, h11.Data) else b""
            *blocks, received = received.split(b"\n\n")
            for block in blocks:
                fields = dict(line.split(": ", 1) for line in block.decode().splitlines())
                if "event" in fields:
                    yield fields["event"], json.loads(fields["data"])
                else:
                    task_status.started()


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
    """Forty tails are told how many entries they were not sent, and end at the newest one. One that asks to be complete has all."""
    owners, live, complete = Owners.in_(tmp_path), list[tuple[int, int]](), list[tuple[int, int]]()
    policy = AccessPolicy(tls=True, hosts=frozenset({"localhost"}))
    async with served(policy, tls=owners.console) as served_one:
        one = served_one.as_(owners.client)
        with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real sockets
            async with trio.open_nursery() as nursery:
                for _ in range(TAILS):
                    await nursery.start(follow, one, live, "/v1/tail")
                await nursery.start(follow, one, complete, "/v1/tail?complete=true")
                for _ in range(ENTRIES // 400):
                    await one.log.append_many([b"x" * 1000] * 400)
            counted = await figures(one)

    assert complete == [(ENTRIES, 0)]
    assert len(live) == TAILS
    assert all(sent > 0 and skipped > 0 for sent, skipped in live)
    assert (
        counted["virtuallog_console_tail_skipped_total"] >= sum(skipped for _, skipped in live) - ENTRIES * TAILS // 2
    )
