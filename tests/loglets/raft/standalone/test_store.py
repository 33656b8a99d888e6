"""Stores of a log used by itself: what a directory says of itself, and directories and sockets of a real machine."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import trio
from crc32c import crc32c

from tests.free_ports import free_ports
from tests.loglets.raft.standalone.world import playing
from tests.metastore.world import simulated
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import (
    CorruptionError,
    ForbiddenError,
    InvalidSettingError,
    MalformedError,
    UnavailableError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.types import NodeId
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog.rpc.services import RpcServices
from virtuallog.rpc.transport import tcp_connect
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.raft.messages import GetLogMembership, LogMembership, RaftAppend
from virtuallog_loglets.raft.standalone import store as stores
from virtuallog_loglets.raft.standalone.client import SEGMENT
from virtuallog_loglets.raft.standalone.facade import initialize, open_client, open_log, read_store
from virtuallog_loglets.raft.standalone.member_book import cluster_of, parse_peer, store_bytes
from virtuallog_loglets.raft.standalone.store import StoreIdentity, decode_untrusted
from virtuallog_loglets.raft.standalone.store_gate import INTERFACES, StoreGate
from virtuallog_loglets.wal import WalSettings
from virtuallog_server.local_cluster.certificates import Authority

IDENTITY = StoreIdentity(store=NodeId(1 << 62), log="log", address="127.0.0.1:5051")
FORMAT_1 = (
    b'{"address": "127.0.0.1:5051", "crc32c": 2503762081, "log": "log", "store": 4611686018427387904, "version": 1}'
)
"""Durable format: what a directory of this version holds."""
TINY_WAL = WalSettings(
    segment_bytes=32 << 20, record_bytes_max=10 << 20, group_bytes_max=11 << 20, queue_bytes_max=44 << 20,
    headroom_bytes=1 << 20,
)  # fmt: skip
PATIENCE_SECONDS = 30.0
"""Timeout of tests on a real machine, in seconds."""


# -- the identity -----------------------------------------------------------------------------------------------------


def test_the_format_of_an_identity_stays() -> None:
    """A later program reads what this one writes."""
    assert IDENTITY.encode() == FORMAT_1
    assert decode_untrusted(FORMAT_1) == IDENTITY


@pytest.mark.parametrize(
    ("blob", "error", "reason"),
    [
        (b"", MalformedError, "not the identity"),
        (b"{}", MalformedError, "not the identity"),
        (b"[" * 100_000, MalformedError, "not the identity"),
        (FORMAT_1.replace(b'"version": 1', b'"version": 2'), MalformedError, "format 2; this program knows format 1"),
        (FORMAT_1.replace(b"4611", b"4612"), CorruptionError, "does not match its checksum"),
    ],
)
def test_an_identity_that_cannot_be_read_is_refused(blob: bytes, error: type[VirtualLogError], reason: str) -> None:
    """In one line: damaged, or of a later program."""
    with pytest.raises(error, match=reason) as refused:
        decode_untrusted(blob)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("store", [0, 1 << 63, "7", None])
def test_a_number_that_no_store_has_is_refused(store: object) -> None:
    """With a checksum that matches."""
    fields = {"address": "a:1", "log": "log", "store": store, "version": 1}
    blob = json.dumps({**fields, "crc32c": crc32c(json.dumps(fields, sort_keys=True).encode())}).encode()
    with pytest.raises(MalformedError):
        decode_untrusted(blob)


def test_numbers_of_stores_are_drawn_over_the_whole_range() -> None:
    """None is 0, which stands for no store, and 63 bits fit into every field."""
    source = random.Random(7)
    drawn = [stores.draw(source) for _ in range(1000)]

    assert len(set(drawn)) == 1000
    assert min(drawn) > 0
    assert 1 << 62 < max(drawn) < 1 << 63


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("127.0.0.1:5051", (None, "127.0.0.1:5051")), ("7@host:1", (7, "host:1"))],
)
def test_a_peer_is_an_address_with_or_without_its_store(text: str, parsed: object) -> None:
    """`parse_peer` gives both parts."""
    assert parse_peer(text) == parsed


@pytest.mark.parametrize("text", ["", "7", "0@host:1", "x@host:1", "@host:1", f"{1 << 63}@host:1", "7@host"])
def test_a_peer_that_cannot_be_is_refused(text: str) -> None:
    """Before anything is asked."""
    with pytest.raises(InvalidSettingError):
        parse_peer(text)


@simulated
async def test_a_store_whose_records_are_lost_is_never_begun_anew() -> None:
    """It may have voted. Its identity is left, and says that there was something."""
    async with playing() as world:
        (one,) = await world.found(1)
        world.crash(one)
        one.disks["raft"].wipe()

        with pytest.raises(CorruptionError, match="format a new store and add it"):
            await world.try_to_start(one)


@simulated
async def test_a_directory_is_formatted_once() -> None:
    """Neither a store nor what is left of one is formatted again: it may be a member."""
    async with playing() as world:
        one = await world.format(founds=True)
        with pytest.raises(InvalidSettingError, match=f"it is store {one.store} of log 'log' already"):
            await world.format_directory(one)
        one.disks["identity"].wipe()
        with pytest.raises(InvalidSettingError, match="delete what is left of a former store"):
            await world.format_directory(one)


@simulated
async def test_a_store_that_lost_power_while_it_was_formatted_is_no_store() -> None:
    """The identity is written last, as a whole."""
    async with playing() as world:
        machine = world.blank()
        world.faults.write_seconds = 1.0, 1.0
        with trio.move_on_after(1.5):  # noqa: TID251 -- simulated
            await world.format_directory(machine)
        for disk in machine.disks.values():
            disk.crash()
        world.faults.write_seconds = 0.0, 0.0

        assert await stores.read_identity(machine.disks["identity"].mount()) is None


def test_a_store_that_still_reads_its_records_says_so() -> None:
    """To the question who it is; everything else is refused, and may be done later."""
    gate, answers = StoreGate(NodeId(7)), list[object]()
    question, request = GetLogMembership(segment=SEGMENT), RaftAppend(segment=SEGMENT, batch=b"", opens=True)
    for call in (question, request):
        gate.handlers()[type(call)](call, answers.append)
    gate.live = {RaftAppend: lambda _, done: done("taken")}
    gate.handlers()[RaftAppend](request, answers.append)

    standing, refusal, taken = answers
    assert isinstance(standing, LogMembership)
    assert (standing.store, standing.standing.state, standing.members) == (7, "BOOTSTRAPPING", ())
    assert isinstance(refusal, UnavailableError)
    assert taken == "taken"


# -- a real machine ---------------------------------------------------------------------------------------------------


async def test_a_log_of_three_stores_on_real_sockets(tmp_path: Path) -> None:
    """Added one by one, with appends through each; a client of no store needs one address."""
    port = free_ports(3)
    addresses = [f"127.0.0.1:{port + number}" for number in range(3)]
    paths = [tmp_path / f"{number}" for number in range(3)]
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real time
        for number, (path, address) in enumerate(zip(paths, addresses, strict=True)):
            await initialize(path, address=address, founds=number == 0, wal_settings=TINY_WAL)
        async with (
            open_log(paths[0], wal_settings=TINY_WAL) as one,
            open_log(paths[1], wal_settings=TINY_WAL) as two,
            open_log(paths[2], wal_settings=TINY_WAL) as three,
        ):
            await one.running()
            for log, address in ((two, addresses[1]), (three, addresses[2])):
                await one.add(log.store, address)
            assert [await log.append(b"%d" % number) for number, log in enumerate((one, two, three))] == [0, 1, 2]
            assert [entry.data for entry in await three.read(0, linearizable=True)] == [b"0", b"1", b"2"]
            await three.transfer(three.store)
            async with open_client([addresses[1]]) as client:
                assert await client.append(b"3") == 3
                assert {row.store for row in await client.status() if row.role == "LEADER"} == {three.store}
        async with open_log(paths[2], wal_settings=TINY_WAL) as again:
            assert [entry.data for entry in await again.read(0)][:3] == [b"0", b"1", b"2"]


async def test_stores_prove_who_they_are(tmp_path: Path) -> None:
    """With certificates a log works over TLS, and each store needs the certificate of its own number."""
    authority, port = Authority.create(tmp_path / "certificates", "test"), free_ports(2)
    addresses = [f"127.0.0.1:{port + number}" for number in range(2)]
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real time
        ids = [
            await initialize(tmp_path / address, address=address, founds=not number, wal_settings=TINY_WAL)
            for number, address in enumerate(addresses)
        ]
        tls = [authority.issue(Principal(cluster="test", role=Role.NODE, name=str(each.store))) for each in ids]
        async with (
            open_log(tmp_path / addresses[0], tls=tls[0], wal_settings=TINY_WAL) as one,
            open_log(tmp_path / addresses[1], tls=tls[1], wal_settings=TINY_WAL) as two,
        ):
            await one.add(two.store, addresses[1])
            assert await two.append(b"a") == 0
            admin = authority.issue(Principal(cluster="test", role=Role.ADMIN, name="operator"))
            async with open_client([f"{one.store}@{addresses[0]}"], tls=admin) as client:
                await client.transfer(two.store)
            reader = authority.issue(Principal(cluster="test", role=Role.CLIENT, name="reader"))
            async with open_client([f"{one.store}@{addresses[0]}"], tls=reader) as client:
                assert await client.append(b"b") == 1
                with pytest.raises(ForbiddenError):
                    await client.remove(one.store)
        with pytest.raises(InvalidSettingError, match=f"not of node {ids[0].store}"):
            async with open_log(tmp_path / addresses[0], tls=tls[1]):
                pass


async def test_a_call_that_reaches_another_store_is_refused(tmp_path: Path) -> None:
    """By the log's name or the store's number, before anything is done. So a client of a former store changes nothing."""
    address = f"127.0.0.1:{free_ports(1)}"
    identity = await initialize(tmp_path, address=address, founds=True, wal_settings=TINY_WAL)
    request = RaftAppend(segment=SEGMENT, batch=b"", opens=True)
    meant = {
        NodeId(1): OpenNode(cluster=cluster_of("log"), store_id=store_bytes(NodeId(7))),
        NodeId(2): OpenNode(cluster=cluster_of("other"), store_id=store_bytes(identity.store)),
    }
    services = RpcServices(
        INTERFACES, lambda node: Peer((address,), meant[node]), tcp_connect(), SystemClock(), random.Random()
    )
    with trio.fail_after(PATIENCE_SECONDS):  # noqa: TID251 -- real time
        async with open_log(tmp_path, wal_settings=TINY_WAL) as log, trio.open_nursery() as nursery:
            await nursery.start(services.run)
            for node in meant:
                for question in (request, GetLogMembership(segment=SEGMENT)):
                    with pytest.raises(WrongRecipientError):
                        await services.call(node, question, 5.0)
            with pytest.raises(WrongRecipientError):
                async with open_client([f"7@{address}"]):
                    pass
            with pytest.raises(WrongRecipientError):
                async with open_client([address], name="other"):
                    pass
            assert await log.check_tail() == 0
            nursery.cancel_scope.cancel()


async def test_directories_that_cannot_be_opened_say_why(tmp_path: Path) -> None:
    """Not formatted, in use, of a later format, open to strangers: one line each, and nothing is left behind."""
    address = f"127.0.0.1:{free_ports(1)}"
    with pytest.raises(InvalidSettingError, match="initialize it first"):
        async with open_log(tmp_path / "none"):
            pass
    assert not (tmp_path / "none").exists()
    await initialize(tmp_path / "one", address=address, founds=True, wal_settings=TINY_WAL)
    async with open_log(tmp_path / "one", wal_settings=TINY_WAL):
        with pytest.raises(InvalidSettingError):
            await read_store(tmp_path / "one")
    with pytest.raises(InvalidSettingError):
        async with open_log(tmp_path / "one", listen="10.0.0.1:5051"):
            pass
    file = tmp_path / "one" / "identity" / "store"
    file.write_bytes(file.read_bytes().replace(b'"version": 1', b'"version": 9'))
    with pytest.raises(MalformedError, match="format 9"):
        async with open_log(tmp_path / "one"):
            pass


async def test_a_client_that_reaches_no_store_says_so() -> None:
    """After the timeout of a connection."""
    with pytest.raises(UnavailableError, match="no store that was asked"):
        async with open_client([f"127.0.0.1:{free_ports(1)}"]):
            pass
