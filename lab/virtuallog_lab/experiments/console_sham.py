"""A server in place of a console, which sends each reader of a tail the same bytes again and again, and calls no cluster.

    python -m virtuallog_lab.experiments.console_sham --identity CERTIFICATE KEY AUTHORITY

It prints its port. Then each line of its standard input sets its pace: sends per second and bytes per second, of all readers together. All
readers are sent at the same time, as by a console. So readers cost what they cost at a console with the same pace; the sham costs less.
"""

from __future__ import annotations

import ssl
import sys
from contextlib import suppress
from typing import Final

import attrs
import click
import trio
from trio.abc import Stream

from virtuallog.contract.ports import Clock
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.experiments.console_callers import READ_BYTES, be_idle

EVENT: Final = (
    b'event: entry\nid: 1000000\ndata: {"position": 1000000, "time_ms": 1796000000000, "base64": "%b=="}\n\n'
    % (b"A" * 134)
)
"""Event of an entry of 100 bytes."""
HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
FIRST: Final = b": the log from 0 on\n\n"
PAUSE_SECONDS: Final = 0.05
"""Pause between two looks for readers, while there are none or the pace is 0."""


@attrs.define(eq=False)
class TailSham:
    """The server. `serve` takes its connections, and `run` sends."""

    clock: Clock
    context: ssl.SSLContext | None
    """None without TLS."""
    sends: float = 0.0
    """Sends per second, to all readers together."""
    size: float = 0.0
    """Bytes per second, to all readers together."""
    _open: set[Stream] = attrs.field(factory=set, init=False)

    async def serve(self, stream: Stream) -> None:
        """Keep one connection until the reader ends it."""
        if self.context is not None:
            stream = trio.SSLStream(stream, self.context, server_side=True, https_compatible=True)
        with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            async with stream:
                await stream.receive_some(READ_BYTES)
                await stream.send_all(HEAD + chunk_of(FIRST))
                self._open.add(stream)
                try:
                    while await stream.receive_some(READ_BYTES):
                        pass
                finally:
                    self._open.discard(stream)

    async def run(self) -> None:
        """Send at the pace until cancelled."""
        due = self.clock.monotonic()
        while True:
            is_idle = not self._open or not self.sends
            due += PAUSE_SECONDS if is_idle else len(self._open) / self.sends
            await self.clock.sleep(max(0.0, due - self.clock.monotonic()))
            if self.sends:
                events = chunk_of(EVENT * max(1, round(self.size / self.sends / len(EVENT))))
                for stream in [*self._open]:
                    with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                        await stream.send_all(events)


def chunk_of(body: bytes) -> bytes:
    """A chunk of an HTTP body."""
    return b"%x\r\n%b\r\n" % (len(body), body)


def _context(identity: tuple[str, str, str] | None) -> ssl.SSLContext | None:
    if identity is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=identity[2])
    context.load_cert_chain(identity[0], identity[1])
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def _obey(sham: TailSham) -> None:
    """Take a pace from each line of the standard input, and end with it."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, sham.serve, listeners)
        nursery.start_soon(sham.run)
        click.echo(f"port {listeners[0].socket.getsockname()[1]} is open")
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            sham.sends, sham.size = map(float, line.split())
            click.echo("paced")
        nursery.cancel_scope.cancel()


@click.command()
@click.option("--idle", is_flag=True, help="Take idle processor time alone.")
@click.option("--identity", nargs=3, default=None, help="Certificate, key and authority.")
def main(*, idle: bool, identity: tuple[str, str, str] | None) -> None:
    """Send bytes to readers of tails, at the pace that lines of the standard input set."""
    if idle:
        be_idle()
    trio.run(_obey, TailSham(SystemClock(), _context(identity)))


if __name__ == "__main__":
    main()
