"""Members of a log used by itself, registered in ZooKeeper: each replica has an ephemeral znode, all watch them.

    ZNODE/member-<start of the process>-<sequence>      {"id": 2, "address": "10.0.0.2:5050", "boot": 8911}

A process makes its znode once per session. The name tells the owner, so a znode whose creation was not acknowledged is
found again and not made twice. A restarted process makes a new znode, while the old one may live until its session ends:
the higher sequence counts. While ZooKeeper does not answer, the members stay as they were.

Source: Mesos, `src/zookeeper/group.cpp` and `ZooKeeperNetwork`; data that cannot be read within 5 s is asked for again.
Departure: an ended session removes no member from the network, only the answer of ZooKeeper does.

kazoo has threads of its own; they stay behind `virtuallog.runtime.zookeeper_client`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import attrs
import trio

from virtuallog.contract.errors import InvalidSettingError, MalformedError, UnavailableError
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import NodeId
from virtuallog.runtime import log, zookeeper_client
from virtuallog.runtime.zookeeper_client import KazooBridge
from virtuallog_loglets.paxos.standalone.network import LogMember, LogNetwork

ANSWER_SECONDS: Final = 5.0
"""Timeout of one answer of ZooKeeper, after which everything is asked again, as in Mesos."""
RETRY_SECONDS: Final = 1.0
"""Pause after a failure; meanwhile the members stay as they were."""
_PREFIX: Final = "member-"
_DATA_BYTES_MAX: Final = 1024
"""Cap on the data of a member's znode that is parsed."""


@attrs.frozen(kw_only=True)
class ZooKeeperMembership:
    """ZooKeeper servers and znode at which members are registered."""

    servers: str
    """host:port,host:port"""
    znode: str
    """Absolute path; made if it is missing."""
    timeout_seconds: float = 10.0
    """Timeout of the session: a dead replica counts as a member for so long."""
    auth: tuple[str, str] | None = attrs.field(default=None, repr=False)
    """Scheme and credential, such as ("digest", "user:password"). With it only the owner may change its znodes. None for
    anonymous access."""

    def __attrs_post_init__(self) -> None:
        if not self.znode.startswith("/") or self.znode == "/":
            raise InvalidSettingError("znode", f"'{self.znode}' is not an absolute path")


async def join_network(zookeeper: ZooKeeperMembership, own: LogMember, network: LogNetwork, clock: Clock) -> None:
    """Register as a member and keep `network` up to date, until cancelled. If cancelled, the member leaves at once.

    Raises:
        UnsupportedError: kazoo is not installed.
        InvalidSettingError: ZooKeeper refuses the credential, or an address or path.
    """
    client = zookeeper_client.open_client(zookeeper.servers, zookeeper.timeout_seconds, zookeeper.auth)
    try:
        await _Session(client, zookeeper, own, clock).run(network)
    finally:
        await zookeeper_client.close_client(client)


