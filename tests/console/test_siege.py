"""A console that is scanned: it answers its callers meanwhile, and what it holds is bounded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from tests.console.served import PATIENCE_SECONDS, Owners, Served, served
from tests.console.test_metrics import figures
from virtuallog.rpc.tls_acceptor import ADDRESS_HANDSHAKES_MAX
from virtuallog.runtime.clock import SystemClock
from virtuallog.testing.logs import capture_logs
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.process import CONNECTIONS_MAX
from virtuallog_lab.experiments.console_callers import ConsoleAddress, PortScanner, TailReaders

SCANS_OF_A_KIND = 60
TAILS = 100


async def scan(one: Served, tls: bool, *, task_status: trio.TaskStatus[None]) -> None:
    """Scan the port in all ways at once, until cancelled. Started once each connection was opened."""
    target = ConsoleAddress.of(f"http{'s' if tls else ''}://127.0.0.1:{one.port}")
    scanner = PortScanner(target, SystemClock())
    async with trio.open_nursery() as nursery:
        for name, way in scanner.scans().items():
            for _ in range(SCANS_OF_A_KIND):
                nursery.start_soon(scanner.scan_once, name, way)
        while min(scanner.counted.get(name, 0) for name in scanner.scans()) < SCANS_OF_A_KIND:
            await trio.lowlevel.checkpoint()
        task_status.started()


@pytest.mark.parametrize("tls", [False, True])
async def test_a_port_scan_keeps_no_caller_out(tls: bool, tmp_path: Path) -> None:
    """Strangers close, hold, drip, send bytes, halves of hellos and large heads: a hundred tails go on, requests are answered, and
    connections are bounded. Nothing is a failure of the console."""
    owners = Owners.in_(tmp_path) if tls else None
    policy = AccessPolicy(tls=tls, hosts=frozenset({"localhost"}))
    async with served(policy, tls=owners.console if owners else None) as served_one, trio.open_nursery() as nursery:
        one, identity = served_one, None
        if owners is not None:
            one = one.as_(owners.client)
            identity = (str(owners.client.certificate), str(owners.client.key), str(owners.client.authority))
        readers = TailReaders(ConsoleAddress.of(f"http{'s' if tls else ''}://127.0.0.1:{one.port}", identity))
        with trio.fail_after(PATIENCE_SECONDS), capture_logs() as lines:  # noqa: TID251 -- real sockets
            await nursery.start(readers.run, TAILS)
            await nursery.start(scan, one, tls)
            for number in range(10):
                assert (await one.post("/v1/entries", b"%d" % number)).status == 201
            during = await figures(one)
            while readers.counted["events"] < 10 * TAILS:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()

    assert readers.counted["ended"] == 0
    assert during["virtuallog_console_tails"] == TAILS
    assert during["virtuallog_console_connections"] <= TAILS + CONNECTIONS_MAX + ADDRESS_HANDSHAKES_MAX + 2
    assert during.get('virtuallog_console_requests_total{status="5xx"}', 0) == 0
    assert failures(lines) == []


def failures(lines: Sequence[dict[str, object]]) -> list[object]:
    """Lines of the log that are no refusal of a stranger."""
    about_strangers = ("connection refused", "more of such warnings were not logged")
    return [line for line in lines if line["event"] not in about_strangers]
