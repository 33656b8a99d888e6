"""Replay of a database history, computed once: the commands that replicas applied, replayed by a
model, and what every client heard.

The replicas' own order is the witness of linearizability: each command has a zxid, the first
replica that applies it reports it (`Committed`), and each answer contains a zxid. So no search is
needed: the model receives the commands in that order, and reads are compared with the model as of
the zxid that they claim to show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

import attrs

from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.history import Operation as Told
from virtuallog.testing.checker.violation import Violation, once, proof
from virtuallog_database.testing import model_acl, model_config
from virtuallog_database.testing.model_tree import ModelTree
from virtuallog_database.tree.commands import (
    Acl,
    Attach,
    CloseSession,
    Command,
    CreateSession,
    ExpireSessions,
    Identity,
    Multi,
    Operation,
    Permission,
    SetData,
    Touch,
)
from virtuallog_database.tree.paths import CONFIG, parent_of
from virtuallog_database.tree.results import Change, ChangeKind, Created, Error, Result
from virtuallog_simulation.workload.database.authentication_model import REFUSALS, standings
from virtuallog_simulation.workload.database.requests import (
    Answer,
    Asked,
    Close,
    CountAll,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    GetEphemerals,
    MultiRead,
    Reconfig,
    SetWatches,
    Transaction,
    WhoAmI,
)

WRITES: Final = (*get_args(Operation), Transaction, Close)
READS: Final = (Exists, GetData, GetChildren, GetAcl, GetEphemerals, CountAll, MultiRead, WhoAmI)
_READ: Final = int(Permission.READ)
_ADMIN: Final = int(Permission.ADMIN)
_NO_STATE: Final = -1
"""The zxid of an answer that shows none."""


@attrs.frozen
class Committed:
    """A replica has applied this command, as the first one that did."""

    zxid: int
    """The newest one, whether it is this command's own or not: what servers tell each other takes none."""
    position: int
    index: int
    """Among the commands of its entry."""
    command: Command
    error: Error
    """Error of its own apply."""


@attrs.frozen
class Began:
    """The witness has seen nothing before this. Without it, it has seen everything."""

    zxid: int
    versions: Mapping[str, int]
    """Versions of znodes that servers write by themselves, and that existed before."""


@attrs.define(eq=False)
class LoggedSession:
    """A session, as the log describes it."""

    timeout_ms: int
    began: Told
    heard: Told
    """The last command of it, or about it, that was applied while it lived."""
    password: bytes = attrs.field(default=b"", repr=False)
    ended: Told | None = None
    expired: bool = False


@attrs.define(eq=False)
class Replay:
    """Result of a replay."""

    model: ModelTree
    """After the last command."""
    changes: Mapping[int, tuple[Change, ...]]
    """Changes by zxid, with those of the lists of children; zxids without any are left out."""
    lives: Mapping[int, LoggedSession]
    acls: Mapping[int, tuple[tuple[Acl, ...], ...]]
    """ACL against which READ is checked before a watch reports it, for each of `changes`."""
    missed: Mapping[int, tuple[Change, ...]]
    """Changes that a client with restored watches has missed, by the number of the operation."""
    hidden: Mapping[int, frozenset[Change]]
    """Missed changes that are not reported, as the client may not read them."""
    violations: Sequence[Violation]
    compared: int
    """Answers that the model had something to say about."""


def committed(history: History) -> list[Told]:
    """Committed commands in the order of the log."""
    return sorted(history.operations(Committed), key=lambda told: (told.action.position, told.action.index))


def answered(history: History) -> list[Told]:
    """Requests with their answers, in the order of the requests."""
    return [told for told in history.operations(Asked) if told.returned]


def is_write(told: Told, *, whatever_came: bool = False) -> bool:
    """True if it is in the log, or may be; a request refused at the door is not. `whatever_came`:
    go by the request alone."""
    refused = told.returned and told.result.error in REFUSALS
    return isinstance(told.action.request, WRITES) and (whatever_came or not refused)