@attrs.define(eq=False)
class _Session:
    """One ZooKeeper client, across any number of sessions."""

    _client: Any
    _zookeeper: ZooKeeperMembership
    _own: LogMember
    _clock: Clock
    _known: dict[str, LogMember | None] = attrs.field(factory=dict, init=False)
    """Members by znode name; data of a znode never changes. None if the data cannot be used."""
    _bridge: KazooBridge = attrs.field(factory=KazooBridge, init=False)
    _woken: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def run(self, network: LogNetwork) -> None:
        self._client.add_listener(self._wake)
        self._client.start_async()  # tries for ever, on its own threads
        while True:
            woken = self._woken = trio.Event()  # before we look: what changes meanwhile is looked at next
            try:
                network.set(await self._members())
                await woken.wait()
            except UnavailableError as error:
                log.info("members cannot be read", reason=str(error))
                with self._clock.timeout(RETRY_SECONDS):
                    await woken.wait()

    # -- the members --------------------------------------------------------------------------------------------------

    async def _members(self) -> list[LogMember]:
        """Registered members; registers this one first if it is not."""
        names = await self._names()
        own = f"{_PREFIX}{self._own.boot:x}-"
        if not any(name.startswith(own) for name in names):
            await self._register(own)
            names = await self._names()
        for name in names:
            if name not in self._known:
                self._known[name] = await self._read(name)
        self._known = {name: self._known[name] for name in names}
        return _newest(self._known.items())

    async def _names(self) -> list[str]:
        """Names of the members' znodes. Sets a watch that calls `_wake` at the next change."""
        from kazoo.exceptions import NoNodeError

        try:
            found = await self._answer(self._client.get_children_async(self._zookeeper.znode, watch=self._wake))
        except NoNodeError:
            return []
        return sorted((name for name in found if name.startswith(_PREFIX)), key=_sequence)

    async def _register(self, name: str) -> None:
        log.info("joining", znode=self._zookeeper.znode, node=self._own.node, address=self._own.address)
        path = f"{self._zookeeper.znode}/{name}"
        acl = _acl(private=self._zookeeper.auth is not None)
        await self._answer(
            self._client.create_async(path, _encode(self._own), acl=acl, ephemeral=True, sequence=True, makepath=True)
        )

    async def _read(self, name: str) -> LogMember | None:
        from kazoo.exceptions import NoNodeError

        try:
            data, _ = await self._answer(self._client.get_async(f"{self._zookeeper.znode}/{name}"))
            return _decode_untrusted(data)
        except NoNodeError:  # gone meanwhile: we are about to be woken
            return None
        except MalformedError as error:
            log.warning("passing over a member", znode=name, reason=str(error))
            return None

    # -- across the threads -------------------------------------------------------------------------------------------

    async def _answer(self, pending: Any) -> Any:
        """Wait for an answer of ZooKeeper.

        Raises:
            UnavailableError: no answer for now.
            InvalidSettingError: ZooKeeper denies the request.
            kazoo.exceptions.NoNodeError: there is no such znode.
        """
        from kazoo.exceptions import AuthFailedError, KazooException, NoAuthError, NoNodeError

        try:
            return await self._bridge.answer(pending, self._clock, ANSWER_SECONDS)
        except NoNodeError:
            raise
        except (NoAuthError, AuthFailedError) as error:
            raise InvalidSettingError("auth", f"ZooKeeper refuses it: {type(error).__name__}") from error
        except KazooException as error:
            raise UnavailableError(f"ZooKeeper: {type(error).__name__} {error}") from error

    def _wake(self, _: object) -> None:
        """Callback on a thread of kazoo: ZooKeeper or the connection to it has changed."""
        self._bridge.call_soon(self._look_again)

    def _look_again(self) -> None:
        self._woken.set()


def _newest(found: Iterable[tuple[str, LogMember | None]]) -> list[LogMember]:
    """One member for each number: that with the highest sequence."""
    by_node = {member.node: member for _, member in sorted(found, key=lambda pair: _sequence(pair[0])) if member}
    return list(by_node.values())


def _sequence(name: str) -> tuple[int, str]:
    """Sort key by the ten digits that ZooKeeper appends; other names come first."""
    digits = name.rpartition("-")[2]
    return (int(digits) if digits.isdecimal() else -1, name)


def _encode(member: LogMember) -> bytes:
    return json.dumps({"id": member.node, "address": member.address, "boot": member.boot}).encode()


def _decode_untrusted(data: bytes) -> LogMember:
    """Decode the data of a member's znode; raises MalformedError if it has another form."""
    try:
        fields = json.loads(data[:_DATA_BYTES_MAX])
        node, address, boot = fields["id"], fields["address"], fields["boot"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedError(f"not a member of a log: {data[:100]!r}") from error
    if type(node) is not int or type(boot) is not int or not isinstance(address, str) or node < 1:
        raise MalformedError(f"not a member of a log: {data[:100]!r}")
    return LogMember(node=NodeId(node), address=address, boot=boot)


def _acl(*, private: bool) -> Any:
    """Access list: all may read; with a credential only its owner may do more."""
    from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

    return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE] if private else OPEN_ACL_UNSAFE
