"""A console with actions over some log, as its callers use it: forms in, pages out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import attrs
import trio

from tests.console.asgi import Exchange, Room, room
from tests.console.pages.page_reader import PageReader, read
from tests.console.served import Answer
from virtuallog.audit import AuditRecord
from virtuallog.client.scan import scan
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog_console.access.core.policy import AccessPolicy
from virtuallog_console.actions.action_pages import FORM, ActionPages
from virtuallog_console.door.tail_hub import TailHub
from virtuallog_console.pages.page_routes import Pages
from virtuallog_console.settings import ConsoleSettings
from virtuallog_console.views.audit_records import find_record
from virtuallog_metastore import PaxosProvider

POLICY = ConsoleSettings(proxy=("10.0.0.1",), admins=("alice",), hosts=("localhost",), actions=True).policy
USERS: Mapping[str, Mapping[str, Any]] = {
    "alice": {"address": "10.0.0.1", "headers": {"X-Forwarded-User": "alice"}},
    "bob": {"address": "10.0.0.1", "headers": {"X-Forwarded-User": "bob"}},
    "loopback": {},
}
"""Callers: an admin and a client behind a proxy, and a program on this machine."""


@attrs.frozen
class ActingConsole:
    """The console, and its log."""

    room: Room
    log: VirtualLog

    async def get(self, path: str, user: str = "alice") -> Answer:
        place, _, query = path.partition("?")
        return await self.room.ask(path=place, query=query, **USERS[user])

    async def page(self, path: str, status: int = 200) -> PageReader:
        """A page for the admin. It is whole, and has nothing that could run."""
        answer = await self.get(path)
        assert answer.status == status, answer.body
        return read(answer.body.decode())

    def form(self, name: str, user: str = "alice", headers: Mapping[str, str] = {}, **values: Any) -> Exchange:
        """A form that is about to be sent."""
        asked = USERS[user]
        named = {"content-type": FORM, **asked.get("headers", {}), **headers}
        return Exchange(
            method="POST",
            path=f"/actions/{name}",
            body=[urlencode(values).encode()],
            headers=named,
            address=asked.get("address", "127.0.0.1"),
        )

    async def send(self, exchange: Exchange) -> Answer:
        return await exchange.run(self.room.application, self.room.clock)

    async def post(self, name: str, user: str = "alice", **values: Any) -> Answer:
        return await self.send(self.form(name, user, **values))

    async def act(self, name: str, confirmation: str, status: int = 200, **arguments: Any) -> PageReader:
        """Confirm an action for the version of this moment."""
        version = (await self.log.view.refresh()).version
        answer = await self.post(name, confirmation=confirmation, version=version, **arguments)
        assert answer.status == status, answer.body
        return read(answer.body.decode())

    async def records(self) -> Sequence[AuditRecord]:
        """The audit records in the log, as a program reads them."""
        found: list[AuditRecord] = []
        tail = (await self.log.check_tail()).tail
        async for piece in scan(self.log, await self.log.find_trim_point(), LogPosition(tail)):
            for placed in piece:
                payloads = [each.payload for each in placed.records()] if isinstance(placed, PlacedBatch) else []
                found += [record for payload in payloads if (record := find_record(payload)) is not None]
        return found


@asynccontextmanager
async def acting(log: VirtualLog, policy: AccessPolicy = POLICY, archives: str = "") -> AsyncIterator[ActingConsole]:
    """Serve actions and pages over this log."""
    async with trio.open_nursery() as nursery:
        pages = Pages(log, PaxosProvider())
        hub = TailHub(log, log.view.environment.clock)
        nursery.start_soon(hub.run)
        nursery.start_soon(pages.run)
        groups = [pages.routes(hub), ActionPages.of(log, policy, archives).routes()]
        yield ActingConsole(room(log, nursery, policy, groups=groups), log)
        nursery.cancel_scope.cancel()
