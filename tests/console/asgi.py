"""The application of a console without sockets: a request in, an answer out, on any clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import trio
from starlette.types import Message

from tests.console.served import Answer
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.caller_roles import Principal
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog.testing.sim.clock import SimulatedClock
from virtuallog.testing.sim.process import Process
from virtuallog_console.access.admission import Admission
from virtuallog_console.access.application import ConsoleApplication
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.access.routes import RouteGroup
from virtuallog_console.door.entry_json import Hides, hides_nothing
from virtuallog_console.door.log_door import door
from virtuallog_console.door.tail_hub import TailHub
from virtuallog_server.process.console.http_connections import CONNECTION, HttpConnection


@attrs.define
class Exchange:
    """One request, and what has come back."""

    method: str = "GET"
    path: str = "/v1/log"
    query: str = ""
    body: Sequence[bytes] = ()
    """Pieces of the body."""
    headers: dict[str, str] = attrs.field(factory=dict)
    address: str = "127.0.0.1"
    peer: Principal | None = None
    takes: int | None = None
    """Bytes after which the client goes. None if it stays until the end."""
    is_unfinished: bool = False
    """True if the rest of the body never comes."""
    stalls: bool = False
    """True if the client takes nothing."""
    may_take: trio.Event | None = None
    """The client takes nothing until then. None if it takes everything at once."""
    raw_headers: Sequence[tuple[bytes, bytes]] = ()
    sent: list[Message] = attrs.field(factory=list, init=False)
    was_cut: trio.Event = attrs.field(factory=trio.Event, init=False)
    gone: trio.Event = attrs.field(factory=trio.Event, init=False)

    def scope(self, clock: Clock) -> dict[str, Any]:
        headers = {"host": "localhost", **{name.lower(): value for name, value in self.headers.items()}}
        if self.body:
            headers.setdefault("content-length", str(sum(map(len, self.body))))
            headers.setdefault("content-type", "text/plain")
        connection = HttpConnection(self.address, self.peer, clock, self.was_cut.set, clock.monotonic() + 300)
        return {
            "type": "http",
            "method": self.method,
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query.encode(),
            "root_path": "",
            "headers": [*((k.encode(), v.encode("latin-1")) for k, v in headers.items()), *self.raw_headers],
            "state": {CONNECTION: connection},
        }

    async def run(self, application: ConsoleApplication, clock: Clock) -> Answer:
        """Send it; the answer is what had come when the client went or the answer ended."""
        left = [*self.body]
        is_whole = False

        async def receive() -> Message:
            nonlocal is_whole
            if not is_whole:
                part = left.pop(0) if left else b""
                is_whole = not left
                return {"type": "http.request", "body": part, "more_body": bool(left) or self.is_unfinished}
            await self.gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if self.stalls and message["type"] == "http.response.body":
                await self.was_cut.wait()
                self.gone.set()
            if self.may_take is not None and message["type"] == "http.response.body":
                await self.may_take.wait()
            self.sent.append(message)
            if self.takes is not None and len(self.received) >= self.takes:
                self.gone.set()
            await trio.lowlevel.checkpoint()

        await application(self.scope(clock), receive, send)
        return self.answer

    @property
    def received(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def answer(self) -> Answer:
        start: Message = self.sent[0] if self.sent else {"status": 0, "headers": []}
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in start["headers"]}
        return Answer(start["status"], headers, self.received)


@attrs.define
class Room:
    """An application over a log, and its clock."""

    application: ConsoleApplication
    hub: TailHub
    clock: SimulatedClock

    async def ask(self, **request: Any) -> Answer:
        return await Exchange(**request).run(self.application, self.clock)


def room(
    log: VirtualLog,
    nursery: trio.Nursery,
    policy: AccessPolicy | None = None,
    *,
    groups: Sequence[RouteGroup] = (),
    admission: Admission | None = None,
    hides: Hides = hides_nothing,
) -> Room:
    """An application over this log; its hub runs in the nursery."""
    clock = SimulatedClock(Process(NodeId(99)))
    hub = TailHub(log, clock)
    nursery.start_soon(hub.run)
    groups = [door(log, hub, clock, hides), *groups]
    return Room(ConsoleApplication(groups, policy or AccessPolicy(), clock, admission), hub, clock)
