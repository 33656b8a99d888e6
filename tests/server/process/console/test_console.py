"""The console over HTTP, in front of a node that is made up."""

from __future__ import annotations

import http.client
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from tests.server.process.console.http_client import get
from virtuallog.contract import metrics
from virtuallog.contract.address import split_address
from virtuallog.contract.metrics import MetricFamily
from virtuallog.rpc.transport import bound_address, tcp_listen
from virtuallog_server.process.console.application import Console
from virtuallog_server.process.console.http_server import CONNECTIONS_MAX, REQUEST_BYTES_MAX, HttpServer


@attrs.define
class Subject:
    """A node, as far as the console looks at it."""

    missing: list[str] = attrs.field(factory=list)
    broken: bool = False

    def not_ready(self) -> Sequence[str]:
        return self.missing

    def plain_status(self) -> dict[str, Any]:
        return {"node": 1, "state": "running"}

    figures: int = 1

    def metrics(self) -> Sequence[MetricFamily]:
        if self.broken:
            raise RuntimeError("a part that cannot count")
        return [metrics.gauge("virtuallog_node_problems", "Problems.", len(self.missing))] * self.figures


@asynccontextmanager
async def console(subject: Subject) -> AsyncIterator[int]:
    """Serves the subject; gives the port."""
    listeners = await tcp_listen("127.0.0.1:0")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(HttpServer(Console(subject, [subject, object()])).run, listeners)
        yield split_address(bound_address(listeners[0]))[1]
        nursery.cancel_scope.cancel()


async def test_the_pages_say_how_the_node_is() -> None:
    """Alive, ready, its status, its figures, and where all that is."""
    async with console(Subject()) as port:
        assert (await get(port, "/healthz")).status == 200
        assert (await get(port, "/readyz")).text == "ready\n"
        assert (await get(port, "/status")).text == '{"node":1,"state":"running"}'
        assert "virtuallog_node_problems 0.0\n" in (await get(port, "/metrics")).text
        assert "/metrics" in (await get(port, "/")).text.splitlines()


async def test_figures_come_in_the_format_that_prometheus_asks_for() -> None:
    """Its content type names the version of the text format."""
    async with console(Subject()) as port:
        answer = await get(port, "/metrics")

        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_a_node_that_is_not_ready_says_what_is_missing() -> None:
    """503, so that it gets no work; still alive, so that it is not restarted."""
    async with console(Subject(missing=["native is not open", "the register is not known"])) as port:
        answer = await get(port, "/readyz")

        assert (answer.status, answer.text) == (503, "native is not open\nthe register is not known\n")
        assert (await get(port, "/healthz")).status == 200


@pytest.mark.parametrize("path", ["/nothing", "/metrics/", "/%2e%2e/etc/passwd"])
async def test_other_pages_do_not_exist(path: str) -> None:
    """Nothing else of the machine can be seen."""
    async with console(Subject()) as port:
        assert (await get(port, path)).status in {307, 404}


async def test_a_part_that_fails_costs_this_answer_only() -> None:
    """500 for the scrape; the console and its other pages go on."""
    subject = Subject(broken=True)
    async with console(subject) as port:
        assert (await get(port, "/metrics")).status == 500
        assert (await get(port, "/healthz")).status == 200
        subject.broken = False
        assert (await get(port, "/metrics")).status == 200


async def first_bytes(stream: trio.SocketStream) -> bytes:
    try:
        return bytes(await stream.receive_some())
    except trio.BrokenResourceError:
        return b""


async def test_connections_that_say_nothing_push_each_other_out() -> None:
    """However many there are, a page is served, again and again: the oldest of them are closed."""
    async with console(Subject()) as port:
        silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(3 * CONNECTIONS_MAX)]
        for _ in range(3):
            assert (await get(port, "/healthz")).status == 200
        for stream in silent[: 2 * CONNECTIONS_MAX]:
            assert await first_bytes(stream) == b""
        for stream in silent:
            await stream.aclose()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:{port}", 200),
        ("127.3.2.1", 200),
        ("[::1]:{port}", 200),
        ("attacker.example:{port}", 421),
        ("localhost.attacker.example", 421),
        ("127.0.0.1.attacker.example", 421),
        ("10.0.0.1:{port}", 421),
        ("[::1].attacker.example", 421),
        ("", 421),
    ],
)
@pytest.mark.parametrize("page", ["/status", "/metrics", "/nothing"])
async def test_pages_are_for_requests_that_name_this_machine(host: str, status: int, page: str) -> None:
    """A foreign name that points here is refused for any page (DNS rebinding): as an HTTP client sees it."""
    async with console(Subject()) as port:
        found = await trio.to_thread.run_sync(partial(_status_of, port, page, host.format(port=port)))

    assert found == (404 if status == 200 and page == "/nothing" else status)


def _status_of(port: int, page: str, host: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", page, headers={"Host": host})
        return connection.getresponse().status
    finally:
        connection.close()


async def ask_often(stream: trio.SocketStream) -> None:
    with suppress(trio.BrokenResourceError):
        await stream.send_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)


async def test_who_takes_no_answers_does_not_keep_the_console_from_ending() -> None:
    """A thousand pages are asked for and none is read: when the node ends, the connection is cut. (Else this test would
    never end: Hypercorn sends behind a shield.)"""
    async with trio.open_nursery() as nursery:
        async with console(Subject(figures=20_000)) as port:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            nursery.start_soon(ask_often, stream)
            await wait_all_tasks_blocked(0.3)
        nursery.cancel_scope.cancel()

    assert stream.socket.fileno() >= 0, "it was not the client that hung up"
    await stream.aclose()


@pytest.mark.parametrize(
    "sent",
    [
        b"\0" * 100,
        b"HELLO\r\n\r\n",
        b"GET /" + b"a" * 4 * REQUEST_BYTES_MAX,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
async def test_what_is_no_request_ends_its_connection_only(sent: bytes) -> None:
    """Rubbish, endless heads and other protocols are refused, and the next one is served."""
    async with console(Subject()) as port:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(sent)
            await stream.send_eof()
            answer = b"".join([chunk async for chunk in stream])

        assert b"HTTP/1.1 200" not in answer
        assert (await get(port, "/healthz")).status == 200
