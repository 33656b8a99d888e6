"""Callers of a console, each kind as a process of its own: readers of tails, and a port scanner.

    python -m virtuallog_lab.experiments.console_callers tails https://127.0.0.1:8443 --count 100 --identity CERTIFICATE KEY AUTHORITY
    python -m virtuallog_lab.experiments.console_callers scan https://127.0.0.1:8443 --rate 100

Each reads lines from its standard input until that ends. On `begin` it calls, and says `under way` once it does; on `count` it prints its counts
as one JSON object; on `end` it closes all of its connections, and prints its counts, too. With `--idle` it has SCHED_IDLE: callers have
machines of their own, and here they take the time that is left over.
"""

from __future__ import annotations

import json
import os
import random
import ssl
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Final, TypeAlias
from urllib.parse import urlsplit

import attrs
import click
import trio
from trio.abc import Stream

from virtuallog.contract.ports import Clock
from virtuallog.runtime.clock import SystemClock

READ_BYTES: Final = 1 << 18
"""Bytes that a reader of a tail takes at a time."""
HELD_MAX: Final = 400
"""Connections that the scanner has open at a time. One more is not made, and counted."""
SCANNER: Final = "127.0.0.2"
"""Address of the scanner, which the console tells from those of other callers."""
HOLD_SECONDS: Final = 20.0
"""Seconds for which a scanner holds a connection that the console does not end."""
DRIP_SECONDS: Final = 0.5
"""Pause between two bytes of a head that drips in."""
ANSWER_BYTES_MAX: Final = 1 << 16
HEAD_BYTES: Final = 64 << 10
"""Bytes of a head that no server takes."""
Scan: TypeAlias = Callable[[Stream], Awaitable[None]]


@attrs.frozen
class ConsoleAddress:
    """The console that is called."""

    host: str
    port: int
    context: ssl.SSLContext | None
    """None without TLS."""

    @classmethod
    def of(cls, url: str, identity: tuple[str, str, str] | None = None) -> ConsoleAddress:
        """The console at a URL, called with certificate, key and authority."""
        parts = urlsplit(url)
        context = None
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=identity[2] if identity else None)
            context.check_hostname = False
            if identity:
                context.load_cert_chain(identity[0], identity[1])
            else:
                context.verify_mode = ssl.CERT_NONE
        return cls("127.0.0.1", parts.port or 443, context)

    async def connect(self) -> Stream:
        """A connection, inside TLS if the console has it."""
        stream = await trio.open_tcp_stream(self.host, self.port)
        if self.context is None:
            return stream
        return trio.SSLStream(stream, self.context, server_hostname="localhost", https_compatible=True)


