"""Two connection machines back to back: the output of one is the input of the other."""

from __future__ import annotations

from typing import Any

import attrs

from tests.virtuallog.rpc.shop import IDENTITY, annex, interfaces
from virtuallog.contract.ports import Request
from virtuallog.rpc.protocol.connection import RpcConnection
from virtuallog.rpc.protocol.events import CallArrived, Event, ReturnArrived
from virtuallog.rpc.protocol.methods import bind
from virtuallog.rpc.protocol.node import Identity


def _client() -> RpcConnection:
    return RpcConnection.new(bind((*interfaces(), *annex())))


def _server() -> RpcConnection:
    return RpcConnection.new(bind(interfaces()), lambda: IDENTITY)


@attrs.define
class Pair:
    client: RpcConnection = attrs.field(factory=_client)
    server: RpcConnection = attrs.field(factory=_server)

    def to_server(self) -> list[Event]:
        return self.server.receive_untrusted(b"".join(self.client.outbox.take()))

    def to_client(self) -> list[Event]:
        return self.client.receive_untrusted(b"".join(self.server.outbox.take()))

    def arrived(self) -> list[tuple[int, Request[Any]]]:
        """Deliver calls to the server and return them."""
        return [(event.answer, event.request) for event in self.to_server() if isinstance(event, CallArrived)]

    def returned(self) -> dict[int, Any]:
        """Deliver returns to the client and return their outcomes."""
        return {event.question: event.outcome for event in self.to_client() if isinstance(event, ReturnArrived)}


def server_with(identity: Identity) -> RpcConnection:
    return RpcConnection.new(bind(interfaces()), lambda: identity)
