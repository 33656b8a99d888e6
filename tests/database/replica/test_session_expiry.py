"""Sessions: through the log, and when they end of themselves."""

from __future__ import annotations

import random

import pytest

from tests.database.tree.world import World
from virtuallog_database.replica.session_expiry import ABSENT_SECONDS, EXPIRIES_MAX, SessionExpiry
from virtuallog_database.tree.commands import (  # fmt: skip
    Attach,
    CloseSession,
    Create,
    CreateSession,
    ExpireSessions,
    Mode,
    Operation,
    Origin,
    SetData,
    Touch,
)
from virtuallog_database.tree.results import Attached, Error, Result

PASSWORD = b"p" * 16


class Server(World):
    """One replica with its view of sessions, second by second."""

    def __init__(self) -> None:
        super().__init__()
        self.expiry = SessionExpiry(self.tree, random.Random(1))
        self.now = 100.0
        self.told: list[Error] = []

    def do(self, operation: Operation, origin: Origin = Origin()) -> Result:  # noqa: B008  # frozen
        result = super().do(operation, origin)
        self.expiry.applied(result)
        return result

    def open(self, session: int = 7, timeout_ms: int = 4000) -> Origin:
        """A session that is attached here."""
        attached = self.do(CreateSession(session, PASSWORD, timeout_ms)).value
        self.expiry.attach(session, attached.generation, self.told.append)
        return Origin(session, attached.generation)

    def tick(self, seconds: float = 1.0) -> list[Touch | ExpireSessions]:
        self.now += seconds
        return self.expiry.tick(self.now)

    def ticks(self, seconds: int) -> list[list[Touch | ExpireSessions]]:
        return [self.tick() for _ in range(seconds)]


@pytest.fixture
def server() -> Server:
    return Server()


def test_a_session_that_nobody_hears_of_is_proposed_once_its_timeout_is_over(server: Server) -> None:
    """With the touches that were seen; again only after a while, should the proposal be lost."""
    server.open()
    assert server.ticks(5) == [[]] * 5
    assert server.tick() == [ExpireSessions(((7, 1),))]
    assert server.ticks(3) == [[]] * 3
    assert server.tick() == [ExpireSessions(((7, 1),))]


def test_an_expired_session_takes_its_ephemerals_with_it(server: Server) -> None:
    """Its connection is notified, its commands are refused; it cannot be attached any more."""
    origin = server.open()
    server.do(Create("/e", b"", mode=Mode.EPHEMERAL), origin)
    server.do(ExpireSessions(((7, 2),)))
    assert server.told == [Error.SESSION_EXPIRED]
    assert server.tree.get_children("/", ())[0] == ["zookeeper"]
    assert server.error(SetData("/zookeeper", b""), origin) is Error.SESSION_EXPIRED
    assert server.error(Attach(7, PASSWORD, 4000)) is Error.SESSION_EXPIRED
    assert server.ticks(9) == [[]] * 9
    assert (server.tree.meta.sessions, server.tree.meta.ephemerals, server.expiry.attached) == (0, 0, 0)


def test_whoever_was_touched_in_between_lives_on(server: Server) -> None:
    """An expiry that was decided on old knowledge does nothing, and takes no zxid."""
    origin = server.open()
    server.do(SetData("/none", b""), origin)
    before = server.tree.last_zxid
    assert server.do(ExpireSessions(((7, 1), (8, 1)))).ended == ()
    assert server.tree.last_zxid == before
    assert server.told == []


def test_commands_are_touches_also_refused_ones(server: Server) -> None:
    """Nothing else needs to be told then."""
    origin = server.open()
    for _ in range(8):
        server.do(SetData("/none", b""), origin)
        assert server.tick() == []


def test_what_is_heard_is_told_after_a_third_of_the_timeout(server: Server) -> None:
    """Clients say something that often; a touch for each of their pings would only cost."""
    server.open(timeout_ms=9000)
    server.tick()
    server.expiry.heard(7)
    assert server.ticks(2) == [[]] * 2
    assert server.tick() == [Touch((7,))]
    assert server.tick() == []
    server.do(Touch((7, 99)))
    server.tick()
    server.expiry.heard(99)
    assert server.ticks(8) == [[]] * 8
    assert server.tree.session(7).touches == 2  # type: ignore[union-attr]