def as_operation(told: Told) -> Operation:
    """A write as it is in the log."""
    match told.action.request:
        case Transaction(operations):
            return Multi(operations)
        case Close():
            return CloseSession(told.action.session)
        case operation:
            return operation  # type: ignore[no-any-return]


@once
def replay(history: History) -> Replay:
    """Replay the history, once."""
    return _Replayer(history).run()


@attrs.define(eq=False)
class _Replayer:
    history: History
    model: ModelTree = attrs.field(factory=ModelTree)
    changes: dict[int, tuple[Change, ...]] = attrs.field(factory=dict)
    lives: dict[int, LoggedSession] = attrs.field(factory=dict)
    acls: dict[int, tuple[tuple[Acl, ...], ...]] = attrs.field(factory=dict)
    missed: dict[int, tuple[Change, ...]] = attrs.field(factory=dict)
    hidden: dict[int, frozenset[Change]] = attrs.field(factory=dict)
    compared: int = 0

    def run(self) -> Replay:
        violations = list(self._replay())
        return Replay(
            self.model, self.changes, self.lives, self.acls, self.missed, self.hidden, violations, self.compared
        )

    def _replay(self) -> Iterator[Violation]:
        for told in self.history.operations(Began):
            self.model.zxid = told.action.zxid
            for path, version in told.action.versions.items():
                self.model.znodes[path] = attrs.evolve(self.model.znodes[path], version=version)
        shown, written = self._by_zxid(_changes_of_config(self.history))
        yield from self._read_all(shown.pop(self.model.zxid, []))
        for told in committed(self.history):
            before = self.model.zxid
            former = self.model.znodes[CONFIG].data
            outcome = self.model.apply(told.action.command)
            zxid = self.model.zxid
            yield from self._compare_apply(told, outcome)
            self._note_sessions(told.action.command, told, outcome)
            if zxid > before:
                yield from self._compare_writes(told, outcome, written.pop(zxid, []), former)
                yield from self._read_all(shown.pop(zxid, []))
        for zxid, unknown in sorted((*shown.items(), *written.items())):
            message = f"an answer has zxid {zxid}, which no replica has applied"
            yield Violation("answers are of the log", message, proof(*unknown))

    def _by_zxid(self, configs: Mapping[int, int]) -> tuple[dict[int, list[Told]], dict[int, list[Told]]]:
        """Reads by the zxid whose state they show, and commands by the zxid reported for them. A
        `Reconfig` is either."""
        shown: dict[int, list[Told]] = {}
        written: dict[int, list[Told]] = {}
        for told in answered(self.history):
            if told.result.zxid != _NO_STATE:
                writes = is_write(told)
                if isinstance(
                    told.action.request, Reconfig
                ):  # one that is refused at once shows a state, perhaps its predecessor's
                    writes = configs.get(told.result.zxid) == told.action.session and not written.get(told.result.zxid)
                (written if writes else shown).setdefault(told.result.zxid, []).append(told)
        return shown, written

    def _compare_apply(self, told: Told, outcome: Result) -> Iterator[Violation]:
        zxid, found = self.model.zxid, told.action
        self.compared += 1
        if (found.zxid, found.error) != (zxid, outcome.error):
            message = (
                f"{found.command}: zxid {found.zxid}, {found.error.name}; the model says {zxid}, {outcome.error.name}"
            )
            yield Violation("results as the model has them", message, proof(told))
        if outcome.changes:
            self.changes[zxid] = tuple(_with_lists(outcome.changes))
            self.acls[zxid] = tuple(_with_parents(outcome.changes, self.model.acls))

    def _compare_writes(
        self, told: Told, outcome: Result, written: list[Told], config: bytes | None
    ) -> Iterator[Violation]:
        for answer in written:
            if isinstance(answer.action.request, Reconfig):
                yield from self._compare_reconfig(answer, told, outcome, config)
            else:
                yield from self._compare_write(answer, told, outcome)
        if len(written) > 1:
            message = f"zxid {told.action.zxid} was told twice"
            yield Violation("one answer for one command", message, proof(*written))

    def _compare_write(self, answer: Told, told: Told, outcome: Result) -> Iterator[Violation]:
        zxid, command = told.action.zxid, told.action.command
        if (as_operation(answer), answer.action.session) != (command.operation, command.origin.session):
            message = f"{answer.action.request} was answered with zxid {zxid}, which is that of {command}"
            yield Violation("one answer for one command", message, proof(answer, told))
            return
        expected = as_told(outcome)
        if (answer.result.error, answer.result.value) != (expected.error, expected.value):
            message = f"{answer.action.request} was answered {answer.result}, and the model says {expected}"
            yield Violation("results as the model has them", message, proof(answer, told))

    def _compare_reconfig(self, answer: Told, told: Told, outcome: Result, config: bytes | None) -> Iterator[Violation]:
        """If carried out, it became a write of the list of servers, computed from the former one by
        the rules."""
        command, request = told.action.command, answer.action.request
        error, wanted = model_config.change(config, request.joining, request.leaving, request.from_version)
        expected = outcome.error, None if outcome.error else (command.operation.data, outcome.value)
        is_right = outcome.error is not Error.OK or (error == 0 and wanted == command.operation.data)
        if command.origin.session != answer.action.session or not is_right:
            message = f"{request} was written as {command}; the rules make {wanted!r} of it, or error {error}"
            yield Violation("results as the model has them", message, proof(answer, told))
        elif (answer.result.error, answer.result.value) != expected:
            message = f"{request} was answered {answer.result}, and the model says {expected}"
            yield Violation("results as the model has them", message, proof(answer, told))

    def _read_all(self, shown: list[Told]) -> Iterator[Violation]:
        for told in shown:
            request = told.action.request
            if told.result.error in REFUSALS:
                continue  # before anything was looked at: `zelos_rights`
            if isinstance(request, READS):
                self.compared += 1
                expected = self._read(request, told)
                if (told.result.error, told.result.value) != (expected.error, expected.value):
                    message = f"{request} was answered {told.result}, and the model says {expected}"
                    yield Violation("reads as the model has them", message, proof(told))
            elif isinstance(request, Reconfig):
                config = self.model.znodes[CONFIG].data
                error, _ = model_config.change(config, request.joining, request.leaving, request.from_version)
                if told.result.error != error:
                    message = f"{request} was answered {told.result}, and the rules say error {error}"
                    yield Violation("results as the model has them", message, proof(told))
            elif isinstance(request, SetWatches):
                self.missed[told.number] = tuple(self._missed(request))
                self.hidden[told.number] = frozenset(
                    self._hidden(self.missed[told.number], _identities(told, self.history))
                )

    def _read(self, request: Any, told: Told) -> Answer:
        identities = _identities(told, self.history)
        match request:
            case WhoAmI():
                users = {
                    (each.scheme, each.id.split(":")[0] if each.scheme == "digest" else each.id) for each in identities
                }
                return Answer(0, 0, tuple(sorted(users)))
            case GetEphemerals(prefix):
                own = self.model.ephemerals(told.action.session)
                return Answer(0, 0, tuple(path for path in own if path.startswith(prefix)))
            case MultiRead(reads):
                return Answer(0, 0, tuple(self._part(each, identities) for each in reads))
            case _:
                return self._read_one(request, identities)

    def _part(self, request: GetData | GetChildren, identities: Sequence[Identity]) -> Answer:
        answer = self._read_one(request, identities)
        is_list = isinstance(request, GetChildren) and not answer.error
        return attrs.evolve(answer, value=answer.value[0]) if is_list else answer

    def _read_one(self, request: Any, identities: Sequence[Identity]) -> Answer:
        stat = self.model.find(request.path)
        if stat is None:
            return Answer(0, Error.NO_NODE)
        znode = self.model.znodes[request.path]
        asked = {Exists: 0, GetAcl: _READ | _ADMIN}.get(type(request), _READ)
        if asked and not model_acl.may(znode.acl, asked, identities):
            return Answer(0, Error.NO_AUTH)
        match request:
            case GetData():
                return Answer(0, 0, (znode.data, stat))
            case GetChildren():
                return Answer(0, 0, (tuple(self.model.children(request.path)), stat))
            case GetAcl():
                is_admin = model_acl.may(znode.acl, _ADMIN, identities)
                return Answer(0, 0, (model_acl.shown(znode.acl, to_admin=is_admin), stat))
            case CountAll():
                below = request.path.rstrip("/") + "/"
                return Answer(0, 0, sum(path.startswith(below) and path != "/" for path in self.model.znodes))
            case _:
                return Answer(0, 0, stat)

    def _hidden(self, missed: Sequence[Change], identities: Sequence[Identity]) -> Iterator[Change]:
        for kind, path in missed:
            znode = self.model.znodes.get(path)
            if znode is not None and not model_acl.may(znode.acl, _READ, identities):
                yield kind, path

    def _missed(self, request: SetWatches) -> Iterator[Change]:
        """Changes of watched znodes since the client was gone."""
        for path in request.data:
            stat = self.model.find(path)
            if stat is None:
                yield ChangeKind.DELETED, path
            elif stat.mzxid > request.since:
                yield ChangeKind.DATA_CHANGED, path
        for path in request.exist:
            if path in self.model.znodes:
                yield ChangeKind.CREATED, path
        for path in request.child:
            stat = self.model.find(path)
            if stat is None:
                yield ChangeKind.DELETED, path
            elif stat.pzxid > request.since:
                yield ChangeKind.CHILDREN_CHANGED, path

    def _note_sessions(self, command: Command, told: Told, outcome: Result) -> None:
        for number in outcome.ended:
            self.lives[number].ended = told
            self.lives[number].expired = isinstance(command.operation, ExpireSessions)
        if isinstance(command.operation, CreateSession) and outcome.error is Error.OK:
            self.lives[command.operation.session] = LoggedSession(
                command.operation.timeout_ms, told, told, command.operation.password
            )
        for number in _heard(command):
            life = self.lives.get(number)
            if life is not None and life.ended is None and outcome.error is not Error.SESSION_MOVED:
                life.heard = told
                if isinstance(command.operation, Attach) and outcome.error is Error.OK:
                    life.timeout_ms = command.operation.timeout_ms


