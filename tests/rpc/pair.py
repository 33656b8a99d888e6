"""Two connection machines back to back: what one puts out goes into the other."""

from __future__ import annotations

from typing import Any

import attrs

from tests.rpc.shop import IDENTITY, annex, interfaces
from virtuallog.ports import Request
from virtuallog.rpc.connection import Connection
from virtuallog.rpc.events import CallArrived, Event, ReturnArrived
from virtuallog.rpc.methods import bind
from virtuallog.rpc.node import Identity


def _client() -> Connection:
    return Connection.new(bind((*interfaces(), *annex())))


def _server() -> Connection:
    return Connection.new(bind(interfaces()), lambda: IDENTITY)


@attrs.define
class Pair:
    client: Connection = attrs.field(factory=_client)
    server: Connection = attrs.field(factory=_server)

    def to_server(self) -> list[Event]:
        return self.server.receive_untrusted(b"".join(self.client.outbox.take()))

    def to_client(self) -> list[Event]:
        return self.client.receive_untrusted(b"".join(self.server.outbox.take()))

    def arrived(self) -> list[tuple[int, Request[Any]]]:
        """Calls that reach the server now."""
        return [(event.answer, event.request) for event in self.to_server() if isinstance(event, CallArrived)]

    def returned(self) -> dict[int, Any]:
        """Outcomes that reach the client now."""
        return {event.question: event.outcome for event in self.to_client() if isinstance(event, ReturnArrived)}


def server_with(identity: Identity) -> Connection:
    return Connection.new(bind(interfaces()), lambda: identity)
