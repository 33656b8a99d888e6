"""Connections inside TLS, on real sockets with real certificates: accepted and refused peers, and
their errors."""

from __future__ import annotations

import random
import resource
import shutil
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from tests.virtuallog.rpc.shop import IDENTITY, Everything, Shop, Store, Stored, Wait
from tests.virtuallog.rpc.tls_shop import ThrowawayAuthority, client_of, serving
from tests.virtuallog.rpc.world import TrioClock
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    ForbiddenError,
    InvalidSettingError,
    UnavailableError,
    UntrustedError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.ports import Request
from virtuallog.rpc import tls_acceptor
from virtuallog.rpc.rate_limited_log import RateLimitedLog
from virtuallog.rpc.security.credentials import RETRY_SECONDS, Credentials, Loaded, stamp_of
from virtuallog.rpc.security.tls_stream import ENCRYPT_BYTES, TlsStream, tls_handshake
from virtuallog.rpc.tls_acceptor import HANDSHAKE_SECONDS, TlsAcceptor
from virtuallog.testing.logs import capture_logs

NODE = IDENTITY.node


def store(position: int, batch: bytes = b"") -> Store:
    return Store(segment=SegmentId(1, 2), batch=batch, position=position)


def principal(role: Role, name: str, cluster: str = "test") -> Principal:
    return Principal(cluster=cluster, role=role, name=name)


@pytest.fixture
def office(tmp_path: Path) -> ThrowawayAuthority:
    return ThrowawayAuthority.in_(tmp_path / "office")


@pytest.fixture
def elsewhere(tmp_path: Path) -> ThrowawayAuthority:
    """An authority that no process here trusts."""
    return ThrowawayAuthority.in_(tmp_path / "elsewhere")


# -- calls ---------------------------------------------------------------------------------------------------------------


async def test_calls_inside_tls(office: ThrowawayAuthority) -> None:
    """Small calls and one of megabytes, many at once, work as without TLS."""
    async with serving(Shop(), office.node()) as (address, nursery):
        client = await client_of(nursery, address, office.node(9))
        replies: list[Any] = []

        async def call(position: int) -> None:
            replies.append(await client.call(NODE, store(position, b"x" * (1000 * position)), 5.0))

        async with trio.open_nursery() as callers:
            for position in range(10, 60):
                callers.start_soon(call, position)
        assert await client.call(NODE, store(60, b"y" * (8 << 20)), 5.0) == Stored(61)

    assert sorted(reply.tail for reply in replies) == list(range(11, 61))


async def test_roles_decide_what_may_be_called(office: ThrowawayAuthority) -> None:
    """Each role may make the calls of lower ones; a refused call is a typed error, and the next one
    is served."""
    allowed: dict[Role, set[type[Any]]] = {
        Role.CLIENT: {Store},
        Role.ADMIN: {Store, Everything},
        Role.NODE: {Store, Everything, Wait},
    }
    async with serving(shop := Shop(), office.node()) as (address, nursery):
        for role, known in allowed.items():
            client = await client_of(nursery, address, office.credentials(role, "7"))
            requests: list[Request[Any]] = [store(40), Everything(), Wait(token=1)]
            for request in requests:
                if type(request) not in known:
                    with pytest.raises(ForbiddenError, match=f"the caller is virtuallog://test/{role.name.lower()}/7"):
                        await client.call(NODE, request, 5.0)
                elif isinstance(request, Wait):  # answered on `Shop.release`
                    client.post(NODE, request, lambda _: None, 5.0)
                    await until(lambda: 1 in shop.waiting)
                else:
                    await client.call(NODE, request, 5.0)
    assert [stored.position for stored in shop.stored] == [0, 40, 40]  # a client's position is ignored


async def test_refused_calls_are_logged_once_per_connection(office: ThrowawayAuthority) -> None:
    """Refused calls are logged once per connection, so that they cannot fill the log."""
    with capture_logs() as lines:
        async with serving(Shop(), office.node()) as (address, nursery):
            client = await client_of(nursery, address, office.client())
            for _ in range(5):
                with pytest.raises(ForbiddenError, match="needs the role admin; the caller is virtuallog://test/cli"):
                    await client.call(NODE, Everything(), 5.0)
    assert [line["event"] for line in lines].count("call refused") == 1


# -- who does not get in -------------------------------------------------------------------------------------------------

