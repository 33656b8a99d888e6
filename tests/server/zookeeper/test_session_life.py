"""Signs of life of a client: which of them a connection passes on to `SessionExpiry`, and which not."""

from __future__ import annotations

from trio.testing import MockClock

from tests.server.zookeeper.world import RawClient, World, served
from virtuallog_database.replica.session_expiry import OTHERS, PATIENCE_SECONDS, REPORT
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.commands import Touch
from virtuallog_server.zookeeper.wire.connection import UNSENT_BYTES_MAX
from virtuallog_simulation.workload.database.jute import Writer

TIMEOUT = 4.0
STEP = 0.05
SLACK = 0.6
"""A tick of the server, and a look at the sessions."""


async def lives(world: World, session: int, most: float) -> float:
    """Seconds until the session is over; `most` if it is not by then."""
    begun = world.server.clock.monotonic()
    while world.server.clock.monotonic() < begun + most:
        if world.server.database.tree.session(session) is None:
            return world.server.clock.monotonic() - begun
        await world.server.clock.sleep(STEP)
    return most


async def delay_entries(world: World, seconds: float) -> None:
    """Have each entry applied so long after it was proposed."""
    log, proposed_at = world.log, [0.0] * 0
    log.held = True
    while True:
        now = world.server.clock.monotonic()
        proposed_at += [now] * (len(log.waiting) - len(proposed_at))
        old = sum(now - each >= seconds for each in proposed_at)
        proposed_at = proposed_at[old:]
        young, log.waiting = log.waiting[old:], log.waiting[:old]
        log.apply()
        log.waiting += young
        proposed_at += [now] * (len(log.waiting) - len(proposed_at))
        await world.server.clock.sleep(STEP)


async def resumed_late(world: World, mock_clock: MockClock, *, pipelined: int) -> int:
    """A client has a session, and asks to resume it. Its command is applied, its connection goes on a moment later. Then it
    is silent. Its session."""
    client, again = await world.client(timeout_ms=round(TIMEOUT * 1000)), world.dial()
    world.log.held = True
    await again.greet(
        session=client.session,
        password=client.password,
        timeout_ms=round(TIMEOUT * 1000),
        last_zxid=0,
        read_only=False,
    )
    await world.settled()
    for _ in range(pipelined):
        await again.send(11, xid=-2)
        await world.settled()
    mock_clock.jump(0.1)
    world.log.held = False
    world.log.apply()
    mock_clock.jump(0.001)
    await again.greeted()
    assert again.session == client.session
    return client.session


async def test_a_resumed_session_whose_client_says_nothing_lives_as_long_as_others_would_let_it(
    mock_clock: MockClock,
) -> None:
    """The handshake may have been under way for long, and its client with another server, which may still answer it. That
    the connection could go on is no sign of life; its server counted it as one."""
    async with served() as world:
        session = await resumed_late(world, mock_clock, pipelined=0)
        mock_clock.autojump_threshold = 0.0
        assert TIMEOUT * OTHERS - 2 * STEP <= await lives(world, session, 20) <= TIMEOUT * OTHERS + SLACK


async def test_what_a_client_sent_with_its_handshake_is_as_old_as_that(mock_clock: MockClock) -> None:
    """It has waited in the stream for the same time, and says no more about where its client is."""
    async with served() as world:
        session = await resumed_late(world, mock_clock, pipelined=3)
        mock_clock.autojump_threshold = 0.0
        assert TIMEOUT * OTHERS - 2 * STEP <= await lives(world, session, 20) <= TIMEOUT * OTHERS + SLACK


async def unread(world: World) -> RawClient:
    """A client that asks for more than it reads, as one does that is stopped."""
    await (await world.client(timeout_ms=40_000)).create("/large", bytes(500_000))
    client = world.dial(tight=True)
    await client.connect(timeout_ms=round(TIMEOUT * 1000))
    asked = Writer().int32(1).int32(4).string("/large").flag(False).frame()
    await client.send_bytes(asked * (UNSENT_BYTES_MAX // 500_000 + 20))
    await world.settled()
    return client


async def test_a_client_that_reads_nothing_ends_like_a_silent_one(autojump_clock: MockClock) -> None:
    """That nothing is read from it any more is its own doing. It lived for half a minute longer."""
    async with served() as world:
        client = await unread(world)
        assert TIMEOUT - STEP <= await lives(world, client.session, 60) <= TIMEOUT + SLACK


async def test_a_client_that_reads_slowly_stays(autojump_clock: MockClock) -> None:
    """It takes an answer now and then; its pings wait behind the requests that it has sent."""
    async with served() as world:
        client = await unread(world)
        for _ in range(15):
            await world.server.clock.sleep(TIMEOUT / 2)
            assert (await client.reply()).error == 0
        assert world.server.database.tree.session(client.session) is not None


async def test_a_client_that_is_killed_at_a_slow_log_ends(autojump_clock: MockClock) -> None:
    """Its server may answer nothing before a touch, which takes more than a third of the timeout each time. So it reads
    nothing, and never learns that the connection has ended; that excused the silence for ever. Touches that are under way
    make the first expiry void, so the log is waited for twice."""
    delay = TIMEOUT / 2
    async with served() as world:
        client = await world.client(timeout_ms=round(TIMEOUT * 1000))
        world.nursery.start_soon(delay_entries, world, delay)
        await world.server.clock.sleep(TIMEOUT / 2)
        await client.send(11, xid=-2)
        await world.settled()
        await client.stream.aclose()
        assert await lives(world, client.session, 60) <= 2 * TIMEOUT + 2 * delay + PATIENCE_SECONDS + SLACK


async def test_a_short_session_at_an_idle_server_is_touched_in_time(autojump_clock: MockClock) -> None:
    """The server would look in a second, and pings are answered for two thirds of that."""
    async with served() as world:
        await world.server.clock.sleep(1.05)
        client = await world.client(timeout_ms=2_000)
        world.log.held = True
        await world.server.clock.sleep(2.0 * REPORT + 0.01)
        proposed = [command_codec.parse_untrusted(entry.payload).operation for entry, _ in world.log.waiting]
        assert proposed == [Touch((client.session,))]
