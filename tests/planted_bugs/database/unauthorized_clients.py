"""Bugs at the ports of ZooKeeper's protocol: strangers see data, take over sessions, or keep clients out."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import trio
from trio.abc import Stream

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.errors import UntrustedError
from virtuallog.contract.types import LogPosition
from virtuallog.rpc.tls_acceptor import HANDSHAKE_SECONDS, HANDSHAKES_MAX
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.replica.database import Database
from virtuallog_database.tree import paths
from virtuallog_database.tree.acl import PermittedIdentities
from virtuallog_database.tree.commands import OPEN_ACL, Acl, Identity
from virtuallog_database.tree.records import SessionRecord
from virtuallog_database.tree.results import Change, ChangeKind, RefusedError, Result, Rights, StoredAcl
from virtuallog_database.tree.watches import Watcher, Watches, WatchMode, WatchTable
from virtuallog_server.zookeeper.auth.tls_port import TlsPort
from virtuallog_server.zookeeper.server import ZooKeeperServer
from virtuallog_server.zookeeper.session.client_session import ClientSession
from virtuallog_server.zookeeper.session.handshake_quota import HandshakeQuota
from virtuallog_server.zookeeper.session.serving_context import ServiceMode
from virtuallog_server.zookeeper.session.session_setup import SessionSetup
from virtuallog_simulation.checks.database.access_control import (
    ALL_READABLE,
    CHEAP,
    MODEL,
    NO_CLIENT_OUT,
    ONLY_READABLE,
    OWNERS,
    READ_ONLY_ENDS,
)

CVE: Final = "CVE-2024-23944"
OPEN: Final = (OPEN_ACL, OPEN_ACL)

fired_as_it_should = Watches.fire
set_as_it_should = Database._set_watch
added_as_it_should = WatchTable.add
began_as_it_should = SessionSetup.begin
claimed_as_it_should = SessionSetup._claim
ticked_as_it_should = ClientSession.tick


# -- watches --------------------------------------------------------------------------------------------------------------


@mutant(Watches.fire, scenario="strangers", published=CVE, found_by=[ONLY_READABLE])
def watches_ask_for_no_right(self: Watches, change: Change, zxid: int, rights: Rights) -> None:
    """Every watcher gets the event: reads have checked, and to set a watch is a read."""
    fired_as_it_should(self, change, zxid, OPEN)


@mutant(Watches.fire, scenario="strangers", published=CVE, found_by=[ONLY_READABLE, ALL_READABLE])
def a_deletion_is_judged_by_the_parent(self: Watches, change: Change, zxid: int, rights: Rights) -> None:
    """The znode is gone, and its ACL with it."""
    own, parent = rights
    fired_as_it_should(self, change, zxid, (parent if change[0] is ChangeKind.DELETED else own, parent))


@mutant(Watches.fire, scenario="strangers", published=CVE, found_by=[ONLY_READABLE, ALL_READABLE])
def children_are_judged_by_the_child(self: Watches, change: Change, zxid: int, rights: Rights) -> None:
    """One ACL for all events of a change."""
    fired_as_it_should(self, change, zxid, (rights[0], rights[0]))


@mutant(Database._set_watch, scenario="strangers", published=CVE, found_by=[ONLY_READABLE])
def what_was_missed_is_told_to_every_client(
    self: Database, watcher: Watcher, path: str, relative_zxid: int, awaited: ChangeKind
) -> None:
    """A restored watch was set by a read once, with the rights of another connection."""

    class Trusted:
        identities = (Identity("super", ""),)
        fire = staticmethod(watcher.fire)

    before = [table.contains(path, watcher, WatchMode.STANDARD) for table in (self.watches.data, self.watches.child)]
    trusted = Trusted()
    set_as_it_should(self, trusted, path, relative_zxid, awaited)
    for table, had in zip((self.watches.data, self.watches.child), before, strict=True):
        if table.remove(path, trusted) and not had:
            table.add(path, watcher)


@mutant(WatchTable.add, scenario="strangers", published="ZOOKEEPER-4466", found_by=[ALL_READABLE])
def a_later_watch_takes_the_place_of_the_earlier_one(
    self: WatchTable, path: str, watcher: Watcher, mode: WatchMode = WatchMode.STANDARD
) -> None:
    """One mode for each client and path, as in ZooKeeper 3.8: a read with a watch ends a recursive watch."""
    self.remove(path, watcher)
    added_as_it_should(self, path, watcher, mode)


@mutant(Database.post_apply, scenario="strangers", found_by=[ONLY_READABLE, ALL_READABLE])
def rights_are_those_of_the_newest_state(self: Database, entry: Entry, position: LogPosition, result: Any) -> None:
    """Looked up when the watch fires: by then the whole group is applied, and later commands with it."""
    assert isinstance(result, Result)
    self.tree.applied(result.zxid)
    for (kind, path), (own, _) in zip(result.changes, result.rights, strict=True):
        self.watches.fire(
            (kind, path), result.zxid, (_now(self, path, own), _now(self, paths.parent_of(path), OPEN_ACL))
        )
    self.expiry.applied(result)


def _now(database: Database, path: str, otherwise: StoredAcl) -> StoredAcl:
    try:
        return database.tree.look(path)[1]
    except RefusedError:
        return otherwise


@mutant(ClientSession.identities, scenario="strangers", found_by=[ALL_READABLE])
def a_login_counts_for_requests_only(self: ClientSession) -> tuple[Identity, ...]:
    """Watches are judged by what the connection was at its beginning."""
    return self._greet()


@mutant(PermittedIdentities.__init__, scenario="strangers", found_by=[ONLY_READABLE])
def any_right_is_the_right(self: PermittedIdentities, acl: tuple[Acl, ...], permission: int) -> None:
    """An entry that names the client lets it read, independent of the rights that it grants."""
    self._named = {(entry.scheme, entry.id) for entry in acl if entry.permissions}
    self._networks = [id_ for scheme, id_ in self._named if scheme == "ip"]


# -- sessions -------------------------------------------------------------------------------------------------------------


@mutant(SessionSetup.begin, scenario="strangers", found_by=[OWNERS])
def a_claim_ends_the_connection_of_the_session(self: SessionSetup) -> None:
    """As ZooKeeper does on one server: before the password is looked at."""
    server = self._host
    assert isinstance(server, ZooKeeperServer)
    former = server._sessions.pop(self._asked.session, None)
    if former is not None:
        former.end("the session goes on at another connection")
    began_as_it_should(self)


@mutant(SessionSetup._claim, scenario="strangers", found_by=[OWNERS])
def read_only_mode_asks_for_no_password(self: SessionSetup, session: int, *, read_only: bool) -> None:
    """A local session can do nothing, so it may have any id."""
    if read_only:
        self._admit_local(session, self._asked.password)
    else:
        claimed_as_it_should(self, session, read_only=False)


@mutant(SessionSetup._claim, scenario="strangers", found_by=[CHEAP])
def every_claim_is_asked_of_the_log(self: SessionSetup, session: int, *, read_only: bool) -> None:
    """Every claim goes through the log, also one whose password this server knows to be wrong."""
    if read_only:
        claimed_as_it_should(self, session, read_only=True)
    else:
        self._attach(session)


@mutant(SessionRecord.has_password, scenario="strangers", found_by=[MODEL, OWNERS])
def half_of_a_password_is_enough(self: SessionRecord, password: bytes) -> bool:
    """Compared in part."""
    return self.password[:8] == password[:8]


@mutant(HandshakeQuota.take, scenario="strangers", found_by=[CHEAP])
def attempts_are_not_counted(self: HandshakeQuota, address: str, now: float) -> bool:
    """A claim of a session that no server knows is an entry of the log, each time."""
    return True


# -- modes, and places ----------------------------------------------------------------------------------------------------


@mutant(ClientSession.tick, scenario="strangers", found_by=[READ_ONLY_ENDS])
def a_guest_is_looked_at_when_the_standing_is_another_one(
    self: ClientSession, seconds: float, standing: ServiceMode
) -> None:
    """Than at the last look, and not than the one that it came under."""
    server: Any = self.house
    former, server.last_standing = getattr(server, "last_standing", ServiceMode.FULL), standing
    if former is not standing:
        server.close_all("another standing")
        return
    ticked_as_it_should(self, seconds, ServiceMode.READ_ONLY if self.is_local else ServiceMode.FULL)


@mutant(TlsPort._secure, scenario="strangers", found_by=[NO_CLIENT_OUT])
async def newcomers_are_turned_away_while_handshakes_stall(
    self: TlsPort, stream: Stream, host: str
) -> tuple[Stream, str] | None:
    """Counted only: who comes when the bound is reached goes."""
    if len(self._under_way) >= HANDSHAKES_MAX // 2:
        return None
    with (
        suppress(OSError, trio.BrokenResourceError, UntrustedError),
        self._clock.timeout(HANDSHAKE_SECONDS),
        self._under_way.take("", lambda: None),
    ):
        return await self._security.secure(stream)
    return None


@mutant(ZooKeeperServer._push_out_silent, scenario="strangers", found_by=[NO_CLIENT_OUT])
def connections_of_an_address_are_only_counted(self: ZooKeeperServer, host: str) -> bool:
    """Those that say nothing as well: the newcomer goes."""
    return False


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