EXPIRED = -0.01
"""Days: a quarter of an hour ago."""

Strangers = Callable[[ThrowawayAuthority, ThrowawayAuthority], tuple[Credentials | None, Credentials | None]]
REFUSALS: dict[str, tuple[Strangers, type[VirtualLogError], str, str]] = {
    "a client of an authority that is not believed": (
        lambda here, there: (here.node(), there.unchecked(principal(Role.CLIENT, "app"), believes=here)),
        UntrustedError, "the other side refuses this one: unknown ca", "its certificate is refused: unable to get local",
    ),
    "a server of an authority that is not believed": (
        lambda here, there: (there.unchecked(principal(Role.NODE, str(NODE)), believes=here), here.client()),
        UntrustedError, "its certificate is refused: unable to get local", "the other side refuses this one: unknown ca",
    ),
    "a client whose certificate has expired": (
        lambda here, _: (
            here.node(), here.unchecked(principal(Role.CLIENT, "app"), days=EXPIRED, believes=here)
        ),
        UntrustedError, "refuses this one: certificate expired", "its certificate is refused: certificate has expired",
    ),
    "a server whose certificate has expired": (
        lambda here, _: (
            here.unchecked(principal(Role.NODE, str(NODE)), days=EXPIRED, believes=here), here.client()
        ),
        UntrustedError, "its certificate is refused: certificate has expired", "refuses this one: certificate expired",
    ),
    "a client without a certificate": (
        lambda here, _: (here.node(), here.unchecked(principal(Role.CLIENT, "app"), shows=False, believes=here)),
        UntrustedError, "the other side refuses this one: certificate required", "it shows no certificate",
    ),
    "a client of another cluster": (
        lambda here, _: (here.node(), here.client(cluster="other")),
        UntrustedError, "virtuallog://test/node/1 is of another cluster; this is other",
        "virtuallog://other/client/app is of another cluster; this is test",
    ),
    "another node at this address": (
        lambda here, _: (here.node(NODE + 1), here.client()),
        WrongRecipientError, f"expected one of node {NODE}, found one of virtuallog://test/node/{NODE + 1}", "",
    ),
    "a client's certificate at a server": (
        lambda here, _: (here.unchecked(principal(Role.CLIENT, "app"), believes=here), here.client()),
        UntrustedError, "its certificate is refused: unsuitable certificate purpose",
        "the other side refuses this one: unsupported certificate",
    ),
    "a client without TLS": (
        lambda here, _: (here.node(), None),
        UnavailableError, "aborted: this node serves connections inside TLS only", "the other side does not speak TLS",
    ),
    "a server without TLS": (
        lambda here, _: (None, here.client()),
        UntrustedError, "the other side does not speak TLS", "the other side speaks TLS",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
async def test_who_does_not_get_in(case: str, office: ThrowawayAuthority, elsewhere: ThrowawayAuthority) -> None:
    """Both sides log the refusal in plain words, and the server goes on to serve others."""
    make, error_class, told_to_client, logged_by_server = REFUSALS[case]
    server_has, client_has = make(office, elsewhere)
    shop = Shop()
    with capture_logs() as lines:
        async with serving(shop, server_has) as (address, nursery):
            client = await client_of(nursery, address, client_has)
            with pytest.raises(error_class) as caught:
                await client.call(NODE, store(40), 5.0)
            await until(lambda: not logged_by_server or any(logged_by_server in str(line) for line in lines))
            assert told_to_client in str(caught.value)
            assert shop.stored == []
            if server_has is not None and server_has.owner.node == NODE and "server" not in case:
                friend = await client_of(nursery, address, office.client())
                assert await friend.call(NODE, store(40), 5.0) == Stored(1)


async def until(true: Callable[[], bool]) -> None:
    """Wait until a condition is true; the test fails by its timeout."""
    with trio.fail_after(5):
        while not true():
            await trio.sleep(0.005)


# -- handshakes that stall -----------------------------------------------------------------------------------------------


async def test_stalled_handshakes_push_each_other_out(
    office: ThrowawayAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Working clients get in beside any number of silent connections; the oldest of these are cut off."""
    monkeypatch.setattr(tls_acceptor, "HANDSHAKES_MAX", 4)
    async with serving(Shop(), office.node()) as (address, nursery):
        host, port = address.split(":")
        silent = [await trio.open_tcp_stream(host, int(port)) for _ in range(20)]
        client = await client_of(nursery, address, office.client())
        assert await client.call(NODE, store(0), 5.0) == Stored(1)
        with trio.fail_after(5):
            for stream in silent[:16]:
                assert await stream.receive_some() == b""
        for stream in silent:
            await stream.aclose()


async def test_a_handshake_has_a_deadline(office: ThrowawayAuthority, autojump_clock: trio.testing.MockClock) -> None:
    """A connection that says nothing, or stops half-way, is closed."""
    ours, theirs = trio.testing.memory_stream_pair()
    at_door = TlsAcceptor(office.node(), TrioClock(), RateLimitedLog(TrioClock()))

    with capture_logs() as lines:
        assert await at_door.receive(ours) is None

    assert trio.current_time() == pytest.approx(HANDSHAKE_SECONDS)
    assert await theirs.receive_some() == b""
    assert lines[0]["reason"] == "no TLS handshake in time"


async def test_damaged_handshakes_are_refused(
    office: ThrowawayAuthority, autojump_clock: trio.testing.MockClock
) -> None:
    """Bits flipped, pieces cut out, rubbish, too much, an end half-way: each is refused, and nothing else happens."""
    chooser, loaded = random.Random(1), office.node().current()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        loaded.client.wrap_bio(incoming, outgoing).do_handshake()
    hello = outgoing.read()
    at_door = TlsAcceptor(office.node(), TrioClock(), RateLimitedLog(TrioClock()))
    for _ in range(300):
        ours, theirs = trio.testing.memory_stream_pair()
        await theirs.send_all(damaged(hello, chooser))
        if chooser.random() < 0.5:
            await theirs.send_eof()
        assert await at_door.receive(ours) is None


def damaged(hello: bytes, chooser: random.Random) -> bytes:
    at = chooser.randrange(len(hello))
    flipped = bytearray(hello)
    flipped[at] ^= 1 << chooser.randrange(8)
    ways = (flipped, hello[:at], hello[:at] + chooser.randbytes(50), hello * 3, chooser.randbytes(200))
    return bytes(chooser.choice(ways))


# -- files ---------------------------------------------------------------------------------------------------------------


async def test_new_certificates_are_used_without_a_restart(tmp_path: Path, office: ThrowawayAuthority) -> None:
    """Both sides use new files of a new authority while they run. The open connection stays; the
    next one uses them."""
    node, client_files = office.node(), office.client()
    async with serving(Shop(), node) as (address, nursery):
        before = await client_of(nursery, address, client_files)
        assert await before.call(NODE, store(0), 5.0) == Stored(1)

        renewed = ThrowawayAuthority.in_(tmp_path / "renewed")
        renewed.node(), renewed.client()
        for file in renewed.authority.folder.iterdir():
            shutil.copy(file, office.authority.folder / file.name)

        stranger = await client_of(nursery, address, renewed.client())
        assert await stranger.call(NODE, store(0), 5.0) == Stored(1)
        after = await client_of(nursery, address, client_files)
        assert await after.call(NODE, store(0), 5.0) == Stored(1)
        assert await before.call(NODE, store(0), 5.0) == Stored(1)


def test_new_files_that_cannot_be_used_change_nothing(office: ThrowawayAuthority) -> None:
    """Unusable files (half a rotation, rubbish, another owner, none) are reported, and the old ones
    stay in use."""
    credentials = office.node()
    files, working = credentials.files, credentials.current()
    good = files.certificate.read_bytes(), files.key.read_bytes()
    other = office.node(4).files
    for what, contents in {
        "the key of another": (good[0], other.key.read_bytes()),
        "rubbish": (b"rubbish", good[1]),
        "certificate and key of another": (other.certificate.read_bytes(), other.key.read_bytes()),
        "nothing": (b"", b""),
    }.items():
        with capture_logs() as lines:
            files.certificate.write_bytes(contents[0])
            files.key.write_bytes(contents[1])
            assert credentials.current() is working, what
            assert credentials.current() is working
        assert [line["log_level"] for line in lines] == ["warning"]  # once, not at each connection
        files.key.write_bytes(good[1])
        files.certificate.write_bytes(good[0])
        working = credentials.current()


def test_rights_that_change_are_a_change_of_the_files(office: ThrowawayAuthority) -> None:
    """A new key that the node may not read is refused. `chmod` puts that right, and touches neither size nor time of the content."""
    files = office.node().files
    files.key.chmod(0o000)
    before = stamp_of(files)
    files.key.chmod(0o640)

    assert stamp_of(files) != before


@contextmanager
def without_descriptors() -> Iterator[None]:
    """This process can open no file."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("is_asked", [False, True])
async def test_files_that_could_not_be_used_are_tried_again(
    office: ThrowawayAuthority, mock_clock: trio.testing.MockClock, is_asked: bool
) -> None:
    """The process is out of descriptors while its certificate is renewed. Later it has some: the new certificate is in use after a
    while, or at once if an operator asks, though the files are as they were. The reason is logged once."""
    credentials = attrs.evolve(office.node(), clock=TrioClock())
    former = credentials.current()
    office.node()  # renews the files

    with capture_logs() as lines:
        with without_descriptors():
            assert credentials.current() is former
            mock_clock.jump(RETRY_SECONDS + 1)
            assert credentials.current() is former
        assert [line["event"] for line in lines] == ["new certificates cannot be used, the old ones stay"]
        assert credentials.current() is former, "too early"
        if not is_asked:
            mock_clock.jump(RETRY_SECONDS)
        renewed = credentials.checked() if is_asked else credentials.current()

    assert renewed is not former
    assert credentials.current() is renewed
    assert lines[-1]["event"] == "certificates loaded"


def test_an_operator_who_asks_hears_again_why_files_are_refused(office: ThrowawayAuthority) -> None:
    """At each signal, not only at the first one."""
    credentials = office.node()
    credentials.files.key.write_text("rubbish")
    with capture_logs() as lines:
        credentials.current()
        credentials.checked()
        credentials.checked()

    assert [line["log_level"] for line in lines] == ["warning"] * 3


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda files: files.key.unlink(), "No such file"),
        (lambda files: files.authority.write_text(""), "authority.pem"),
        (lambda files: files.certificate.write_text("?"), "node-1.pem"),
        (lambda files: files.key.write_text("?"), "node-1.key"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    office: ThrowawayAuthority, spoil: Callable[[Any], Any], words: str
) -> None:
    """At the start unusable files are an error, as there are no old ones to go on with."""
    files = office.node().files
    spoil(files)

    with pytest.raises(InvalidSettingError, match=words):
        Credentials.open(files)


# -- the stream itself ---------------------------------------------------------------------------------------------------


async def test_the_stream_keeps_trios_rules_for_streams(office: ThrowawayAuthority) -> None:
    """The stream passes trio's own suite: closing, cancelling, misuse, data in any pieces both ways
    at once."""
    loaded = office.node().current()

    async def make() -> tuple[TlsStream, TlsStream]:
        left, right = trio.testing.memory_stream_pair()
        return await pair(loaded, left, right)

    await trio.testing.check_two_way_stream(make, None)


async def test_buffers_stay_small_whatever_is_sent(office: ThrowawayAuthority) -> None:
    """OpenSSL's buffers keep the size of the largest piece, so pieces stay small; yet they leave in
    one send."""

    class Watched:
        def __init__(self, inner: ssl.MemoryBIO) -> None:
            self.inner, self.sizes = inner, list[int]()

        def read(self) -> bytes:
            self.sizes.append(self.inner.pending)
            return self.inner.read()

    left, right = await pair(office.node().current(), *trio.testing.memory_stream_pair())
    watched: Any = Watched(left._outgoing)
    left._outgoing = watched
    data, received = bytes(range(256)) * 1024 + b"the rest", bytearray()
    await left.send_all(data)
    while len(received) < len(data):
        received += await right.receive_some()

    assert received == data
    assert len(data) < sum(watched.sizes)
    assert max(watched.sizes) < 1.1 * ENCRYPT_BYTES


async def pair(loaded: Loaded, left: Any, right: Any) -> tuple[TlsStream, TlsStream]:
    ends: dict[bool, TlsStream] = {}

    async def shake(stream: Any, context: ssl.SSLContext, server_side: bool) -> None:
        ends[server_side] = await tls_handshake(stream, context, server_side=server_side)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(shake, left, loaded.client, False)
        nursery.start_soon(shake, right, loaded.server, True)
    return ends[False], ends[True]