@pytest.mark.parametrize("heard", range(0, 25, 3))
def test_a_session_lives_for_its_timeout_and_a_third_of_it_at_most(server: Server, heard: int) -> None:
    """A ping just after a command is proposed late, and dated by that. Other clients wait for its
    locks so long."""
    server.open(timeout_ms=30_000)
    server.ticks(heard + 1)
    server.expiry.heard(7)
    heard_at = server.now
    while server.expiry.attached:
        for command in server.tick():
            server.do(command)
    assert 30 <= server.now - heard_at <= 40 + 2


def test_a_short_session_outlives_a_stop_that_is_as_long(server: Server) -> None:
    """No client could be heard for 2.9 seconds: more than the shortest timeout, and less than an
    absence for others."""
    server.open(7, timeout_ms=2000)
    server.open(8, timeout_ms=4000)
    server.tick()
    assert server.tick(2.9) == []
    assert server.ticks(2) == [[], [ExpireSessions(((8, 1),))]]
    assert server.tick() == [ExpireSessions(((7, 1),))]


def test_the_server_of_a_session_proposes_before_the_others(server: Server) -> None:
    """They wait one to three seconds longer."""
    server.open()
    server.expiry.detach(7, 1)
    found = server.ticks(9)
    assert found.index([ExpireSessions(((7, 1),))]) in (6, 7, 8)


def test_after_an_absence_all_sessions_count_anew(server: Server) -> None:
    """A process that was stopped, or could not ask the log, has not listened."""
    server.open()
    server.ticks(4)
    assert server.tick(ABSENT_SECONDS + 60) == []
    assert server.ticks(4) == [[]] * 4
    assert server.tick() == [ExpireSessions(((7, 1),))]


def test_after_a_start_all_sessions_count_anew(server: Server) -> None:
    """They are in the store, and the time of their last sign of life is unknown."""
    server.open(timeout_ms=4000)
    again = SessionExpiry(server.tree, random.Random(1))
    again.load()
    found = [again.tick(1000.0 + second) for second in range(9)]
    assert found[:5] == [[]] * 5
    assert [ExpireSessions(((7, 1),))] in found


def test_who_attaches_elsewhere_takes_the_session_along(server: Server) -> None:
    """The former connection is notified, and its later commands are refused. The timeout may
    change."""
    former = server.open()
    assert server.do(Attach(7, b"wrong", 8000)).error is Error.SESSION_EXPIRED
    assert server.told == []
    moved = server.do(Attach(7, PASSWORD, 8000))
    assert moved.value == Attached(7, 2, 8000)
    assert server.told == [Error.SESSION_MOVED]
    assert server.error(SetData("/zookeeper", b""), former) is Error.SESSION_MOVED
    assert server.error(CloseSession(7), former) is Error.SESSION_MOVED
    assert server.tree.session(7).touches == 2, "what was refused is no sign of life"  # type: ignore[union-attr]
    assert server.ticks(8) == [[]] * 8


def test_a_connection_may_be_late(server: Server) -> None:
    """Between the answer and `attach` the session may have gone elsewhere, or be over."""
    server.open()
    server.do(Attach(7, PASSWORD, 4000))
    server.told.clear()
    server.expiry.attach(7, 1, server.told.append)
    assert server.told == [Error.SESSION_MOVED]
    server.expiry.attach(7, 2, server.told.append)
    server.expiry.detach(7, 1)
    assert server.expiry.attached == 1, "a former connection has no say"
    assert server.do(CloseSession(7), Origin(7, 2)).ended == (7,)
    server.expiry.attach(7, 2, server.told.append)
    assert server.told == [Error.SESSION_MOVED, Error.SESSION_EXPIRED, Error.SESSION_EXPIRED]


def test_ids_are_taken_once(server: Server) -> None:
    """Each id is given once, and 0 is never one."""
    server.open()
    assert server.error(CreateSession(7, b"other", 9000)) is Error.NODE_EXISTS
    assert server.error(CreateSession(0, b"other", 9000)) is Error.NODE_EXISTS
    assert server.error(CloseSession(8)) is Error.SESSION_EXPIRED


def test_many_sessions_end_in_pieces(server: Server) -> None:
    """Each piece is one step of the tree."""
    for session in range(1, EXPIRIES_MAX + 11):
        server.open(session)
    server.ticks(5)
    assert [len(each.sessions) for each in server.tick()] == [EXPIRIES_MAX, 10]
