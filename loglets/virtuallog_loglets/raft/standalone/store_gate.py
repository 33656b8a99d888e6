"""Handlers of a store from the start of its process on: until it has read its records, it says so."""

from __future__ import annotations

from typing import Any, Final

import attrs

from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.ports import Done, Handler, Handlers, Request
from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft import wire
from virtuallog_loglets.raft.messages import GetLogMembership
from virtuallog_loglets.raft.standalone.member_status import bootstrapping

INTERFACES: Final = (wire.PEER, wire.REPLICA, wire.MEMBERSHIP)
"""Interfaces of a store."""


@attrs.define(eq=False)
class StoreGate:
    """Handlers of a store, from before it has read its records."""

    store: NodeId
    live: Handlers = attrs.field(factory=dict)
    """Handlers of the log; empty until it is open."""

    def handlers(self) -> dict[type[Request[Any]], Handler]:
        """A handler for each request to a store."""
        return {method.request: self._handle for interface in INTERFACES for method in interface.methods}

    def _handle(self, request: Request[Any], done: Done) -> None:
        handler = self.live.get(type(request))
        if handler is not None:
            handler(request, done)
        elif isinstance(request, GetLogMembership):
            done(bootstrapping(self.store))
        else:
            done(UnavailableError(f"store {self.store} reads its records, and serves nothing yet"))
