"""Figures of a console, as Prometheus reads them."""

from __future__ import annotations

import re

from tests.console.served import Served, served
from tests.source_tree import ROOT


async def figures(one: Served) -> dict[str, float]:
    """All samples, by name and labels."""
    answer = await one.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {name: float(value) for name, value in re.findall(r"(?m)^(virtuallog_.+) (\S+)$", answer.body.decode())}


async def test_figures_count_requests_refusals_and_tails() -> None:
    """Each by its class or kind; a tail that is open, what it was sent, and that it is not behind."""
    async with served() as one:
        before = await figures(one)
        await one.log.append_many([b"a", b"b", b"c"])
        assert (await one.get("/nothing")).status == 404
        async with await one.connect() as stream:
            await stream.send_all(b"GET /v1/tail?from=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            received = b""
            while received.count(b"event: entry") < 3:
                received += await stream.receive_some()
            after = await figures(one)
            while after['virtuallog_console_tail_lag_entries{part="tail"}']:  # counted once the send has returned
                after = await figures(one)

    assert before["virtuallog_console_connections"] == 1
    assert after["virtuallog_console_connections"] >= 2
    assert after["virtuallog_console_connections_total"] >= 4
    assert after['virtuallog_console_requests_total{status="4xx"}'] == 1
    assert after['virtuallog_console_requests_total{status="2xx"}'] >= 2
    assert after['virtuallog_console_problems_total{kind="not-found"}'] == 1
    assert after["virtuallog_console_tails"] == 1
    assert after["virtuallog_console_tail_events_total"] == 3
    assert after['virtuallog_console_tail_lag_entries{part="log"}'] == 0
    assert after['virtuallog_queue_items{queue="console streams"}'] == 1


async def test_figures_are_documented() -> None:
    """Every family of a console, with its type, in the reference of metrics."""
    document = (ROOT / "docs/reference/metrics.md").read_text()
    documented = dict(re.findall(r"(?m)^\| `(virtuallog_console_\w+)` \| (\w+) \|", document))
    async with served() as one:
        answer = await one.get("/metrics")

    assert dict(re.findall(r"(?m)^# TYPE (virtuallog_console_\w+) (\w+)$", answer.body.decode())) == documented
