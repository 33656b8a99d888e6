"""Acts of clients with rights: log in, rightly or wrongly; use znodes; change ACLs; live with
quotas.

Each client introduces itself on each connection before any other request, so what its watches may
report is known. All use the same few znodes, whose ACLs are drawn again and again; the super user
reopens what has been closed to all.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

import attrs
import trio

from virtuallog.contract.errors import UnavailableError
from virtuallog_database.tree.commands import OPEN_ACL, Acl, Check, Create, Delete, Mode, SetAcl, SetData
from virtuallog_simulation.workload.database.authentication_model import digest_of
from virtuallog_simulation.workload.database.connection import Connection, connected
from virtuallog_simulation.workload.database.requests import (
    AddWatch,
    Answer,
    Auth,
    CheckWatches,
    Close,
    Connect,
    CountAll,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    GetEphemerals,
    Login,
    MultiRead,
    Reconfig,
    RemoveWatches,
    Request,
    SetWatches,
    Sync,
    Transaction,
    WhoAmI,
)
from virtuallog_simulation.workload.database.session import HANDSHAKE_SECONDS, DatabaseClient

OPEN: Final = ("/r", "/p")
PLAIN: Final = tuple(f"{parent}/{name}" for parent in OPEN for name in "xyz")
LIMITED: Final = "/q"
IN_QUOTA: Final = tuple(f"{LIMITED}/{name}" for name in "abcde")
DEEPER: Final = f"{LIMITED}/a"
WATCHED: Final = "/w"
"""Path of watches that stay; watches of this path and below are of no other kind."""
BELOW: Final = (WATCHED, f"{WATCHED}/x", f"{WATCHED}/y")
QUOTA: Final = "/zookeeper/quota"
FOUNDED: Final = (*OPEN, LIMITED, WATCHED, f"{QUOTA}{LIMITED}")
SUPER: Final = b"super:secret"
USERS: Final = {"sam": "sam-pw", "sue": "sue-pw"}
CREDENTIALS: Final = (b"ann:1", b"bob:2")
AWAY: Final = 0.5
AWAY_SECONDS: Final = (0.1, 0.8)
"""Seconds between two connections, in half of the cases: what is missed meanwhile is reported, or
not."""
NETWORKS: Final = ("127.0.0.1", "127.0.0.0/8", "10.0.0.0/8", "127.0.0.2")

SHAPES: Final = (
    "right shown", "wrong password of the super user", "unknown scheme", "wrong password of a login", "logins", "impostors",
    "impostors refused", "ACLs set", "watches removed", "quotas set", "changes of the list of servers", "sessions moved",
    "multi-reads", "NO_AUTH", "QUOTA_EXCEEDED", "INVALID_ACL", "SASL_REQUIRED", "AUTH_FAILED", "NOT_READ_ONLY", "NO_WATCHER",
    "BAD_VERSION", "read-only connections",
)  # fmt: skip
"""Names under which shapes are counted."""
_ERRORS: Final = {
    -102: "NO_AUTH", -125: "QUOTA_EXCEEDED", -114: "INVALID_ACL", -124: "SASL_REQUIRED", -115: "AUTH_FAILED",
    -119: "NOT_READ_ONLY", -121: "NO_WATCHER", -103: "BAD_VERSION",
}  # fmt: skip


@attrs.define(eq=False)
class AclActor:
    """One client, through all its connections."""

    client: DatabaseClient
    random: random.Random
    credentials: tuple[bytes, ...]
    """Credentials of scheme digest."""
    user: str
    """User of SASL; empty if there is none."""
    others: Callable[[], Sequence[DatabaseClient]]
    """All clients of the run."""
    count: Callable[[str], None]
    pause_seconds: float = 0.1
    _written: int = attrs.field(default=0, init=False)
    _watching: dict[type, set[str]] = attrs.field(factory=dict, init=False)

    @property
    def is_super(self) -> bool:
        return SUPER in self.credentials

    async def perform(self) -> None:
        """Perform acts until cancelled."""
        while True:
            async with self.client.connection() as connection:
                if connection.granted.read_only:
                    self.count("read-only connections")
                before, self._watching = self._watching, {}
                connection.on_event = lambda event: self._forget(event.path)
                if await self._introduce(connection):
                    await self._come_back(connection, before)
                    await self._live(connection)
            if self.random.random() < AWAY:
                await trio.sleep(self.random.uniform(*AWAY_SECONDS))

    async def _introduce(self, connection: Connection) -> bool:
        """Introduce the client; returns True if the connection is usable then."""
        if self.random.random() < 0.03:
            await self._ask(connection, self._read())  # before any login
        if self.user and not await self._login(connection):
            return False
        if self.random.random() < 0.05:
            self.count("unknown scheme")
            await self._ask(connection, Auth("kerberos", b"x"))
            return False
        if not self.is_super and self.random.random() < 0.2:
            self.count("wrong password of the super user")
            await self._ask(connection, Auth("digest", b"super:wrong"))
        for credential in self.credentials:
            await self._ask(connection, Auth("digest", credential))
        if self.random.random() < 0.1:
            await self._ask(connection, Auth("ip", b""))
        await self._ask(connection, WhoAmI())
        return connection.is_open

    async def _login(self, connection: Connection) -> bool:
        is_wrong = self.random.random() < 0.1
        password = "wrong" if is_wrong else USERS[self.user]
        challenge = await self._ask(connection, Login(self.user, password, b""))
        if challenge is None or challenge.error:
            return False
        token = answer_to_challenge(self.user, password, challenge.value, self.random)
        told = await self._ask(connection, Login(self.user, password, token))
        self.count("wrong password of a login" if is_wrong else "logins")
        return told is not None and not told.error

    async def _come_back(self, connection: Connection, before: dict[type, set[str]]) -> None:
        if before and self.random.random() < 0.7:
            data, exist, child = (tuple(sorted(before.get(kind, ()))) for kind in (GetData, Exists, GetChildren))
            stay = (WATCHED,) if self.random.random() < 0.5 else ()
            self._watching = {GetData: set(data), Exists: set(exist), GetChildren: set(child)}
            await self._ask(connection, SetWatches(self.client.seen, data, exist, child, (), stay))

    async def _live(self, connection: Connection) -> None:
        while connection.is_open:
            await trio.sleep(self.random.expovariate(1 / self.pause_seconds))
            act = self.random.choices([act for _, act in ACTS], [weight for weight, _ in ACTS])[0]
            if connection.granted.read_only and self.random.random() < 0.15:
                act = AclActor.intrude
            if not await act(self, connection):
                return

    # -- acts: whether to go on with this connection ----------------------------------------------------------------

    async def write(self, connection: Connection) -> bool:
        await self._ask(connection, self._write())
        return True

    async def read(self, connection: Connection) -> bool:
        await self._ask(connection, self._read())
        return True

    async def burst(self, connection: Connection) -> bool:
        """Several at once."""
        async with trio.open_nursery() as nursery:
            for _ in range(self.random.randint(2, 5)):
                request = self._write() if self.random.random() < 0.5 else self._read()
                await nursery.start(partial(self._started, connection, request))
        return True

    async def transact(self, connection: Connection) -> bool:
        """Quotas are taken back with the rest."""
        parts = tuple(self._part() for _ in range(self.random.randint(2, 4)))
        await self._ask(connection, Transaction(parts))
        return True

    async def set_acl(self, connection: Connection) -> bool:
        path = self.random.choice((*PLAIN, *BELOW[1:], *IN_QUOTA))
        if self.random.random() < 0.15:
            path = self.random.choice((*OPEN, WATCHED, LIMITED))
        await self._ask(connection, SetAcl(path, self._acl(), self._version()))
        self.count("ACLs set")
        return True

    async def watch_for_good(self, connection: Connection) -> bool:
        await self._ask(connection, AddWatch(WATCHED, recursive=True))
        return True

    async def remove_watches(self, connection: Connection) -> bool:
        kind = self.random.choice((1, 2))
        path = self.random.choice((*PLAIN, *OPEN))
        await self._ask(connection, CheckWatches(path, kind))
        await self._ask(connection, RemoveWatches(path, kind))
        for of in (GetChildren,) if kind == 1 else (GetData, Exists):
            self._watching.get(of, set()).discard(path)
        self.count("watches removed")
        return True

    async def limit(self, connection: Connection) -> bool:
        """Set a quota, or take it away."""
        limited = self.random.choice((LIMITED, LIMITED, DEEPER))
        base = f"{QUOTA}{limited}"
        if self.random.random() < 0.3:
            await self._ask(connection, Delete(f"{base}/zookeeper_{self.random.choice(('limits', 'stats'))}"))
            return True
        limits = f"count=-1,bytes=-1=;byteHardLimit={self.random.choice((-1, 20, 40))};countHardLimit={self.random.choice((-1, 3, 4))}"
        if limited != LIMITED:
            await self._ask(connection, Create(base, b""))
        await self._ask(connection, Create(f"{base}/zookeeper_limits", limits.encode()))
        await self._ask(connection, Create(f"{base}/zookeeper_stats", b"count=-1,bytes=-1"))
        self.count("quotas set")
        return True

    async def reconfigure(self, connection: Connection) -> bool:
        number, version = self.random.choice((7, 8)), self.random.choice((-1, -1, 1, 5))
        role = self.random.choice(("observer", "observer", "participant"))
        election = self.random.choice((0, 0, 7010, 7009))  # the last one is refused
        joining = f"server.{number}=127.0.0.1:7009:{election}:{role};127.0.0.1:{2200 + self.random.randrange(50)}"
        asked = Reconfig(joining, None, version) if self.random.random() < 0.6 else Reconfig(None, str(number), version)
        await self._ask(connection, asked)
        self.count("changes of the list of servers")
        return True

    async def intrude(self, connection: Connection) -> bool:
        """Claim the session of another client with a wrong password, as the id of a session is no
        secret."""
        victim = self.random.choice(self.others())
        if not victim.session or victim is self.client:
            return True
        wrong = self.random.choice((bytes(16), b"", self.random.randbytes(16), self.client.password))
        asked = Connect(self.client.number(), victim.session, 0, self.client.timeout_ms, wrong, self.client.read_only)
        dial = self.random.choice(self.client.servers)
        with suppress(UnavailableError):
            async with connected(
                asked.connection,
                dial,
                asked,
                wrong,
                self.client.history,
                f"{self.client.name} intruding",
                HANDSHAKE_SECONDS,
            ) as other:
                self.count("impostors")
                if not other.granted.session:
                    self.count("impostors refused")
                else:
                    await self._ask(other, GetEphemerals("/"))
        return True

    async def close(self, connection: Connection) -> bool:
        if connection.granted.read_only:
            return True
        await self._ask(connection, Close())
        self.client.forget()
        self._watching = {}
        return False

    async def move(self, connection: Connection) -> bool:
        self.count("sessions moved")
        return False

    # -- requests ---------------------------------------------------------------------------------------------------

    def _write(self) -> Create | Delete | SetData:
        dice, path = self.random.random(), self.random.choice((*PLAIN, *IN_QUOTA, *IN_QUOTA, *BELOW))
        if dice < 0.35:
            return SetData(path, self._data(), self._version())
        if dice < 0.6:
            return Delete(path, self._version())
        mode = self.random.choice((Mode.PERSISTENT, Mode.PERSISTENT, Mode.EPHEMERAL))
        return Create(path, self._data(), acl=self._acl() if path not in IN_QUOTA else OPEN_ACL, mode=mode)

    def _part(self) -> Create | Delete | SetData | Check:
        return Check(self.random.choice(PLAIN), self._version()) if self.random.random() < 0.15 else self._write()

    def _read(self) -> Request:
        path = self.random.choice((*PLAIN, *OPEN, *IN_QUOTA))
        watch = self.random.random() < 0.5
        if path in IN_QUOTA:
            watch = False
        dice = self.random.randrange(12)
        if dice < 6:
            return self.random.choice((Exists, GetData, GetData, GetChildren))(path, watch)
        if dice == 6:
            self.count("multi-reads")
            paths = self.random.choices((*PLAIN, *OPEN, f"{QUOTA}{LIMITED}/zookeeper_stats"), k=3)
            return MultiRead(tuple(self.random.choice((GetData, GetChildren))(each) for each in paths))
        if dice == 7:
            return GetData(f"{QUOTA}{LIMITED}/zookeeper_stats")
        return (
            GetAcl(path),
            GetEphemerals(self.random.choice(("/", "/r", "/p/x"))),
            CountAll(self.random.choice((*OPEN, "/", LIMITED))),
            self.random.choice((WhoAmI(), Sync())),
        )[dice - 8]

    def _acl(self) -> tuple[Acl, ...]:
        if self.random.random() < 0.25:
            return OPEN_ACL
        return tuple(self._entry() for _ in range(self.random.choice((0, 1, 1, 1, 2, 2, 3)))) or self._rarely_empty()

    def _rarely_empty(self) -> tuple[Acl, ...]:
        return () if self.random.random() < 0.3 else OPEN_ACL

    def _entry(self) -> Acl:
        permissions = self.random.choice((31, 31, 1, 2, 4, 8, 16, 3, 15, 17, 30))
        digests = [digest_of(each.decode()) for each in CREDENTIALS]
        scheme, id_ = self.random.choice(
            (
                ("world", "anyone"), ("world", "anyone"), ("auth", ""), ("digest", digests[0]), ("digest", digests[1]),
                ("digest", digest_of("ann:wrong")), ("sasl", self.random.choice(list(USERS))), ("ip", self.random.choice(NETWORKS)),
                ("ip", "999.1.1.1") if self.random.random() < 0.2 else ("world", "anyone"),
                ("unknown", "x") if self.random.random() < 0.2 else ("world", "anyone"),
            )
        )  # fmt: skip
        return Acl(permissions, scheme, id_)

    def _version(self) -> int:
        return self.random.choice((-1, -1, -1, 0, 1))

    def _data(self) -> bytes:
        """Data never used before."""
        self._written += 1
        return f"{self.client.name}.{self._written}".encode().ljust(self.random.choice((1, 8, 12)), b".")

    # -- asking -----------------------------------------------------------------------------------------------------

    async def _started(self, connection: Connection, request: Request, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await self._ask(connection, request)

    async def _ask(self, connection: Connection, request: Request) -> Answer | None:
        """None: there is no answer."""
        if isinstance(request, Exists | GetData | GetChildren) and request.watch:
            self._watching.setdefault(type(request), set()).add(request.path)
        try:
            answer = await connection.ask(request)
        except UnavailableError:
            return None
        self.client.seen = max(self.client.seen, connection.seen)
        if answer.error in _ERRORS:
            self.count(_ERRORS[answer.error])
        if isinstance(request, GetData | GetChildren) and answer.error:
            self._watching.get(type(request), set()).discard(request.path)
        return answer

    def _forget(self, path: str) -> None:
        for paths in self._watching.values():
            paths.discard(path)


def answer_to_challenge(user: str, password: str, challenge: bytes, source: random.Random) -> bytes:
    """The second token of DIGEST-MD5 (RFC 2831, 2.1.2)."""
    said = {
        name: quoted or plain
        for name, quoted, plain in re.findall(r'([a-z-]+)=(?:"([^"]*)"|([^",]+))', challenge.decode())
    }
    nonce, cnonce, uri = said["nonce"], f"{source.getrandbits(64):x}", "zookeeper/zk-sasl-md5"
    secret = hashlib.md5(f"{user}:{said['realm']}:{password}".encode()).digest()
    first = hashlib.md5(secret + f":{nonce}:{cnonce}".encode()).hexdigest()
    second = hashlib.md5(f"AUTHENTICATE:{uri}".encode()).hexdigest()
    response = hashlib.md5(f"{first}:{nonce}:00000001:{cnonce}:auth:{second}".encode()).hexdigest()
    return (
        f'charset=utf-8,username="{user}",realm="{said["realm"]}",nonce="{nonce}",nc=00000001,cnonce="{cnonce}",'
        f'digest-uri="{uri}",maxbuf=65536,response={response},qop=auth'
    ).encode()


async def found(client: DatabaseClient) -> None:
    """Make what the others need, as the super user who is called sam."""
    made: set[str] = set()
    while len(made) < len(FOUNDED):
        async with client.connection() as connection:
            with suppress(UnavailableError):
                challenge = await connection.ask(Login("sam", USERS["sam"], b""))
                await connection.ask(
                    Login("sam", USERS["sam"], answer_to_challenge("sam", USERS["sam"], challenge.value, client.random))
                )
                await connection.ask(Auth("digest", SUPER))
                for path in FOUNDED:
                    await connection.ask(Create(path, b""))
                    made.add(path)


Act: TypeAlias = Callable[[AclActor, Connection], Awaitable[bool]]
ACTS: Final[Sequence[tuple[float, Act]]] = (
    (9, AclActor.write),
    (9, AclActor.read),
    (3, AclActor.burst),
    (4, AclActor.transact),
    (4, AclActor.set_acl),
    (1.5, AclActor.watch_for_good),
    (1, AclActor.remove_watches),
    (1.5, AclActor.limit),
    (0.7, AclActor.reconfigure),
    (0.7, AclActor.intrude),
    (0.4, AclActor.close),
    (0.8, AclActor.move),
)
