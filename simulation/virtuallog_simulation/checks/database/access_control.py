"""Promises about unauthorized clients: they see only what they may read, get no session but their
own, and lock no client out.

Judged from outside: by the commands in the log, by the requests and answers of each connection, and
by when each server was cut off from the log. `virtuallog_database.testing.model_tree` computes the
tree anew; this module computes which events a watch must report, and to which connection.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from virtuallog.testing.checker.violation import Violation
from virtuallog_database.testing.model_tree import ModelTree, ModelZnode
from virtuallog_database.tree import paths
from virtuallog_database.tree.commands import Acl, Attach, Command, Identity, Permission
from virtuallog_database.tree.results import Change, ChangeKind, Error, Result
from virtuallog_server.zookeeper.session.handshake_quota import BURST, PER_SECOND
from virtuallog_simulation.checks.database.watches import Tables
from virtuallog_simulation.workload.database.recorded_connection import (
    Ephemerals,
    Login,
    ReceivedEvent,
    RecordedConnection,
    Reply,
    Restore,
    Watch,
    Write,
)

ONLY_READABLE: Final = "watches tell only what may be read"
ALL_READABLE: Final = "watches tell what may be read"
OWNERS: Final = "a session is its owner's"
READ_ONLY_ENDS: Final = "no guest outlives read-only mode"
CHEAP: Final = "claims cost the log little"
NO_CLIENT_OUT: Final = "silent connections keep no client out"
MODEL: Final = "rights of writes as the model has them"

WRONG_MAX: Final = 20
"""Entries of a run for claims with wrong passwords: of sessions of which a server had not heard yet."""
CONTACT_SECONDS: Final = 5.0
"""Without an answer of the log; then a server is in read-only mode."""
GRACE_SECONDS: Final = 2.2
"""A server that has lost the log asks for it, and looks at its connections, twice a second; a question may have failed just then, and there may be
something to apply."""


@attrs.define(eq=False)
class Outage:
    """A server was cut off from the log."""

    server: int
    since: float
    until: float = float("inf")


@attrs.define(eq=False)
class AccessRecord:
    """Record of a run as seen from outside."""

    lines: list[RecordedConnection] = attrs.field(factory=list)
    """All connections, in the order in which they were opened."""
    passwords: dict[int, bytes] = attrs.field(factory=dict)
    """Password of each session, as its first owner received it."""
    made_up: dict[int, RecordedConnection] = attrs.field(factory=dict)
    """Invented sessions that unauthorized clients have claimed, by the last claim."""
    leaving: set[RecordedConnection] = attrs.field(factory=set)
    """Connections of sessions that their own client has taken to another one, or closed."""
    outages: list[Outage] = attrs.field(factory=list)
    shut_out: list[str] = attrs.field(factory=list)
    """Honest clients that were not served though their server was well."""


def judge(
    record: AccessRecord, commands: Sequence[Command], results: Sequence[Result]
) -> tuple[list[Violation], Counter[str]]:
    """All violations, and what was compared."""
    past, found, compared = _Past(), list[Violation](), Counter[str]()
    for command, result in zip(commands, results, strict=False):
        found += past.apply(command, result)
    for line in record.lines:
        found += _watches(line, past, compared)
        found += _sessions(line, record, past)
        found += _modes(line, record)
    found += _claims(record, commands)
    found += [Violation(NO_CLIENT_OUT, each) for each in record.shut_out]
    compared["local sessions"] += sum(line.read_only for line in record.lines)
    compared["claims refused"] += sum(not line.session and bool(line.claim.session) for line in record.lines)
    return found, compared


# -- the tree -------------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Told:
    """A change, as watches tell it."""

    zxid: int
    change: Change
    acl: tuple[Acl, ...]
    """ACL of the affected znode at that time."""
    is_first: bool
    """True if it is about the znode that changed; else it is about its parent's children, and
    belongs to the change before."""


@attrs.define(eq=False)
class _Past:
    """The tree at every zxid."""

    tree: ModelTree = attrs.field(factory=ModelTree)
    zxids: list[int] = attrs.field(factory=lambda: [0])
    znodes: list[Mapping[str, ModelZnode]] = attrs.field(factory=lambda: [dict[str, ModelZnode]()])
    told: list[_Told] = attrs.field(factory=list)
    owners: dict[str, set[int]] = attrs.field(factory=dict)
    """Sessions that ever had an ephemeral of this path."""
    attached: Counter[int] = attrs.field(factory=Counter)

    def apply(self, command: Command, result: Result) -> Iterator[Violation]:
        before = self.tree.znodes
        expected = self.tree.apply(command)
        if expected.error is not result.error:
            what = type(command.operation).__name__
            yield Violation(MODEL, f"zxid {result.zxid:#x}, {what}: {result.error.name}, not {expected.error.name}")
        after = self.tree.znodes
        for kind, path in expected.changes:
            znodes = before if kind is ChangeKind.DELETED else after
            self.told.append(_Told(expected.zxid, (kind, path), znodes[path].acl, is_first=True))
            if kind is not ChangeKind.DATA_CHANGED:
                parent = paths.parent_of(path)
                acl = (after.get(parent) or before[parent]).acl
                self.told.append(_Told(expected.zxid, (ChangeKind.CHILDREN_CHANGED, parent), acl, is_first=False))
            if kind is ChangeKind.CREATED and after[path].owner:
                self.owners.setdefault(path, set()).add(after[path].owner)
        self.zxids.append(expected.zxid)
        self.znodes.append(dict(after))

    def at(self, zxid: int) -> Mapping[str, ModelZnode]:
        return self.znodes[bisect_right(self.zxids, zxid) - 1]


def _may_read(acl: tuple[Acl, ...], identities: frozenset[Identity]) -> bool:
    named = {("world", "anyone"), *((each.scheme, each.id) for each in identities)}
    return any((entry.scheme, entry.id) in named for entry in acl if entry.permissions & int(Permission.READ))


# -- watches --------------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Expected:
    """An event that a connection must receive."""

    kind: ChangeKind
    path: str
    is_sure: bool
    """False if it may be reported or not: it came about at the same time as a login."""


def _watches(line: RecordedConnection, past: _Past, compared: Counter[str]) -> Iterator[Violation]:
    """Check the connection's watches by themselves: the events they had to report, in order, up to
    the last answer; later ones may have been reported."""
    tables, events = Tables(), list[_Expected]()
    after = before = frozenset({Identity("ip", line.claim.host)})
    shown, at, hidden = 0, 0, Counter[tuple[ChangeKind, str]]()

    def fire(up_to: float, *, sure: bool) -> None:
        nonlocal at
        while at < len(past.told) and past.told[at].zxid <= up_to:
            told = past.told[at]
            at += 1
            if not tables.is_empty and tables.fire(told.change):
                readers = {_may_read(told.acl, each) for each in (before, after)}
                if True in readers:
                    events.append(_Expected(*told.change, is_sure=sure and False not in readers))
                if False in readers:
                    hidden[told.change] += 1

    for frame in line.frames:
        if isinstance(frame, ReceivedEvent):
            continue
        if isinstance(frame.request, Login):
            after = after | {frame.request.identity}
            continue
        if frame.zxid > shown or before != after:
            fire(frame.zxid, sure=True)
            shown = max(shown, frame.zxid)
        if frame.zxid >= shown:
            before = after
        _register(frame, tables, past.at(frame.zxid), after, events)
    fire(float("inf"), sure=False)
    received = [(frame.kind, frame.path) for frame in line.frames if isinstance(frame, ReceivedEvent)]
    compared["events told"] += len(received)
    compared["events withheld"] += hidden.total()
    if not _matches(received, [attrs.evolve(each, is_sure=False) for each in events]):
        yield Violation(
            ONLY_READABLE, f"{line.claim.host} was told {received}, and may be told {_names(events)} at most"
        )
    elif not _matches(received, events):
        yield Violation(ALL_READABLE, f"{line.claim.host} was told {received}, not {_names(events)}")


def _register(
    frame: Reply,
    tables: Tables,
    znodes: Mapping[str, ModelZnode],
    identities: frozenset[Identity],
    events: list[_Expected],
) -> None:
    """The watches that an answer says are set."""
    request, is_absent = frame.request, frame.error == Error.NO_NODE
    if isinstance(request, Watch) and (not frame.error or (is_absent and request.table == "exist")):
        _add(tables, request)
    elif isinstance(request, Restore):
        for table, kind in (
            ("data", ChangeKind.DATA_CHANGED),
            ("exist", ChangeKind.CREATED),
            ("child", ChangeKind.CHILDREN_CHANGED),
        ):
            for path in request.paths(table):
                znode = znodes.get(path)
                changed = 0 if znode is None else znode.pzxid if table == "child" else znode.mzxid
                if znode is None and table != "exist":
                    events.append(_Expected(ChangeKind.DELETED, path, is_sure=True))
                elif znode is None or (table != "exist" and changed <= request.since):
                    _add(tables, Watch(table, path))
                elif _may_read(znode.acl, identities):
                    events.append(_Expected(kind, path, is_sure=True))
        for table in ("persistent", "recursive"):
            for path in request.paths(table):
                _add(tables, Watch(table, path))


def _add(tables: Tables, watch: Watch) -> None:
    """Add one watch. Others of the same path stay."""
    {"data": tables.data, "exist": tables.data, "child": tables.child}.get(
        watch.table, tables.persistent if watch.table == "persistent" else tables.recursive
    ).add(watch.path)


def _matches(received: Sequence[tuple[ChangeKind, str]], expected: Sequence[_Expected]) -> bool:
    """True if these are the events in this order, but for some that need not be reported."""
    reached = {0}
    for each in expected:
        told = {at + 1 for at in reached if at < len(received) and received[at] == (each.kind, each.path)}
        reached = told if each.is_sure else reached | told
    return len(received) in reached


def _names(events: Sequence[_Expected]) -> str:
    return ", ".join(f"{each.kind.name} {each.path}{'' if each.is_sure else '?'}" for each in events)


# -- sessions -------------------------------------------------------------------------------------------------------------


def _sessions(line: RecordedConnection, record: AccessRecord, past: _Past) -> Iterator[Violation]:
    claim = line.claim
    is_known = claim.session in record.passwords
    is_right = is_known and record.passwords[claim.session] == claim.password
    who = f"{claim.host} at server {claim.server}, {line.opened:.2f} s"
    if line.session and line.session == claim.session and not is_right:
        yield Violation(OWNERS, f"{who}: session {claim.session:#x} is granted without its password")
    if claim.session and is_right and line.is_answered and not line.session:
        yield Violation(
            OWNERS, f"{who}: session {claim.session:#x} is refused, though it lives and the password is right"
        )
    for frame in line.frames:
        if isinstance(frame, Reply) and isinstance(frame.request, Ephemerals):
            others = [path for path in frame.names if line.session not in past.owners.get(path, set())]
            if others or (frame.names and claim.session and not is_right):
                yield Violation(OWNERS, f"{who}: is told ephemerals that are not its own: {others or frame.names}")
    if line.ended is not None and line.session and line not in record.leaving and not _explained(line, record):
        yield Violation(
            OWNERS, f"{who}: its connection was ended at {line.ended:.2f} s, for no reason that it has given"
        )


def _explained(line: RecordedConnection, record: AccessRecord) -> bool:
    """True if the end of the connection has a cause: its server was or had been cut off for long,
    or its own client took the session elsewhere. A handshake without an answer may come to the
    log late."""
    ended = line.ended
    assert ended is not None
    outages = [
        each
        for each in record.outages
        if each.server == line.claim.server and each.until - each.since > CONTACT_SECONDS - GRACE_SECONDS
    ]
    if line.read_only:
        was_healed = any(each.until < ended < each.until + 2 * GRACE_SECONDS for each in outages)
        return was_healed or not any(each.since < ended < each.until for each in outages)
    return any(each.since < ended < each.until + 3 * GRACE_SECONDS for each in outages) or any(
        each.claim.session == line.session
        and each.claim.password == line.password
        and each.opened < ended
        and (each.opened > line.opened or not each.is_answered)
        for each in record.lines
        if each is not line
    )


def _claims(record: AccessRecord, commands: Sequence[Command]) -> Iterator[Violation]:
    """Count the entries spent on invented sessions, for each address and server."""
    spent: Counter[tuple[str, int]] = Counter()
    for command in commands:
        if isinstance(command.operation, Attach) and command.operation.session in record.made_up:
            line = record.made_up[command.operation.session]
            spent[line.claim.host, line.claim.server] += 1
    wrong = [
        command
        for command in commands
        if isinstance(command.operation, Attach)
        and record.passwords.get(command.operation.session, command.operation.password) != command.operation.password
    ]
    lasted = max((line.opened for line in record.lines), default=0.0) - min(
        (line.opened for line in record.lines), default=0.0
    )
    for (host, server), count in spent.items():
        most = BURST + PER_SECOND * (lasted + 1)
        if count > most:
            yield Violation(CHEAP, f"{count} entries for claims of {host} at server {server}; {most:.0f} at most")
    if len(wrong) > WRONG_MAX:
        yield Violation(CHEAP, f"{len(wrong)} entries for claims with wrong passwords of sessions that servers know")


# -- modes ----------------------------------------------------------------------------------------------------------------


def _modes(line: RecordedConnection, record: AccessRecord) -> Iterator[Violation]:
    """A connection in read-only mode is answered only while its server is cut off, and one that is not in it only while it is not, a moment
    more or less; in read-only mode nothing is written."""
    outages = [each for each in record.outages if each.server == line.claim.server]
    who = f"{line.claim.host} at server {line.claim.server}"
    for frame in line.frames:
        if not isinstance(frame, Reply):
            continue
        if line.read_only:
            if isinstance(frame.request, Write) and not frame.error:
                yield Violation(
                    READ_ONLY_ENDS, f"{who}: a write is acknowledged in read-only mode, at {frame.time:.2f} s"
                )
            if not any(each.since < frame.time < each.until + GRACE_SECONDS for each in outages):
                yield Violation(
                    READ_ONLY_ENDS, f"{who}: still in read-only mode at {frame.time:.2f} s, the log is there"
                )
                return
        elif any(each.since + CONTACT_SECONDS + GRACE_SECONDS < frame.time < each.until for each in outages):
            yield Violation(READ_ONLY_ENDS, f"{who}: still served in full at {frame.time:.2f} s, the log is away")
            return
