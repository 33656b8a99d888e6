"""Any bytes get a typed answer or a closed connection, never anything else, and other clients do not notice."""

from __future__ import annotations

import random
import struct
from contextlib import suppress

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from tests.server.zookeeper.test_requests import multi
from tests.server.zookeeper.world import RawClient, World, created, served, setting, watched
from virtuallog.contract.errors import MalformedError, UnavailableError
from virtuallog.testing.logs import capture_logs
from virtuallog_server.zookeeper.wire import handshake, requests
from virtuallog_server.zookeeper.wire.connection import Connection, Request
from virtuallog_server.zookeeper.wire.frames import FrameSplitter
from virtuallog_server.zookeeper.wire.jute import Reader
from virtuallog_simulation.workload.database.jute import Writer

SPECIMENS = {
    1: created("/a", b"data", 2), 2: Writer().string("/a").int32(-1), 3: watched("/a"), 4: watched("/a"),
    5: setting("/a", b"data"), 6: Writer().string("/a"), 7: Writer().string("/a").acl(()).int32(0), 8: watched("/a"),
    9: Writer().string("/a"), 11: Writer(), 12: watched("/a"), 14: multi((1, created("/m")), (2, Writer().string("/m").int32(0))),
    15: created("/b"), 16: Writer().buffer(None).buffer(b"1").buffer(None).int64(-1), 17: Writer().string("/a").int32(3),
    18: Writer().string("/a").int32(3), 19: created("/c", b"", 4), 21: created("/t", b"", 5).int64(1000),
    22: multi((4, watched("/a", False))), 100: Writer().int32(0).string("digest").buffer(b"a:b"),
    101: Writer().int64(0).strings(["/a"]).strings(["/b"]).strings([]), 102: Writer().buffer(b"token"),
    103: Writer().string("/"), 104: Writer().string("/"),
    105: Writer().int64(0).strings(["/a"]).strings([]).strings([]).strings(["/p"]).strings(["/r"]),
    106: Writer().string("/a").int32(1), 107: Writer(),
}  # fmt: skip
"""A good body of each request."""
PARSERS = [
    requests.create, requests.create_container, requests.create_ttl, requests.delete, requests.set_data, requests.set_acl,
    requests.check, requests.read, requests.path, requests.batch, requests.multi_read, requests.add_watch,
    requests.named_watches, requests.set_watches, requests.set_watches2, requests.auth, requests.token, requests.reconfig,
]  # fmt: skip


def mutated(content: bytes, source: random.Random) -> bytes:
    """With some bytes changed, cut or doubled."""
    body = bytearray(content)
    for _ in range(source.randint(1, 4)):
        at = source.randrange(len(body) + 1)
        match source.randrange(4):
            case 0 if at < len(body):
                body[at] = source.choice((0, 1, 0x7F, 0x80, 0xFF, source.randrange(256)))
            case 1:
                del body[at : at + source.randint(1, 8)]
            case 2:
                body[at:at] = source.randbytes(source.randint(1, 8))
            case _:
                body[at:at] = body[: source.randint(0, 12)]
    return bytes(body)


@given(st.binary(max_size=200))
def test_parsers_return_a_request_or_say_what_is_wrong(content: bytes) -> None:
    """No other exception comes out of them, and nothing is reserved for numbers that are announced."""
    for parse in PARSERS:
        with suppress(MalformedError):
            parse(Reader(content))
    with suppress(MalformedError):
        handshake.parse_untrusted(content)


@given(st.integers(0, 2**32), st.sampled_from(sorted(SPECIMENS)))
def test_parsers_stand_mutated_requests(seed: int, kind: int) -> None:
    """Those that were good once get deeper than random ones."""
    content = mutated(bytes(SPECIMENS[kind].content), random.Random(seed))
    for parse in PARSERS:
        with suppress(MalformedError):
            parse(Reader(content))


@given(st.lists(st.binary(max_size=50), max_size=8), st.lists(st.integers(1, 40), max_size=40))
def test_frames_come_out_as_they_went_in(frames: list[bytes], cuts: list[int]) -> None:
    """The pieces in which they arrive do not matter."""
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
    splitter, found = FrameSplitter(50), []
    for cut in [*cuts, len(stream)]:
        piece, stream = stream[:cut], stream[cut:]
        splitter.feed(piece)
        if cut % 3:  # not every piece is looked at when it comes
            while (frame := splitter.next_untrusted()) is not None:
                found.append(frame)
    while (frame := splitter.next_untrusted()) is not None:
        found.append(frame)
    assert found == frames
    assert splitter.buffered_bytes == 0


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_a_connection_stands_any_bytes(pieces: list[bytes]) -> None:
    """It fails with a reason, or takes what they mean; what is held stays within what came."""
    connection = Connection(1000, 10, lambda first: False, lambda: None)
    for piece in pieces:
        for event in connection.receive_untrusted(piece):
            if not isinstance(event, Request):
                connection.open(b"")
    assert connection.failure is None or isinstance(connection.failure, MalformedError)
    assert connection.unfinished_bytes <= sum(map(len, pieces))


@pytest.mark.parametrize("seed", range(8))
async def test_a_server_stands_mutated_requests(seed: int) -> None:
    """Each is answered, or its connection is closed; a bystander goes on working."""
    await _harass(random.Random(seed))


async def _harass(source: random.Random) -> None:
    async with served() as world:
        bystander = await world.client()
        await bystander.create("/bystander", b"0")
        for number in range(12):
            await _one_attempt(world, source)
            assert (await bystander.set("/bystander", b"%d" % number)).error == 0
        assert world.server.database.watches.count == 0


async def _one_attempt(world: World, source: random.Random) -> None:
    client = await world.client()
    with suppress(trio.BrokenResourceError):
        for number in range(6):
            kind = source.choice(sorted(SPECIMENS))
            body = mutated(bytes(SPECIMENS[kind].content), source)
            await client.send_bytes((len(body) + 8).to_bytes(4, "big") + struct.pack(">ii", number, kind) + body)
        await client.send(11, xid=-2)
        await _answers(client)
    await client.stream.aclose()
    await world.settled()
    assert len(world.server.traffic().connections) == 1


async def _answers(client: RawClient) -> None:
    """Take them until the ping is answered, or the connection closed. Each is well formed, or reading it fails."""
    with suppress(UnavailableError):
        while (await client.reply()).xid != -2:
            pass


async def test_a_bug_behind_one_request_ends_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others do not notice: neither clients that wait for the same group, nor the replica."""
    async with served() as world:
        unlucky, lucky = await world.client(), await world.client()
        await lucky.create("/a")
        world.log.held = True
        await unlucky.send(5, setting("/a", b"1"))
        await unlucky.send(3, watched("/a", False))
        await lucky.send(5, setting("/a", b"2"))
        await world.settled()
        monkeypatch.setattr(type(world.server.database.tree), "exists", lambda tree, path: 1 // 0)
        with capture_logs() as lines:
            world.log.apply()
            assert (await lucky.reply()).error == 0
            await unlucky.closed()
            await lucky.send(3, watched("/b", False))
            assert await lucky.closed() == b""
        assert [line["log_level"] for line in lines if "exc_info" in line] == ["error", "error"]
