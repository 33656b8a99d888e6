"""Violations that the database checks find: small histories, written by hand, of which one thing is
wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import attrs
import pytest

from virtuallog.contract.errors import UnavailableError
from virtuallog.testing.checker.history import History
from virtuallog_database.testing.model_tree import ModelTree
from virtuallog_database.tree.commands import (
    Attach,
    CloseSession,
    Command,
    Create,
    CreateSession,
    Delete,
    ExpireSessions,
    Mode,
    Multi,
    Origin,
    SetData,
    Touch,
)
from virtuallog_database.tree.results import ChangeKind, Error, Result
from virtuallog_simulation.checks.database.replay import Committed, as_told, replay
from virtuallog_simulation.checks.database.results import DATABASE_CHECKS
from virtuallog_simulation.checks.database.sessions import lives_on, session_checks
from virtuallog_simulation.checks.database.watches import WATCH_CHECKS, events_compared
from virtuallog_simulation.workload.database.requests import (
    AddWatch,
    Answer,
    Asked,
    Close,
    Connect,
    Event,
    Exists,
    GetChildren,
    GetData,
    Granted,
    Ping,
    SetWatches,
    Sync,
    Transaction,
)

SESSION, OTHER = 0x1000, 0x2000
TIMEOUT_MS = 4000
OPERATIONS: dict[type, Callable[[Any], Any]] = {
    Transaction: lambda request: Multi(request.operations),
    Close: lambda request: CloseSession(SESSION),
}


@attrs.define
class Zelos:
    """A server that is always right, and clients of it; a test may let it say something else."""

    history: History = attrs.field(init=False)
    model: ModelTree = attrs.field(factory=ModelTree)
    time: float = 0.0
    position: int = 0

    def __attrs_post_init__(self) -> None:
        self.history = History(lambda: self.time)
        for session in (SESSION, OTHER):
            self.commit(CreateSession(session, b"", TIMEOUT_MS), session=0)

    def commit(self, operation: Any, session: int = SESSION, error: Error | None = None) -> Result:
        """A command is applied."""
        generation = self.model.sessions[session].generation if session in self.model.sessions else 1
        command = Command(operation, Origin(session, generation if session else 0), 1000)
        outcome = self.model.apply(command)
        told = outcome.error if error is None else error
        self.position += 1
        self.history.observed("replica", Committed(self.model.zxid, self.position, 0, command, told), None)
        return outcome

    def write(self, request: Any, connection: int = 1) -> Answer:
        """A write is asked for, applied and answered."""
        asked = Asked(connection, SESSION, request)
        with self.history.record("client", asked) as returned:
            outcome = self.commit(OPERATIONS.get(type(request), lambda one: one)(request))
            answer = self.answer(outcome)
            returned(answer)
        return answer

    def answer(self, outcome: Result) -> Answer:
        return as_told(outcome, self.model.zxid)

    def read(self, request: Any, connection: int = 1, session: int = SESSION) -> Answer:
        stat = self.model.find(request.path)
        value: Any = stat
        if stat is not None and isinstance(request, GetData):
            value = self.model.znodes[request.path].data, stat
        if stat is not None and isinstance(request, GetChildren):
            value = tuple(self.model.children(request.path)), stat
        answer = Answer(self.model.zxid, 0 if stat else Error.NO_NODE, value)
        self.hear(request, answer, connection, session)
        return answer

    def hear(self, request: Any, answer: Answer, connection: int = 1, session: int = SESSION) -> None:
        """This was asked, and answered so."""
        self.history.observed("client", Asked(connection, session, request), answer)

    def event(self, kind: ChangeKind, path: str, connection: int = 1) -> None:
        self.history.observed("client", Event(connection, SESSION, kind, path), None)

    def lose(self, request: Any) -> None:
        """This was asked, and never answered."""
        with suppress(UnavailableError), self.history.record("client", Asked(1, SESSION, request)):
            raise UnavailableError("the connection broke")

    def objections(self) -> set[str]:
        checks = (*DATABASE_CHECKS, *WATCH_CHECKS, *session_checks(0.0, calm=True))
        return {violation.check for check in checks for violation in check(self.history)}


@pytest.fixture
def zelos() -> Zelos:
    made = Zelos()
    made.write(Create("/a", b"1"))
    return made


# -- results and order ----------------------------------------------------------------------------------------------


def test_what_is_right_is_not_objected_to(zelos: Zelos) -> None:
    """Writes, refusals, transactions, reads, and a write whose answer was lost."""
    zelos.write(Create("/a/s-", b"x", mode=Mode.EPHEMERAL_SEQUENTIAL))
    zelos.write(SetData("/a", b"2", version=7))
    zelos.write(Transaction((SetData("/a", b"3"), Delete("/none"))))
    zelos.write(Transaction((SetData("/a", b"3"), Create("/b", None))))
    zelos.lose(SetData("/a", b"4"))
    zelos.commit(SetData("/a", b"4"))
    zelos.lose(SetData("/a", b"5"))
    zelos.read(GetData("/a"))
    zelos.read(GetChildren("/a"))
    zelos.read(Exists("/none"))
    zelos.write(Close())

    assert zelos.objections() == set()
    assert replay(zelos.history).compared > 10


def test_an_answer_that_the_model_does_not_have(zelos: Zelos) -> None:
    """The version of a changed znode is one higher, not two."""
    answer = zelos.read(Exists("/a"))
    zelos.hear(Exists("/a"), Answer(answer.zxid, 0, answer.value._replace(version=5)))

    assert zelos.objections() == {"reads as the model has them"}


def test_replicas_that_find_something_else(zelos: Zelos) -> None:
    """Results of apply are compared, too."""
    zelos.lose(SetData("/a", b"2"))
    zelos.commit(SetData("/a", b"2"), error=Error.BAD_VERSION)

    assert zelos.objections() == {"results as the model has them"}


def test_a_command_that_is_applied_twice(zelos: Zelos) -> None:
    """A command is applied once for each request, even if the answer was lost."""
    zelos.lose(SetData("/a", b"2"))
    zelos.commit(SetData("/a", b"2"))
    zelos.commit(SetData("/a", b"2"))

    assert zelos.objections() == {"commands once"}


def test_an_answer_that_nobody_has_applied(zelos: Zelos) -> None:
    """A write that was acknowledged is in the log."""
    zelos.hear(SetData("/a", b"2"), Answer(zelos.model.zxid + 1, 0))

    assert "answers are of the log" in zelos.objections()


def test_a_write_behind_an_answer_that_has_a_lower_zxid(zelos: Zelos) -> None:
    """The order of zxids is that of real time, where there is one."""
    first = zelos.commit(SetData("/a", b"2"))
    early = zelos.answer(first)
    zelos.write(SetData("/a", b"3"))
    zelos.hear(SetData("/a", b"2"), early)

    assert "writes keep real time" in zelos.objections()


def test_a_sync_that_shows_an_old_state(zelos: Zelos) -> None:
    """A sync reaches all that was acknowledged to any client before it began."""
    answer = zelos.write(SetData("/a", b"2"))
    zelos.hear(Sync(), Answer(answer.zxid - 1, 0), 2, OTHER)

    assert zelos.objections() == {"writes keep real time"}


def test_a_session_that_goes_back(zelos: Zelos) -> None:
    """A later read shows at least what an earlier one did, on another connection too."""
    answer = zelos.read(Exists("/a"))
    zelos.write(SetData("/a", b"2"))
    zelos.hear(Exists("/a"), answer, 2)

    assert zelos.objections() == {"sessions never go back"}


def test_a_read_that_shows_the_write_behind_it(zelos: Zelos) -> None:
    """Pipelined: set, get, set. Writes behind a read wait for it, so it must not show the zxid with which the second one is answered."""
    first = zelos.answer(zelos.commit(SetData("/a", b"2")))
    second = zelos.answer(zelos.commit(SetData("/a", b"3")))
    value = zelos.model.znodes["/a"].data, zelos.model.stat("/a")
    zelos.hear(SetData("/a", b"2"), first)
    zelos.hear(GetData("/a"), Answer(zelos.model.zxid, 0, value))
    zelos.hear(SetData("/a", b"3"), second)

    assert zelos.objections() == {"sessions never go back"}


# -- watches --------------------------------------------------------------------------------------------------------


def test_watches_that_do_as_they_should(zelos: Zelos) -> None:
    """One event for each watched change, in front of what shows it; a client that watches twice gets one event of a delete."""
    zelos.read(GetData("/a", watch=True))
    zelos.read(GetChildren("/a", watch=True))
    zelos.hear(AddWatch("/a", recursive=True), Answer(zelos.model.zxid, 0), 2)
    zelos.event(ChangeKind.DATA_CHANGED, "/a")
    zelos.write(SetData("/a", b"2"))
    zelos.write(SetData("/a", b"3"))
    zelos.event(ChangeKind.DATA_CHANGED, "/a", 2)
    zelos.event(ChangeKind.DATA_CHANGED, "/a", 2)
    zelos.event(ChangeKind.DELETED, "/a")
    zelos.write(Delete("/a"))

    assert zelos.objections() == set()
    assert events_compared(zelos.history) == 4


def test_a_watch_that_was_lost(zelos: Zelos) -> None:
    """The answer shows a state behind the change."""
    zelos.read(GetData("/a", watch=True))
    zelos.write(SetData("/a", b"2"))

    assert zelos.objections() == {"watches fire once and first"}


def test_an_event_behind_what_it_announces(zelos: Zelos) -> None:
    """Too late is as bad as never."""
    zelos.read(GetData("/a", watch=True))
    zelos.write(SetData("/a", b"2"))
    zelos.event(ChangeKind.DATA_CHANGED, "/a")

    assert zelos.objections() == {"watches fire once and first"}


def test_a_watch_that_fires_twice(zelos: Zelos) -> None:
    """A standard one is gone once it has fired."""
    zelos.read(Exists("/none", watch=True))
    zelos.event(ChangeKind.CREATED, "/none")
    zelos.write(Create("/none", b""))
    zelos.event(ChangeKind.DATA_CHANGED, "/none")
    zelos.write(SetData("/none", b"2"))

    assert zelos.objections() == {"watches fire once and first"}


def test_events_of_a_connection_that_broke_may_end_anywhere(zelos: Zelos) -> None:
    """Events still on their way are lost with it; the received ones are those that come next."""
    zelos.read(GetData("/a", watch=True))
    zelos.read(GetChildren("/a", watch=True))
    zelos.commit(Create("/a/x", b""), session=OTHER)
    zelos.commit(SetData("/a", b"2"), session=OTHER)
    zelos.event(ChangeKind.CHILDREN_CHANGED, "/a")

    assert zelos.objections() == set()


def test_an_event_that_skips_one(zelos: Zelos) -> None:
    """Also when the connection breaks right behind it."""
    zelos.read(GetData("/a", watch=True))
    zelos.read(GetChildren("/a", watch=True))
    zelos.commit(Create("/a/x", b""), session=OTHER)
    zelos.commit(SetData("/a", b"2"), session=OTHER)
    zelos.event(ChangeKind.DATA_CHANGED, "/a")

    assert zelos.objections() == {"watches fire once and first"}


def test_watches_that_come_back(zelos: Zelos) -> None:
    """Changes since then are reported before the answer, the other watches are set."""
    since = zelos.model.zxid
    zelos.commit(SetData("/a", b"2"), session=OTHER)
    request = SetWatches(since, data=("/a",), exist=("/none",), child=("/a",))
    zelos.event(ChangeKind.DATA_CHANGED, "/a", 2)
    zelos.hear(request, Answer(zelos.model.zxid, 0), 2)
    zelos.event(ChangeKind.CREATED, "/none", 2)
    zelos.write(Create("/none", b""), 2)
    assert zelos.objections() == set()

    zelos.hear(request, Answer(zelos.model.zxid, 0), 3)
    assert zelos.objections() == {"watches that come back"}


# -- sessions -------------------------------------------------------------------------------------------------------


def expire(zelos: Zelos) -> None:
    zelos.commit(ExpireSessions(((SESSION, zelos.model.sessions[SESSION].touches),)), session=0)


def test_a_session_ends_once_its_timeout_is_over(zelos: Zelos) -> None:
    """Since its client was answered last, not since the log has last heard of it; its ephemerals go
    with it."""
    zelos.write(Create("/a/e", b"", mode=Mode.EPHEMERAL))
    zelos.time = 3.5
    zelos.commit(Touch((SESSION,)), session=0)
    zelos.time = 4.5
    expire(zelos)
    zelos.history.observed("client", Connect(2, SESSION, 0, TIMEOUT_MS), Granted(0, 0, b""))

    assert zelos.objections() == set()
    assert "/a/e" not in zelos.model.znodes


def test_a_session_that_ends_too_early(zelos: Zelos) -> None:
    """Three seconds after a read was answered that only its own server knew of."""
    zelos.time = 3.0
    zelos.read(Exists("/a"))
    zelos.time = 6.0
    expire(zelos)

    assert zelos.objections() == {"sessions end in time"}


def test_a_session_that_is_answered_on_after_its_end(zelos: Zelos) -> None:
    """By a server that has been cut off."""
    zelos.time = 4.5
    expire(zelos)
    zelos.time = 5.0
    zelos.hear(Ping(), Answer(zelos.model.zxid, 0))

    assert "sessions end in time" in zelos.objections()


def test_a_session_that_ends_late(zelos: Zelos) -> None:
    """With nothing in the way, its server knows when it heard the client."""
    zelos.time = 5.5
    expire(zelos)

    assert zelos.objections() == {"sessions end soon"}


@pytest.mark.parametrize(("ended_at", "objections"), [(8.0, set()), (8.6, {"sessions end soon"})])
def test_a_session_that_has_moved_may_end_later(zelos: Zelos, ended_at: float, objections: set[str]) -> None:
    """The server before may answer for a while: one timeout and a half from the move."""
    zelos.time = 1.0
    zelos.commit(Attach(SESSION, b"", TIMEOUT_MS), session=0)
    zelos.history.observed("client", Connect(2, SESSION, 0, TIMEOUT_MS), Granted(SESSION, TIMEOUT_MS, b""))
    zelos.time = 1.5
    zelos.read(Exists("/a"), connection=2)
    zelos.time = ended_at
    expire(zelos)

    assert zelos.objections() == objections


def test_a_session_that_lives_on(zelos: Zelos) -> None:
    """No client has used it for long."""
    found = list(lives_on(zelos.history, lambda session: session == OTHER))

    assert [violation.check for violation in found] == ["sessions do not live on"]


def test_a_session_that_is_refused_while_it_lives(zelos: Zelos) -> None:
    """A server that does not know it yet has to look."""
    zelos.history.observed("client", Connect(2, SESSION, 0, TIMEOUT_MS), Granted(0, 0, b""))

    assert zelos.objections() == {"handshakes are of the log"}