def _heard(command: Command) -> Iterator[int]:
    """The sessions that this command keeps alive."""
    if command.origin.session:
        yield command.origin.session
    match command.operation:
        case Attach(session):
            yield session
        case Touch(sessions):
            yield from sessions
        case _:
            pass


def _with_lists(changes: Sequence[Change]) -> Iterator[Change]:
    """Changes as watches see them: the change of the parent's children comes right behind a
    creation or deletion."""
    for kind, path in changes:
        yield kind, path
        if kind is not ChangeKind.DATA_CHANGED:
            yield ChangeKind.CHILDREN_CHANGED, parent_of(path)


def _with_parents(
    changes: Sequence[Change], acls: Sequence[tuple[tuple[Acl, ...], tuple[Acl, ...]]]
) -> Iterator[tuple[Acl, ...]]:
    """Parents in step with `_with_lists`."""
    for (kind, _), (own, parent) in zip(changes, acls, strict=True):
        yield own
        if kind is not ChangeKind.DATA_CHANGED:
            yield parent


def _identities(told: Told, history: History) -> tuple[Identity, ...]:
    return standings(history)[told.number][0].identities


def _changes_of_config(history: History) -> Mapping[int, int]:
    """The sessions that have written the list of servers, by zxid."""
    return {
        told.action.zxid: told.action.command.origin.session
        for told in committed(history)
        if isinstance(told.action.command.operation, SetData) and told.action.command.operation.path == CONFIG
    }


def as_told(outcome: Result, zxid: int = 0) -> Answer:
    """Result as the wire has it. A multi is answered without an error, and a created znode is known
    by its path alone."""
    match outcome.value:
        case Created(path, stat):
            return Answer(zxid, outcome.error, (path, stat))
        case (Result(), *_) as parts:
            return Answer(zxid, 0, tuple(Answer(0, part.error, _as_part(part.value)) for part in parts))
        case value:
            return Answer(zxid, outcome.error, value)


def _as_part(value: Any) -> Any:
    return (value.path, None) if isinstance(value, Created) else value
