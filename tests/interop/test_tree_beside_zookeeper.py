"""Random commands to a real ZooKeeper 3.8 and to our tree: the same errors, paths, stats, rights and quotas.

The model that the tree is compared with elsewhere was written by the same people; this one was not. Times are left out, and zxids are
compared by their commands.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from kazoo import exceptions
from kazoo.client import KazooClient
from kazoo.protocol import serialization as wire
from kazoo.security import ACL, Id, make_digest_acl_credential

from tests.database.tree.world import IP, World
from tests.zookeeper_server import open_zookeeper
from virtuallog_database.tree.commands import (
    OPEN_ACL,
    Acl,
    Check,
    Create,
    CreateSession,
    Delete,
    Identity,
    Mode,
    Multi,
    Operation,
    Origin,
    SetAcl,
    SetData,
)
from virtuallog_database.tree.results import Error, RefusedError, Stat

OPERATIONS = 500
SETTINGS = ("extendedTypesEnabled=true", "enforceQuota=true")
ALICE = Identity("digest", make_digest_acl_credential("alice", "secret"))
ACLS = (
    OPEN_ACL, OPEN_ACL, OPEN_ACL, (Acl(31, "auth", ""),), (Acl(1, "world", "anyone"),), (),
    (Acl(31, "digest", "bob:x"), Acl(1, "world", "anyone")), (Acl(31, "ip", "127.0.0.0/8"),), (Acl(31, "ip", "10.0.0.1"),),
    (Acl(31, "ip", "127.000.0.01"),), (Acl(31, "ip", "::1"),), (Acl(31, "ip", "127.0.0.0/255.0.0.0"),),
)  # fmt: skip
QUOTA = (
    Create("/zookeeper/quota/a", b""),
    Create("/zookeeper/quota/a/zookeeper_limits", b"count=-1,bytes=-1=;byteHardLimit=20;countHardLimit=6"),
    Create("/zookeeper/quota/a/zookeeper_stats", b"count=-1,bytes=-1"),
)


class CreateTtl(wire.Create2):  # type: ignore[misc]
    """kazoo does not know it."""

    type = 21
    ttl_ms = 0

    def serialize(self) -> bytes:
        return bytes(super().serialize()) + struct.pack(">q", self.ttl_ms)


@attrs.define(eq=False)
class Both:
    """The real one and ours, one command at a time."""

    client: Any
    world: World
    origin: Origin
    zxids: dict[int, int] = attrs.field(factory=lambda: {0: 0})
    """zxid of the real one -> ours, for the same command."""

    def compare(self, operation: Operation) -> None:
        theirs, ours = self._ask(self._request(operation)), self.world.do(operation, self.origin)
        self.zxids[self.client.last_zxid] = ours.zxid
        if isinstance(operation, Multi):
            assert [_error(each) for each in theirs] == [each.error for each in ours.value], operation
            return
        assert _error(theirs) == ours.error, operation
        if isinstance(operation, Create) and not ours.error:
            assert (theirs[0], self.stat(theirs[1])) == (ours.value.path, _stat(ours.value.stat)), operation
        elif isinstance(operation, SetData | SetAcl) and not ours.error:
            assert self.stat(theirs) == _stat(ours.value), operation

    def compare_all(self, path: str = "/") -> int:
        """Compare everything below `path`, as it is read. Return the number of znodes."""
        tree, identities = self.world.tree, self.origin.identities
        assert self.stat(self.client.exists(path)) == _stat(tree.exists(path)), path
        for theirs, ours in (
            (lambda: self.client.get(path)[0], lambda: tree.get_data(path, identities)[0]),
            (lambda: _acl(self.client.get_acls(path)[0]), lambda: tree.get_acl(path, identities)[0]),
            (lambda: sorted(self.client.get_children(path)), lambda: tree.get_children(path, identities)[0]),
        ):
            assert _try(theirs) == _try(ours), path
        children = tree.get_children(path, (Identity("super", ""),))[0]
        return 1 + sum(self.compare_all(f"{path.rstrip('/')}/{name}") for name in children)

    def stat(self, stat: Any) -> tuple[object, ...]:
        ours = (self.zxids.get(zxid, zxid) for zxid in (stat.czxid, stat.mzxid, stat.pzxid))
        return (
            *ours,
            stat.version,
            stat.cversion,
            stat.aversion,
            stat.ephemeralOwner,
            stat.dataLength,
            stat.numChildren,
        )

    def _ask(self, request: Any) -> Any:
        answer = self.client.handler.async_result()
        self.client._call(request, answer)
        return _try(lambda: answer.get(timeout=30))

    def _request(self, operation: Operation) -> Any:
        match operation:
            case Create(path, data, acl, mode, ttl_ms) if mode in {Mode.TTL, Mode.TTL_SEQUENTIAL}:
                request = CreateTtl(path, data, _kazoo_acl(acl), mode)
                type(request).ttl_ms = ttl_ms
                return request
            case Create(path, data, acl, mode):
                return wire.Create2(path, data, _kazoo_acl(acl), mode)
            case Delete(path, version):
                return wire.Delete(path, version)
            case SetData(path, data, version):
                return wire.SetData(path, data, version)
            case SetAcl(path, acl, version):
                return wire.SetACL(path, _kazoo_acl(acl), version)
            case Check(path, version):
                return wire.CheckVersion(path, version)
            case Multi(operations):
                return wire.Transaction([self._request(each) for each in operations])
        raise AssertionError(operation)


def _try(ask: Any) -> Any:
    """The answer, or the Error."""
    try:
        return ask()
    except exceptions.KazooException as error:
        return Error(error.code)
    except RefusedError as refused:
        return refused.error


def _error(answer: Any) -> Error:
    if isinstance(answer, Error):
        return answer
    if isinstance(answer, exceptions.KazooException) and not isinstance(answer, exceptions.RolledBackError):
        return Error(answer.code)
    return Error.OK


def _stat(stat: Stat) -> tuple[object, ...]:
    return (stat.czxid, stat.mzxid, stat.pzxid, *stat[4:10])


def _acl(acl: list[Any]) -> tuple[Acl, ...]:
    return tuple(Acl(each.perms, each.id.scheme, each.id.id) for each in acl)


def _kazoo_acl(acl: tuple[Acl, ...]) -> list[Any]:
    return [ACL(each.permissions, Id(each.scheme, each.id)) for each in acl]


def drawn(chance: random.Random) -> Operation:
    """Any command, many of them wrong in several ways."""

    def clean() -> str:
        return "/" + "/".join(chance.choices(["a", "b", "c-"], k=chance.randint(1, 3)))

    path = clean() + chance.choice([*[""] * 7, "/", "/./x", "//y", "\x01"])
    data, version = chance.choice([None, b"", b"xy", b"abc" * 3]), chance.choice([-1, -1, -1, 0, 1, 5])
    mode = chance.choice([0, 0, 0, *Mode])
    ttl_ms = chance.choice([0, 10**7, 1 << 41]) if mode in {Mode.TTL, Mode.TTL_SEQUENTIAL} else 0
    parts: list[Create | Delete | SetData | Check] = [
        Create(clean(), data),
        Delete(clean(), version),
        SetData(clean(), data, version),
        Check(clean(), version),
    ]
    operations: list[Operation] = [
        Create(path, data, chance.choice(ACLS), mode, ttl_ms),
        Delete(chance.choice([path, path, "/", "/zookeeper/config"]), version),
        SetData(chance.choice([path, path, path, "/zookeeper/config"]), data, version),
        SetAcl(path, chance.choice(ACLS), version),
        Multi(tuple(chance.choices(parts, k=chance.randint(1, 3)))),
    ]
    return chance.choices(operations, weights=[40, 15, 20, 10, 15])[0]


def compare_with(address: str, chance: random.Random) -> int:
    """Run the comparison; blocks."""
    client = KazooClient(address, timeout=4.0)
    client.start(timeout=60)
    try:
        client.add_auth("digest", "alice:secret")
        session, world = client.client_id[0], World()
        world.do(CreateSession(session, b"", 4000))
        both = Both(client, world, Origin(session, 1, (IP, ALICE)))
        for number in range(OPERATIONS):
            for operation in QUOTA if number == OPERATIONS // 5 else [drawn(chance)]:
                both.compare(operation)
        return both.compare_all()
    finally:
        client.stop()
        client.close()


@pytest.mark.processes
@pytest.mark.slow
async def test_a_real_zookeeper_answers_the_same(tmp_path: Path) -> None:
    """Every result on the way, and all znodes in the end."""
    async with open_zookeeper(tmp_path, *SETTINGS) as server:
        found = await trio.to_thread.run_sync(compare_with, server.address, random.Random(11), abandon_on_cancel=True)
        assert found > 20
