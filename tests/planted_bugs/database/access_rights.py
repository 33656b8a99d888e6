"""Bugs in who may do what: ACLs, identities, passwords, quotas, read-only mode, and what watches and reads of a session tell."""

from __future__ import annotations

from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog_database.replica.database import Database
from virtuallog_database.replica.session_ids import draw_password
from virtuallog_database.tree import acl, quotas
from virtuallog_database.tree.acl import ADMIN, DELETE, WRITE
from virtuallog_database.tree.commands import OPEN_ACL, Acl, Identity, Origin
from virtuallog_database.tree.execution import Execution
from virtuallog_database.tree.records import Znode
from virtuallog_database.tree.results import Change, ChangeKind, RefusedError, Rights, Stat
from virtuallog_database.tree.tree import Identities, Tree
from virtuallog_database.tree.watches import Watcher, Watches, WatchMode
from virtuallog_server.zookeeper.auth.sasl import SaslExchange
from virtuallog_server.zookeeper.auth.schemes import SUPER, Authentication, AuthenticationError, digest_of
from virtuallog_server.zookeeper.service import ZooKeeperService
from virtuallog_server.zookeeper.session import session_setup
from virtuallog_server.zookeeper.session.request_handler import _HANDLERS, RequestHandler
from virtuallog_server.zookeeper.session.serving_context import Reconfigured
from virtuallog_server.zookeeper.session.session_setup import SessionSetup
from virtuallog_server.zookeeper.wire import handshake
from virtuallog_server.zookeeper.wire.handshake import ConnectRequest
from virtuallog_server.zookeeper.wire.quorum_config import QuorumChange as ConfigChange
from virtuallog_server.zookeeper.wire.requests import NamedWatches

MODEL: Final = ["results as the model has them", "reads as the model has them"]
WATCHES: Final = ["watches fire once and first", "watches that come back"]
DOOR: Final = ["the door refuses whom it must"]
CVE: Final = "CVE-2024-23944"

checked_as_it_should = Execution.check
stood_for_as_it_should = acl._stands_for
was_limited_by = quotas._limited
accepted_as_it_should = handshake.accepted
reconfigured_as_it_should = ZooKeeperService._reconfigure
claimed_as_it_should = SessionSetup._claim
checked_quota_as_it_should = quotas.check


# -- ACLs -----------------------------------------------------------------------------------------------------------


@mutant(Tree.get_children, scenario="rights", found_by=MODEL)
def names_of_children_need_no_right(self: Tree, path: str, identities: Identities) -> tuple[list[str], Stat]:
    """getData asks for READ, getChildren does not."""
    return children_as_they_should(self, path, (SUPER,))


children_as_they_should = Tree.get_children


@mutant(Execution.check, scenario="rights", found_by=MODEL)
def deletes_need_no_right(self: Execution, path: str, znode: Znode, permission: int) -> tuple[Acl, ...]:
    """This command alone does not look at the parent's ACL."""
    if permission == DELETE:
        return self.acl_of(path, znode)
    return checked_as_it_should(self, path, znode, permission)


@mutant(Execution.check, scenario="rights", found_by=MODEL)
def who_may_write_may_change_the_acl(self: Execution, path: str, znode: Znode, permission: int) -> tuple[Acl, ...]:
    """setACL asks for WRITE, and not for ADMIN."""
    return checked_as_it_should(self, path, znode, WRITE if permission == ADMIN else permission)


@mutant(acl.masked, scenario="rights", found_by=MODEL)
def hashes_are_shown_to_all_readers(acl: tuple[Acl, ...]) -> tuple[Acl, ...]:
    """getACL tells the digests as they are stored."""
    return acl


@mutant(acl._stands_for, scenario="rights", found_by=MODEL)
def an_address_counts_as_authenticated(entry: Acl, identities: tuple[Identity, ...]) -> list[Acl]:
    """The scheme `auth` stands for the address of the connection, too."""
    if entry.scheme == "auth":
        return [Acl(entry.permissions, each.scheme, each.id) for each in identities]
    return stood_for_as_it_should(entry, identities)


# -- identities and passwords ---------------------------------------------------------------------------------------


@mutant(Authentication._digest, scenario="rights", found_by=["rights of commands", *MODEL])
def the_super_user_is_known_by_name(self: Authentication, credential: bytes) -> tuple[Identity, ...]:
    """Its password is not compared."""
    try:
        digest = digest_of(credential.decode())
    except UnicodeDecodeError as error:
        raise AuthenticationError("a digest that is no UTF-8") from error
    is_super = digest.partition(":")[0] == self.super_digest.partition(":")[0]
    return (SUPER, Identity("digest", digest)) if is_super else (Identity("digest", digest),)


@mutant(SaslExchange.respond, scenario="rights", found_by=DOOR)
def a_wrong_password_logs_in(self: SaslExchange, token: bytes) -> bytes:
    """The proof in the token is not looked at."""
    if not self._challenged:
        return self._challenge(token)
    self.user = Identity("sasl", token.partition(b'username="')[2].partition(b'"')[0].decode())
    return b"rspauth="


@mutant(RequestHandler.__attrs_post_init__, scenario="rights", found_by=DOOR)
def a_login_is_never_a_duty(self: RequestHandler) -> None:
    """`sasl_required` is not looked at."""
    self._handlers = _HANDLERS


