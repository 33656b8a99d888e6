"""Sessions of connections: how they get, keep and lose them (specs of ZooKeeper's protocol, section 3.2)."""

from __future__ import annotations

import pytest
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from tests.server.zookeeper.world import World, created, served, watched
from virtuallog.contract.errors import StorageError, UnavailableError
from virtuallog.testing.logs import capture_logs
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.replica.command_proposals import SERVER
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.commands import Command, ExpireSessions
from virtuallog_server.config.zookeeper_settings import ZooKeeperSettings
from virtuallog_server.zookeeper.admin.facts import ServerFacts
from virtuallog_server.zookeeper.admin.four_letter_words import FourLetterWords
from virtuallog_server.zookeeper.session.serving_context import ServiceMode, SessionHooks
from virtuallog_simulation.workload.database.jute import Writer


async def test_a_new_session_is_told_its_id_password_and_timeout() -> None:
    """The top byte of the id is the node's number; the password has 16 bytes; the timeout is within bounds."""
    async with served() as world:
        client = await world.client(timeout_ms=10_000)
        assert client.session >> 56 == 1
        assert (len(client.password), client.timeout_ms, client.read_only) == (16, 10_000, False)
        assert (await world.client(timeout_ms=1)).timeout_ms == 2_000
        assert (await world.client(timeout_ms=10**9)).timeout_ms == 40_000


async def test_very_old_clients_are_not_told_what_they_do_not_know() -> None:
    """A client that leaves out the last field gets a response without it."""
    async with served() as world:
        client = await world.client(read_only=None)
        assert client.read_only is None


async def test_requests_may_follow_the_handshake_at_once() -> None:
    """They wait for the session, and are answered behind it."""
    async with served() as world:
        world.log.held = True
        client = world.dial()
        await client.greet(session=0, password=bytes(16), timeout_ms=10_000, last_zxid=0, read_only=False)
        await client.send(1, created("/early", flags=1))
        world.log.held = False
        world.log._arrived.set()
        await client.greeted()
        assert (await client.reply()).error == 0
        assert (await client.get("/early")).body.buffer() == b""
        assert (await client.call(3, watched("/early", False))).body.stat().ephemeral_owner == client.session


async def test_a_session_goes_on_at_another_connection() -> None:
    """Same id, same password, same ephemerals; the former connection is closed, and its watches are gone."""
    async with served() as world:
        first = await world.client()
        await first.create("/e", flags=1)
        await first.get("/e", watch=True)
        second = world.dial()
        await second.connect(session=first.session, password=first.password)
        assert (second.session, second.password) == (first.session, first.password)
        assert await first.closed() == b""
        await (await world.client()).set("/e", b"x")
        assert (await second.get("/e")).body.buffer() == b"x"


@pytest.mark.parametrize("wrong", ["session", "password"])
async def test_a_session_that_is_not_theirs_is_refused(wrong: str) -> None:
    """Zeros instead of a session, then the connection is closed. The owner's own connection stays."""
    async with served() as world:
        owner = await world.client()
        client = world.dial()
        await client.connect(
            session=owner.session + (wrong == "session"), password=b"x" * 16 if wrong == "password" else owner.password
        )
        assert (client.session, client.timeout_ms, client.password) == (0, 0, bytes(16))
        assert await client.closed() == b""
        assert (await owner.create("/still")).error == 0


async def test_a_client_that_has_seen_more_is_sent_away_without_a_word() -> None:
    """It goes on to a server that is not behind: its reads never go back."""
    async with served() as world:
        seen = (await (await world.client()).create("/a")).zxid
        behind = world.dial()
        await behind.greet(session=0, password=bytes(16), timeout_ms=10_000, last_zxid=seen + 10, read_only=False)
        assert await behind.closed() == b""
        assert (await world.client(last_zxid=seen)).session