@attrs.define(eq=False)
class TailReaders:
    """Readers of `GET /v1/tail?latest=true`, which count what comes."""

    console: ConsoleAddress
    counted: Counter[str] = attrs.field(factory=Counter)
    _line_ends: int = attrs.field(default=0, init=False)

    async def run(self, count: int, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read so many tails until cancelled. A tail that ends is opened again where it ended, as a browser does. Started once all
        are open.
        """
        async with trio.open_nursery() as nursery:
            for _ in range(count):
                await nursery.start(self._follow)
            task_status.started()

    async def _follow(self, *, task_status: trio.TaskStatus[None]) -> None:
        told, last = False, b""
        while True:
            async with await self.console.connect() as stream:
                await stream.send_all(
                    b"GET /v1/tail?latest=true HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: %b\r\n\r\n" % last
                )
                while part := await stream.receive_some(READ_BYTES):
                    if not told:
                        told = True
                        task_status.started()
                    self.counted["reads"] += 1
                    self.counted["bytes"] += len(part)
                    self.counted["events"] += part.count(b"\nid: ")
                    self._line_ends += part.count(b"\r\n")
                    self.counted["sends"] = self._line_ends // 2  # each is a chunk of the body: its size, and its bytes
            self.counted["ended"] += 1


@attrs.define(eq=False)
class PortScanner:
    """A stranger without a certificate, which opens connections at a rate and behaves on each in another way."""

    console: ConsoleAddress
    clock: Clock
    seed: int = 1
    counted: Counter[str] = attrs.field(factory=Counter)
    _open: int = 0
    _chance: random.Random = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._chance = random.Random(self.seed)

    async def run(self, rate: float, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Scan with `rate` connections per second until cancelled. Started with the first of them."""
        task_status.started()
        due = self.clock.monotonic()
        async with trio.open_nursery() as nursery:
            while True:
                for name, scan in self.scans().items():
                    due += 1 / rate
                    await self.clock.sleep(max(0.0, due - self.clock.monotonic()))
                    if self._open >= HELD_MAX:
                        self.counted["left out"] += 1
                    else:
                        nursery.start_soon(self.scan_once, name, scan)

    async def scan_once(self, name: str, scan: Scan) -> None:
        """One connection, until the console or the scan has ended it."""
        self._open += 1
        self.counted[name] += 1
        try:
            with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                async with await trio.open_tcp_stream(
                    self.console.host, self.console.port, local_address=SCANNER
                ) as stream:
                    with self.clock.timeout(HOLD_SECONDS):
                        await scan(stream)
        finally:
            self._open -= 1

    def scans(self) -> Mapping[str, Scan]:
        """All ways to use a connection, by their names."""
        whole = {"handshakes without a certificate": self._shake} if self.console.context else {}
        return {
            "closed at once": self._close,
            "silent": self._drain,
            "random bytes": self._send_random,
            "halves of TLS hellos": self._send_half_hello,
            "dripping heads": self._drip,
            "other names": partial(self._ask, b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"),
            "paths of other programs": partial(self._ask, b"GET /wp-login.php HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            "large heads": partial(self._ask, b"GET / HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES),
            **whole,
        }

    async def _close(self, stream: Stream) -> None:
        await trio.lowlevel.checkpoint()

    async def _drain(self, stream: Stream) -> None:
        size = 0
        while size < ANSWER_BYTES_MAX and (part := await stream.receive_some(READ_BYTES)):
            size += len(part)
        self.counted["bytes answered"] += size

    async def _ask(self, sent: bytes, stream: Stream) -> None:
        await stream.send_all(sent)
        await self._drain(stream)

    async def _send_random(self, stream: Stream) -> None:
        await self._ask(self._chance.randbytes(200), stream)

    async def _send_half_hello(self, stream: Stream) -> None:
        hello = client_hello()
        await self._ask(hello[: len(hello) // 2], stream)

    async def _drip(self, stream: Stream) -> None:
        for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: " + b"x" * HEAD_BYTES:
            await stream.send_all(bytes([byte]))
            await self.clock.sleep(DRIP_SECONDS)

    async def _shake(self, stream: Stream) -> None:
        assert self.console.context is not None
        secured = trio.SSLStream(stream, self.console.context, server_hostname="localhost", https_compatible=True)
        await self._ask(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", secured)


@cache
def client_hello() -> bytes:
    """The first flight of a client of TLS."""
    context = ssl.create_default_context()
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(received, sent, server_hostname="localhost").do_handshake()
    return sent.read()


def be_idle() -> None:
    """Take idle processor time alone, from now on."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


async def _obey(make: Callable[[], TailReaders | PortScanner], amount: int) -> None:
    """Call from each line `begin` of the standard input to the next line."""
    while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        caller = make()
        async with trio.open_nursery() as nursery:
            await nursery.start(caller.run, amount)
            click.echo("under way")
            while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True) == "count\n":
                click.echo(json.dumps(caller.counted))
            nursery.cancel_scope.cancel()
        click.echo(json.dumps(caller.counted))


@click.group()
@click.option("--idle", is_flag=True, help="Take idle processor time alone.")
def main(*, idle: bool) -> None:
    """Call a console at each line `begin` of the standard input, until the line `end`."""
    if idle:
        be_idle()


@main.command()
@click.argument("url")
@click.option("--count", default=100, type=click.IntRange(min=1), help="Tails.")
@click.option("--identity", nargs=3, default=None, help="Certificate, key and authority.")
def tails(url: str, count: int, identity: tuple[str, str, str] | None) -> None:
    """Follow the log."""
    console = ConsoleAddress.of(url, identity)
    trio.run(_obey, lambda: TailReaders(console), count)


@main.command()
@click.argument("url")
@click.option("--rate", default=100, type=click.IntRange(min=1), help="Connections per second.")
def scan(url: str, rate: int) -> None:
    """Scan a port."""
    console = ConsoleAddress.of(url)
    trio.run(_obey, lambda: PortScanner(console, SystemClock()), rate)


if __name__ == "__main__":
    main()
