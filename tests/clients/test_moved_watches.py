"""A recursive watch of a client whose server is killed, at another server, and across swaps of the log: raw requests, no library.

What a cache such as Curator's needs: each znode is in the list that was read behind the watch, or an event tells of it, once and in
order; and what a client has seen at one server it sees at the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import attrs
import pytest
import trio

from tests.clients.ensembles import ENSEMBLES, SIZE, Ensemble, Open, VirtualLogEnsemble
from tests.server.zookeeper.watch_requests import (
    CREATED,
    RECURSIVE,
    SET_WATCHES2,
    add_watch,
    events_and_reply,
    restored,
)
from tests.server.zookeeper.world import RawClient, watched
from virtuallog.contract.errors import UnavailableError
from virtuallog_simulation.workload.database.jute import Writer

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.xdist_group("clients")]

GET_CHILDREN, SYNC = 8, 9
MOVE_SECONDS = 30.0
WRITES = 40
"""Znodes that are made in each part."""


@attrs.frozen
class Dialler:
    """Opens connections to single servers, all of which are closed at the end of the test."""

    ensemble: Ensemble
    stack: AsyncExitStack

    async def dial(self, server: int) -> RawClient:
        """A connection before its handshake."""
        host, _, port = self.ensemble.addresses[server - 1].partition(":")
        return RawClient(await self.stack.enter_async_context(await trio.open_tcp_stream(host, int(port))))

    async def move(self, client: RawClient, server: int, seen: int) -> RawClient:
        """The client's session at another server. One that is behind what it has seen closes the connection; then it tries again."""
        with trio.fail_after(MOVE_SECONDS):
            while True:
                moved = await self.dial(server)
                with suppress(UnavailableError, trio.BrokenResourceError):
                    await moved.connect(session=client.session, password=client.password, last_zxid=seen)
                    assert moved.session == client.session
                    return moved
                await trio.sleep(0.05)


async def events_and_children(client: RawClient) -> tuple[list[tuple[int, str]], set[str]]:
    """Names below /t, as this server has them, and the events before that answer."""
    events, listed = await events_and_reply(client, GET_CHILDREN, watched("/t", False))
    return events, set(listed.body.strings())


async def events_before_sync(client: RawClient) -> tuple[list[tuple[int, str]], int]:
    """All events of what was answered to others before, and the zxid of this server."""
    events, reply = await events_and_reply(client, SYNC, Writer().string("/t"))
    return events, reply.zxid


def creations(names: Iterable[str]) -> list[tuple[int, str]]:
    return [(CREATED, f"/t/{name}") for name in names]


async def swap(ensemble: Ensemble, kind: str) -> None:
    """Swap the log, if it is one that can be."""
    if isinstance(ensemble, VirtualLogEnsemble):
        await ensemble.swap(kind)


async def write(writer: RawClient, ensemble: Ensemble, first: int, kind: str) -> list[str]:
    """Make znodes, and swap the log meanwhile; the names, in order."""
    names = [f"{number:05}" for number in range(first, first + WRITES)]
    async with trio.open_nursery() as nursery:
        for number, name in enumerate(names):
            if number == WRITES // 2:
                nursery.start_soon(swap, ensemble, kind)
            assert (await writer.create(f"/t/{name}")).error == 0
    return names


@pytest.mark.parametrize("open_ensemble", ENSEMBLES)
async def test_a_recursive_watch_and_a_list_show_each_znode_once(tmp_path: Path, open_ensemble: Open) -> None:
    """At one server while the log is swapped; then at another one, as its server was killed, with the session and the last zxid of
    before."""
    async with open_ensemble(tmp_path) as ensemble, AsyncExitStack() as stack:
        dialler = Dialler(ensemble, stack)
        leader = await ensemble.leader()
        own, other = (server for server in range(1, SIZE + 1) if server != leader)
        writer, watcher = await dialler.dial(leader), await dialler.dial(own)
        for client in (writer, watcher):
            await client.connect()
        await writer.create("/t")
        await events_before_sync(watcher)
        await add_watch(watcher, "/t", RECURSIVE)
        made = await write(writer, ensemble, 0, "paxos")
        told, seen = await events_before_sync(watcher)
        assert told == creations(made)

        await ensemble.kill(own)
        made += await write(writer, ensemble, WRITES, "raft")
        moved = await dialler.move(watcher, other, seen)
        events, _ = await events_and_reply(moved, SET_WATCHES2, restored(seen, recursive=["/t"]), xid=-8)
        assert events == [], "what was missed is not told again"
        events, listed = await events_and_children(moved)
        assert listed >= set(made[:WRITES]), "what it has seen at the former server"
        made += await write(writer, ensemble, 2 * WRITES, "native")
        told, _ = await events_before_sync(moved)
        assert events + told == creations(
            name for name in made if name not in listed or (CREATED, f"/t/{name}") in events
        )