async def test_closing_a_session_deletes_its_ephemerals_answers_and_closes() -> None:
    """In its turn; what comes behind it is not looked at."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        await client.create("/e", flags=1)
        await other.call(3, watched("/e"))
        last = await client.send(1, created("/last"))
        close = await client.send(-11)
        await client.send(1, created("/never"))
        assert [(await client.reply()).xid, (reply := await client.reply()).xid] == [last, close]
        assert reply.error == 0
        assert await client.closed() == b""
        assert await other.event() == (2, "/e")
        assert (await other.get("/never")).error == -101
        again = world.dial()
        await again.connect(session=client.session, password=client.password)
        assert again.session == 0


async def test_a_session_that_expires_closes_its_connection() -> None:
    """So the client learns it: it connects again, and is refused."""
    async with served() as world:
        client = await world.client()
        await client.create("/e", flags=1)
        touches = world.server.database.tree.session(client.session)
        assert touches is not None
        await world.server.database.proposals.execute(ExpireSessions(((client.session, touches.touches),)), SERVER)
        assert await client.closed() == b""


async def test_an_unknown_outcome_closes_the_connection() -> None:
    """There is no reply that would be true, and the replies behind it must not take its place."""
    async with served() as world:
        client = await world.client()
        world.log.failure = UnavailableError("no quorum")
        await client.send(1, created("/maybe"))
        await client.send(3, watched("/", False))
        assert await client.closed() == b""


async def test_a_sync_that_fails_closes_the_connection() -> None:
    """A read behind it would show something old as if it were new."""
    async with served() as world:
        client = await world.client()
        world.log.failure = UnavailableError("no quorum")
        await client.send(9, Writer().string("/"))
        await client.send(3, watched("/", False))
        assert await client.closed() == b""


async def test_a_handshake_that_the_log_does_not_answer_is_closed() -> None:
    """The client tries another server."""
    async with served() as world:
        world.log.failure = UnavailableError("no quorum")
        client = world.dial()
        await client.greet(session=0, password=bytes(16), timeout_ms=10_000, last_zxid=0, read_only=False)
        assert await client.closed() == b""


async def test_a_silent_connection_is_closed_after_the_timeout(autojump_clock: MockClock) -> None:
    """Half-open ones would stay for ever. One that pings stays."""
    async with served() as world:
        silent, alive = await world.client(timeout_ms=4_000), await world.client(timeout_ms=4_000)
        for _ in range(4):
            await world.server.clock.sleep(2)
            assert (await alive.call(11, xid=-2)).error == 0
        assert await silent.closed() == b""
        assert (await alive.create("/a")).error == 0


async def test_who_is_not_listened_to_does_not_count_as_silent(autojump_clock: MockClock) -> None:
    """The log is slow, and the bound of requests is reached: pings wait in the stream. That excuses one timeout of silence,
    after which the client waits here no longer."""
    async with served(ZooKeeperSettings(outstanding_max=1)) as world:
        client = await world.client(timeout_ms=4_000)
        world.log.held = True
        await client.send(1, created("/a"))
        for _ in range(3):
            await client.send(11, xid=-2)
            await world.server.clock.sleep(2)
        world.log.held = False
        world.log._arrived.set()
        assert [(await client.reply()).error for _ in range(4)] == [0] * 4


async def test_who_says_nothing_at_all_is_closed(autojump_clock: MockClock) -> None:
    """Ten seconds for a connect request."""
    async with served() as world:
        silent = world.dial()
        await world.server.clock.sleep(11)
        assert await silent.closed() == b""


async def test_what_is_heard_of_a_session_is_told_to_the_database(autojump_clock: MockClock) -> None:
    """A ping changes nothing in the log by itself, but keeps the session alive."""
    async with served() as world:
        client, tree = await world.client(timeout_ms=4_000), world.server.database.tree
        for _ in range(4):
            await world.server.clock.sleep(3.5)
            await client.call(11, xid=-2)
        await world.server.clock.sleep(3.5)
        assert tree.session(client.session) is not None
        await world.server.clock.sleep(1)
        assert tree.session(client.session) is None


async def test_a_server_without_the_log_answers_for_a_third_of_the_timeout(autojump_clock: MockClock) -> None:
    """Then the session may be over, as others see it. Reads and pings wait until the log has been told that the
    client lives."""
    async with served() as world:
        client = await world.client(timeout_ms=12_000)
        world.log.held = True
        await world.server.clock.sleep(3.5)
        assert (await client.call(11, xid=-2)).error == 0
        await world.server.clock.sleep(1)
        ping, read = await client.send(11, xid=-2), await client.send(3, watched("/", False))
        with world.server.clock.timeout(4) as waiting:
            await client.frame()
        assert waiting.cancelled_caught
        world.log.held = False
        world.log._arrived.set()
        assert [(await client.reply()).xid for _ in range(2)] == [ping, read]


async def test_a_request_that_waits_learns_that_its_session_is_over(autojump_clock: MockClock) -> None:
    """Another server has expired it meanwhile: nothing is answered any more."""
    async with served() as world:
        client = await world.client(timeout_ms=4_000)
        world.log.held = True
        await world.server.clock.sleep(3)
        await client.send(11, xid=-2)
        await world.settled()
        record = world.server.database.tree.session(client.session)
        assert record is not None
        expiry = ExpireSessions(((client.session, record.touches),))
        payload = command_codec.encode(Command(expiry, SERVER, 0))
        world.log.waiting.insert(0, (Entry(payload), lambda outcome: None))
        world.log.held = False
        world.log._arrived.set()
        assert await client.closed() == b""


class Doorman:
    """Says whom a server serves."""

    standing = ServiceMode.FULL


def _ruled(doorman: Doorman) -> SessionHooks:
    return SessionHooks(standing=lambda: doorman.standing)


async def test_without_contact_nobody_is_served_unless_reading_is_enough(autojump_clock: MockClock) -> None:
    """All are closed at the change. In a local session reads work, writes are refused, and nothing comes to the log."""
    doorman = Doorman()
    async with served(hooks=_ruled(doorman)) as world:
        former = await world.client()
        await former.create("/a", b"old")
        doorman.standing = ServiceMode.READ_ONLY
        await world.server.clock.sleep(1)
        assert await former.closed() == b""
        world.log.failure = UnavailableError("no quorum")
        strict = world.dial()
        await strict.greet(session=0, password=bytes(16), timeout_ms=10_000, last_zxid=0, read_only=False)
        assert await strict.closed() == b""
        reader = world.dial()
        await reader.connect(session=former.session, password=former.password, read_only=True)
        assert (reader.session, reader.read_only) == (former.session, True)
        assert (await reader.get("/a")).body.buffer() == b"old"
        assert (await reader.set("/a", b"new")).error == -119
        assert (await reader.call(9, Writer().string("/"))).error == -119
        assert world.log.waiting == []
        assert (await reader.call(-11)).error == 0
        doorman.standing = ServiceMode.NONE
        await world.server.clock.sleep(1)
        outside = world.dial()
        await outside.greet(session=0, password=bytes(16), timeout_ms=10_000, last_zxid=0, read_only=True)
        assert await outside.closed() == b""


async def test_words_of_four_letters_are_answered_instead_of_a_handshake() -> None:
    """Text, then the end."""

    class Ruok:
        def is_word(self, prefix: bytes) -> bool:
            return prefix == b"ruok"

        def answer(self, word: bytes) -> bytes:
            return b"imok"

    async with served(hooks=SessionHooks(words=Ruok())) as world:
        client = world.dial()
        await client.send_bytes(b"ruok")
        assert await client.closed() == b"imok"
        other = world.dial()
        await other.send_bytes(b"what")
        assert await other.closed() == b""


@pytest.mark.parametrize(("error", "tracebacks"), [(StorageError("a block cannot be read"), 0), (KeyError("a bug"), 1)])
async def test_what_goes_wrong_behind_a_word_ends_one_connection(error: Exception, tracebacks: int) -> None:
    """As it does behind a request. `dump` reads records of the store. Before, one damaged record ended all connections of the
    server, and not only that of the word. The log of the server says more about a bug.
    """

    def facts() -> ServerFacts:
        raise error

    async with served(hooks=SessionHooks(words=FourLetterWords(("*",), facts))) as world:
        bystander, curious = await world.client(), world.dial()
        with capture_logs() as lines:
            await curious.send_bytes(b"dump")
            assert await curious.closed() == b""
        assert len([line for line in lines if "exc_info" in line]) == tracebacks
        assert (await bystander.get("/")).error == 0


@pytest.mark.parametrize(("subject", "secure"), [(None, False), ("", True), ("CN=app", True)])
async def test_who_comes_by_tls_is_shown_as_secure(subject: str | None, secure: bool) -> None:
    """Also without a certificate, where none is asked for: an operator looks there for who still speaks in the clear."""
    async with served() as world:
        _, theirs = memory_stream_pair()
        world.nursery.start_soon(world.server.serve_stream, theirs, "10.0.0.1", 4000, subject)
        await world.settled()
        assert [each.secure for each in world.server.traffic().connections] == [secure]


async def test_what_a_client_has_seen_last_is_shown() -> None:
    """`cons` shows the zxid of its last answer: an operator compares these when clients disagree. Events do not count."""
    async with served() as world:
        client, other = await world.client(), await world.client()
        await client.get("/", watch=True)
        seen = await client.create("/a")
        await other.set("/", b"fires")
        assert await client.event() == (3, "/")
        first, second = world.server.traffic().connections
        assert (first.last_zxid, second.last_zxid) == (seen.zxid, seen.zxid + 1)


async def test_connections_are_bounded_for_all_and_for_each_address() -> None:
    """One more is closed. Those that are there stay, idle or not, but for one that has not said anything yet."""
    settings = ZooKeeperSettings(connections_max=3, connections_per_client_max=2)
    async with served(settings) as world:
        first, second = await world.client(), await world.client()
        assert await world.dial().closed() == b""
        third = world.dial(host="10.0.0.1")
        await third.connect()
        assert await world.dial(host="10.0.0.2").closed() == b""
        await first.call(-11)
        assert await first.closed() == b""
        await wait_all_tasks_blocked()
        silent = world.dial()
        await wait_all_tasks_blocked()
        await _may_connect(world)
        assert await silent.closed() == b""
        assert (await second.create("/a")).error == 0


async def _may_connect(world: World) -> None:
    client = world.dial()
    await client.connect()
    assert client.session


async def test_traffic_is_told_for_words_and_metrics() -> None:
    """Connections, watches, requests and answers are counted; counts can be reset."""
    async with served() as world:
        client = await world.client()
        await client.create("/a")
        await client.get("/a", watch=True)
        traffic = world.server.traffic()
        (facts,) = traffic.connections
        assert (facts.session, facts.received, facts.sent, facts.outstanding) == (client.session, 3, 3, 0)
        assert traffic.watches == 1
        assert world.server.watches().paths_of == {client.session: ["/a"]}
        assert (traffic.received, traffic.latency.most > 0) == (3, True)
        world.server.reset_traffic()
        assert (world.server.traffic().received, world.server.traffic().latency.most) == (0, 0)
        values = {family.name: family.samples[0].value for family in world.server.metrics()}
        assert values["virtuallog_zookeeper_received_frames_total"] == 3
