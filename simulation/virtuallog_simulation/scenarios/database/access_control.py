"""Clients with rights, and unauthorized ones, at three servers of ZooKeeper's protocol that share
one log in memory.

There are no nodes and no network: only the entrances are tested. Owners create znodes with ACLs,
change them, and move their sessions from server to server; readers of other identities, or none,
watch everything; strangers claim sessions with wrong passwords, at every server, in either mode;
connections that say nothing pile up. Servers are cut off from the log for about as long as it takes
to get into read-only mode, so that the mode lasts from a moment to seconds.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import trio
from trio.testing import memory_stream_pair

from virtuallog.contract.errors import UnavailableError
from virtuallog.rpc.tls_acceptor import ADDRESS_HANDSHAKES_MAX, HANDSHAKES_MAX
from virtuallog_database.replica.session_ids import draw_session_id
from virtuallog_database.tree.commands import OPEN_ACL, Acl, Identity, Permission
from virtuallog_server.zookeeper.auth.schemes import digest_of
from virtuallog_server.zookeeper.session.serving_context import ServiceMode
from virtuallog_simulation.checks.database import access_control as checks
from virtuallog_simulation.checks.database.access_control import Outage
from virtuallog_simulation.scenarios.database.shared_log import SharedLog
from virtuallog_simulation.scenarios.database.shared_log_servers import (
    CONNECTIONS_PER_CLIENT,
    PREFIX,
    SERVERS,
    AccessRun,
    host_server,
    serve_stream,
)
from virtuallog_simulation.workload.database.recorded_connection import (
    Claim,
    Ephemerals,
    Login,
    Ping,
    RecordedConnection,
    Request,
    Restore,
    Watch,
    creating,
    deleting,
    protecting,
    replacing,
    setting,
)
from virtuallog_simulation.world.scenario import Scenario
from virtuallog_simulation.world.world import World

SECONDS: Final = 20.0
LOOKED: Final = tuple(
    PREFIX + each
    for each in (
        "events told", "events withheld", "local sessions", "claims refused", "read-only moments", "outages", "silent", "unknown claims",
    )
)  # fmt: skip
"""Counters that a set of seeds must have shown."""
POUNCES: Final = 12
LONG_SECONDS: Final = 8.0
"""Longest seconds of an outage."""
_CREDENTIALS: Final = {"alice": b"alice:a", "bob": b"bob:b"}
_IDENTITIES: Final = {name: Identity("digest", digest_of(each.decode())) for name, each in _CREDENTIALS.items()}
_PARENTS: Final = ("/p0", "/p1", "/p2")
_PATHS: Final = (*_PARENTS, *(f"{parent}/c{number}" for parent in _PARENTS for number in range(3)))
_WAYS: Final = ("data", "exist", "child", "persistent", "recursive")
_SILENT_HOST: Final = "10.9.9.9"


async def _story(world: World) -> None:
    source = world.random("plan")
    run = AccessRun(world, source, SharedLog())
    async with trio.open_nursery() as nursery:
        for number in SERVERS:
            nursery.start_soon(host_server, run, number)
        await trio.sleep(1.0)
        with trio.move_on_after(SECONDS):
            async with trio.open_nursery() as acting:
                await _prepare(run)
                for name, number in (("alice", 1), ("bob", 2), ("alice", 3)):
                    acting.start_soon(_own, run, name, f"10.0.0.{number}", world.random(f"owner {number}"))
                for number, reader in enumerate(("", "bob", "", "alice")):
                    acting.start_soon(_look_on, run, reader, f"10.0.1.{number}", world.random(f"reader {number}"))
                acting.start_soon(_steal, run, world.random("thief"))
                acting.start_soon(_pounce, run, world.random("pouncer"))
                acting.start_soon(_cut, run, world.random("cuts"))
                if source.random() < 0.4:
                    acting.start_soon(_flood, run, world.random("flood"))
                if source.random() < 0.5:
                    acting.start_soon(_be_silent, run, world.random("silence"))
        await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    violations, compared = checks.judge(run.record, run.log.commands, run.log.results)
    world.violations.extend(violations)
    for what, times in compared.items():
        run.count(what, times)


async def _prepare(run: AccessRun) -> None:
    """Some znodes that are there from the beginning."""
    line = await run.dial(Claim(server=1, host="10.0.2.1"))
    for path in _PARENTS:
        await line.ask(creating(path, OPEN_ACL, ephemeral=False))
    await line.leave()


def _draw_acl(source: random.Random) -> Sequence[Acl]:
    """Draw an ACL: open, one's own, or one's own and readable by a second identity, by an address,
    or by all."""
    everything, read = int(Permission.ALL), int(Permission.READ)
    own = [Acl(everything, "digest", _IDENTITIES[source.choice(("alice", "bob"))].id)]
    others = (
        Acl(read, "world", "anyone"),
        Acl(everything & ~read, "world", "anyone"),
        Acl(read, "digest", _IDENTITIES["bob"].id),
        Acl(read, "ip", "10.0.1.0"),
    )
    return source.choice((OPEN_ACL, own, own, [*own, source.choice(others)]))


# -- owners


async def _own(run: AccessRun, name: str, host: str, source: random.Random) -> None:
    """A client with rights and ephemerals, that moves its session about."""
    seen = 0
    while True:
        server = source.choice(SERVERS)
        session, password = run.held.get(host, (0, bytes(16)))
        claim = Claim(
            server=server,
            host=host,
            session=session,
            password=password,
            last_zxid=seen,
            read_only=source.random() < 0.6,
        )
        former = [line for line in run.record.lines if line.claim.host == host and line.ended is None]
        run.record.leaving.update(former)
        try:
            line = await run.dial(claim, secure=source.random() < 0.3)
        except UnavailableError:
            await trio.sleep(source.uniform(0.05, 0.3))
            continue
        if not line.session:
            run.held.pop(host, None)
            continue
        if not line.read_only:
            run.held[host] = line.session, line.password
        with suppress(UnavailableError):
            await _work(run, line, name, source)
        seen = max(seen, line.seen)
        if source.random() < 0.5 and line.ended is None:
            run.record.leaving.add(line)
            await line.leave()


async def _work(run: AccessRun, line: RecordedConnection, name: str, source: random.Random) -> None:
    """Raises UnavailableError when the connection is over."""
    await line.ask(Login(_IDENTITIES[name], _CREDENTIALS[name]))
    await line.ask(Ping())
    for _ in range(source.randint(8, 40)):
        await trio.sleep(source.uniform(0.0, 0.3))
        await line.ask(_draw_write(line, source))


def _draw_write(line: RecordedConnection, source: random.Random) -> Request:
    path, acl = source.choice(_PATHS), _draw_acl(source)
    parent = source.choice(_PARENTS)
    choices: tuple[Request, ...] = (
        creating(path, acl, ephemeral=False),
        creating(f"{parent}/e-{line.claim.host}-{source.randint(1, 3)}", acl, ephemeral=True),
        setting(path),
        protecting(path, acl),
        deleting(f"{parent}/c{source.randint(0, 2)}"),
        replacing(f"{parent}/c0", acl, f"{parent}/c1"),
        Ephemerals(),
    )
    return source.choice(choices)


# -- readers


async def _look_on(run: AccessRun, name: str, host: str, source: random.Random) -> None:
    """A client that watches what it may read and what it may not, with a new session each time."""
    since = 0
    while True:
        claim = Claim(server=source.choice(SERVERS), host=host, read_only=source.random() < 0.5)
        with suppress(UnavailableError):
            line = await run.dial(claim)
            if line.session:
                await _watch(line, name, source, since)
                since = source.randint(0, line.seen)
                run.record.leaving.add(line)
                await line.leave()
        await trio.sleep(source.uniform(0.0, 0.3))


async def _watch(line: RecordedConnection, name: str, source: random.Random, since: int) -> None:
    """Each path is watched in any number of ways, which do not affect each other."""
    ways = [Watch(way, path) for path in ("/", *_PATHS) for way in source.sample(_WAYS, source.choice((0, 1, 1, 2, 3)))]
    when = source.choice((0, 0, 12)) if name else -1
    if source.random() < 0.3:
        if when == 0:
            await _log_in(line, name)
        await line.ask(Restore(since, ways))
        ways = []
    for number in range(source.randint(10, 40)):
        if number == when and not any(isinstance(each, Login) for each in _asked(line)):
            await _log_in(line, name)
        await line.ask(source.choice(ways) if ways and source.random() < 0.7 else Ping())
        await trio.sleep(source.uniform(0.0, 0.2))


async def _log_in(line: RecordedConnection, name: str) -> None:
    await line.ask(Login(_IDENTITIES[name], _CREDENTIALS[name]))
    await line.ask(Ping())


def _asked(line: RecordedConnection) -> Sequence[object]:
    return [getattr(frame, "request", None) for frame in line.frames]


# -- strangers


async def _steal(run: AccessRun, source: random.Random) -> None:
    """Claim the sessions of others, at every server and in either mode; local sessions of others as well."""
    while True:
        await trio.sleep(source.uniform(0.02, 0.3))
        local = [(line.session, line.password) for line in run.record.lines if line.read_only and line.session]
        if run.held or local:
            session, right = source.choice([*run.held.values(), *local[-1:]])
            claim = Claim(
                server=source.choice(SERVERS),
                host=f"10.6.6.{source.randint(1, 3)}",
                session=session,
                password=_draw_wrong(source, right),
                last_zxid=source.choice((0, 0, 1, 1 << 40)),
                read_only=source.random() < 0.7,
            )
            with suppress(UnavailableError):
                line = await run.dial(claim, secure=source.random() < 0.2)
                if line.session:
                    await line.ask(Ephemerals())
                    await line.ask(setting(source.choice(_PATHS)))
                run.record.leaving.add(line)
                await line.leave()


async def _pounce(run: AccessRun, source: random.Random) -> None:
    """Claim a session as soon as it is there, at a server that may not have heard of it: then the log has to say that the password is wrong."""
    for _ in range(POUNCES):
        known = len(run.record.passwords)
        while len(run.record.passwords) <= known:
            await trio.sleep(0.002)
        session, right = list(run.record.passwords.items())[-1]
        slowest = max(SERVERS, key=lambda number: run.servers[number].follower.lag_seconds)
        claim = Claim(server=slowest, host="10.6.6.9", session=session, password=_draw_wrong(source, right))
        with suppress(UnavailableError):
            line = await run.dial(claim)
            run.record.leaving.add(line)
            await line.leave()


def _draw_wrong(source: random.Random, right: bytes) -> bytes:
    """Draw a wrong password, never the right one."""
    flipped = bytearray(right)
    flipped[source.randrange(len(flipped))] ^= 1 << source.randrange(8)
    others = (
        bytes(16),
        b"",
        right[: source.randrange(len(right))],
        right + b"\0",
        bytes(flipped),
        source.randbytes(16),
    )
    drawn = source.choice(others)
    return drawn if drawn != right else b"wrong"


async def _flood(run: AccessRun, source: random.Random) -> None:
    """Claim sessions that never were, many times, at one server."""
    await trio.sleep(source.uniform(0.0, 5.0))
    server, host = source.choice(SERVERS), "10.7.7.7"
    for _ in range(300):
        session = draw_session_id(source.choice(SERVERS), source)
        claim = Claim(server=server, host=host, session=session, password=source.randbytes(16))
        with suppress(UnavailableError):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_claim_and_leave, run, claim)
        run.count("unknown claims")
        await trio.sleep(source.uniform(0.0, 0.02))


async def _claim_and_leave(run: AccessRun, claim: Claim) -> None:
    with suppress(UnavailableError):
        try:
            line = await run.dial(claim)
            run.record.leaving.add(line)
            await line.leave()
        finally:
            run.record.made_up[claim.session] = run.record.lines[-1]


async def _be_silent(run: AccessRun, source: random.Random) -> None:
    """Open connections that say nothing, more than there is room for, at either port; then an honest client comes from the same address."""
    while True:
        await trio.sleep(source.uniform(0.5, 3.0))
        server, secure = run.servers[source.choice(SERVERS)], source.random() < 0.6
        bound = source.choice((ADDRESS_HANDSHAKES_MAX, HANDSHAKES_MAX)) if secure else CONNECTIONS_PER_CLIENT
        serve = server.secure.serve_stream if secure else server.service.server.serve_stream
        streams = []
        for number in range(bound + source.choice((0, 1, 5))):
            ours, theirs = memory_stream_pair()
            host = f"10.8.{number % 4}.1" if secure and bound == HANDSHAKES_MAX else _SILENT_HOST
            server.nursery.start_soon(serve_stream, serve, theirs, host)
            streams.append(ours)
        await trio.sleep(0.01)
        run.count("silent", len(streams))
        await _be_honest(run, server.number, secure=secure)
        for stream in streams:
            await trio.aclose_forcefully(stream)


async def _be_honest(run: AccessRun, server: int, *, secure: bool) -> None:
    was_well = run.is_well(server, 2.0)
    try:
        line = await run.dial(Claim(server=server, host=_SILENT_HOST), secure=secure)
    except UnavailableError as error:
        if was_well and run.is_well(server, 2.0):
            door = "with TLS" if secure else "without TLS"
            run.record.shut_out.append(f"server {server}, {door}, at {trio.current_time():.2f} s: {error}")
        return
    run.record.leaving.add(line)
    await line.leave()


# -- the log


async def _cut(run: AccessRun, source: random.Random) -> None:
    """Cut one server off from the log after the other, mostly until read-only mode has just begun; guests come meanwhile."""
    while True:
        await trio.sleep(source.uniform(0.2, 1.5))
        server, now = run.servers[source.choice(SERVERS)], trio.current_time()
        outage = Outage(server.number, now)
        run.record.outages.append(outage)
        server.follower.cut(off=True)
        run.count("outages")
        async with trio.open_nursery() as nursery:
            for number in range(2):
                guest = run.world.random(f"guest {len(run.record.outages)} {number}")
                nursery.start_soon(_visit, run, outage, f"10.0.3.{number}", guest)
            if source.random() < 0.7:
                while server.service.contact.standing is ServiceMode.FULL and trio.current_time() < now + LONG_SECONDS:
                    await trio.sleep(0.01)
                await trio.sleep(source.uniform(0.02, 0.5))
            else:
                await trio.sleep(source.uniform(4.0, LONG_SECONDS))
            outage.until = trio.current_time()
            server.follower.cut(off=False)


async def _visit(run: AccessRun, outage: Outage, host: str, source: random.Random) -> None:
    """Use read-only mode as a guest, from as early as possible; stay for longer than it may last."""
    while outage.until == float("inf"):
        await trio.sleep(source.uniform(0.01, 0.1))
        with suppress(UnavailableError):
            line = await run.dial(Claim(server=outage.server, host=host, read_only=True))
            if line.read_only:
                run.count("read-only moments")
            while line.read_only and trio.current_time() < outage.until + 2 * checks.GRACE_SECONDS:
                await line.ask(source.choice((Ping(), Ephemerals(), setting("/p0"))))
                await trio.sleep(source.uniform(0.05, 0.3))
            run.record.leaving.add(line)
            await line.leave()


STRANGERS: Final = Scenario(
    name="strangers",
    about="clients with rights and strangers at servers of ZooKeeper's protocol, which lose the log for moments",
    story=_story,
    limit_seconds=120.0,
)
