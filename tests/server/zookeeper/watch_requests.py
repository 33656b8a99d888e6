"""Requests about watches, as a raw client of ZooKeeper's protocol sends them."""

from __future__ import annotations

from tests.server.zookeeper.world import RawClient, Reply
from virtuallog_simulation.workload.database.jute import Writer

CREATED, DELETED, DATA, CHILDREN = 1, 2, 3, 4
PERSISTENT, RECURSIVE = 0, 1
ADD_WATCH, CHECK_WATCHES, REMOVE_WATCHES, SET_WATCHES2 = 106, 17, 18, 105
MULTI = 14


async def add_watch(client: RawClient, path: str, mode: int) -> None:
    """Add a watch that stays."""
    assert (await client.call(ADD_WATCH, Writer().string(path).int32(mode))).error == 0


def restored(since: int, **paths: list[str]) -> Writer:
    """The body of a setWatches2."""
    body = Writer().int64(since)
    for kind in ("data", "exist", "child", "persistent", "recursive"):
        body.strings(paths.get(kind, []))
    return body


def multi(*operations: tuple[int, Writer]) -> Writer:
    """The body of a multi."""
    body = Writer()
    for kind, operation in operations:
        body.int32(kind).flag(False).int32(-1)
        body.content += operation.content
    return body.int32(-1).flag(True).int32(-1)


async def events_and_reply(
    client: RawClient, kind: int, body: Writer | None = None, xid: int | None = None
) -> tuple[list[tuple[int, str]], Reply]:
    """The answer to a request, and the events that come before it."""
    number = await client.send(kind, body, xid)
    events = []
    while (reply := await client.reply()).xid == -1:
        event, _ = reply.body.int32(), reply.body.int32()
        events.append((event, reply.body.string()))
    assert (reply.xid, reply.error) == (number, 0)
    return events, reply


async def events_before_ping(client: RawClient) -> list[tuple[int, str]]:
    """The events that come before the answer to a ping."""
    events, _ = await events_and_reply(client, 11, xid=-2)
    return events