@mutant(draw_password, scenario="rights", used_in=session_setup, found_by=["passwords of sessions"])
def all_sessions_have_one_password(source: object) -> bytes:
    """Each client knows the password of all others."""
    return b"p" * 16


@mutant(SessionSetup._claim, scenario="rights", found_by=["passwords of sessions"])
def sessions_are_given_away_in_read_only_mode(self: SessionSetup, session: int, *, read_only: bool) -> None:
    """Nothing can be written there, so the password is not asked for."""
    if read_only:
        self._admit_local(session, self._asked.password)
    else:
        claimed_as_it_should(self, session, read_only=read_only)


# -- quotas ---------------------------------------------------------------------------------------------------------


@mutant(quotas.check, scenario="rights", found_by=MODEL)
def one_znode_more_than_the_quota(
    execution: Execution, path: str, data: bytes | None, growth: int, znodes: int
) -> None:
    """The znode that is to be created is not counted."""
    if not znodes:
        checked_quota_as_it_should(execution, path, data, growth, znodes)


@mutant(quotas.deleted, scenario="rights", found_by=MODEL)
def deleted_znodes_count_for_the_quota(execution: Execution, path: str, znode: Znode) -> None:
    """Deleted znodes still take room."""
    if path.startswith(quotas._BELOW_QUOTA) and path.endswith(quotas.LIMITS):
        execution.counters().limits -= 1


@mutant(quotas._limited, scenario="rights", found_by=MODEL)
def the_shortest_limited_path_counts(execution: Execution, path: str, *, shorten: bool = False) -> str | None:
    """A znode counts for the quota of the whole, and not for that of its part."""
    found, above = None, was_limited_by(execution, path, shorten=shorten)
    while above:
        found = above
        above = was_limited_by(execution, above.rpartition("/")[0]) if above.rpartition("/")[0] else None
    return found


# -- read-only mode, sessions' own reads, lists ---------------------------------------------------------------------


@mutant(handshake.accepted, scenario="rights", found_by=DOOR)
def read_only_mode_is_not_told(
    request: ConnectRequest, session: int, password: bytes, timeout_ms: int, *, read_only: bool
) -> bytes:
    """The handshake says that all is as ever, and writes are refused."""
    return accepted_as_it_should(request, session, password, timeout_ms, read_only=False)


@mutant(Tree.get_ephemerals, scenario="rights", found_by=MODEL)
def ephemerals_of_all_sessions(self: Tree, session: int, prefix: str) -> list[str]:
    """The ephemerals of all sessions are listed, not only those of the asked one."""
    found = [path for each in self.sessions() for path in ephemerals_as_they_should(self, each, prefix)]
    return sorted(found)


ephemerals_as_they_should = Tree.get_ephemerals


@mutant(NamedWatches, scenario="rights", found_by=["watches are found", *WATCHES])
def watches_of_the_other_kind_are_removed(path: str, child: bool, data: bool, mode: WatchMode | None) -> NamedWatches:
    """The two tables are mistaken for each other."""
    return NamedWatches(path, child=data, data=child, mode=mode)


@mutant(ZooKeeperService._reconfigure, scenario="rights", found_by=["rights of commands", *MODEL])
def the_list_of_servers_is_changed_for_all(
    self: ZooKeeperService, asked: ConfigChange, origin: Origin, done: Reconfigured
) -> None:
    """The server does it in its own name."""
    reconfigured_as_it_should(self, asked, attrs.evolve(origin, identities=(SUPER,)), done)


# -- watches --------------------------------------------------------------------------------------------------------


@mutant(Watches.fire, scenario="rights", published=CVE, found_by=WATCHES)
def watches_tell_what_may_not_be_read(self: Watches, change: Change, zxid: int, rights: Rights) -> None:
    """A recursive watch at the top sees all names."""
    fired_as_it_should(self, change, zxid, (OPEN_ACL, OPEN_ACL))


@mutant(Watches.fire, scenario="rights", published=CVE, found_by=WATCHES)
def the_parents_acl_decides_about_its_children(self: Watches, change: Change, zxid: int, rights: Rights) -> None:
    """A client that may list the children gets the events of each, also of those whose own ACL forbids it."""
    fired_as_it_should(self, change, zxid, (rights[1], rights[1]))


fired_as_it_should = Watches.fire


@mutant(Database._set_watch, scenario="rights", published=CVE, found_by=WATCHES)
def restored_watches_tell_what_may_not_be_read(
    self: Database, watcher: Watcher, path: str, relative_zxid: int, awaited: ChangeKind
) -> None:
    """Only what happens later is compared with the rights."""
    table = self.watches.child if awaited is ChangeKind.CHILDREN_CHANGED else self.watches.data
    try:
        stat = self.tree.exists(path)
    except RefusedError:
        if awaited is ChangeKind.CREATED:
            table.add(path, watcher)
        else:
            watcher.fire(ChangeKind.DELETED, path, self.tree.last_zxid)
        return
    changed = stat.pzxid if awaited is ChangeKind.CHILDREN_CHANGED else stat.mzxid
    if awaited is ChangeKind.CREATED or changed > relative_zxid:
        watcher.fire(awaited, path, changed)
    else:
        table.add(path, watcher)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
