"""Sessions: through the log, and when they end of themselves."""

from __future__ import annotations

import random

import pytest

from tests.database.tree.world import World
from virtuallog_database.replica.session_expiry import (
    ABSENT_SECONDS,
    EXPIRIES_MAX,
    LOOK_SECONDS_MIN,
    OTHERS,
    REPORT,
    TICK_SECONDS,
    TRUST,
    SessionExpiry,
)
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
        self.expiry = SessionExpiry(self.tree, random.Random(1), self._on_shorter)
        self.now = 100.0
        self.shortened = 0
        self.told: list[Error] = []
        self.resumed = 0
        self.tick(0.0)

    def do(self, operation: Operation, origin: Origin = Origin()) -> Result:  # noqa: B008  # frozen
        result = super().do(operation, origin)
        self.expiry.applied(result)
        return result

    def open(self, session: int = 7, timeout_ms: int = 4000) -> Origin:
        """A session that is attached here."""
        attached = self.do(CreateSession(session, PASSWORD, timeout_ms)).value
        self.attach(session, attached.generation)
        return Origin(session, attached.generation)

    def attach(self, session: int, generation: int) -> None:
        self.expiry.attach(session, generation, self.told.append, proposed=self.now, now=self.now)

    def answers(self, session: int = 7) -> bool:
        """Whether a request that came now would be answered."""
        return self.expiry.admits(session, self.now, self._resume)

    def _resume(self) -> None:
        self.resumed += 1

    def _on_shorter(self) -> None:
        self.shortened += 1

    def tick(self, seconds: float = 1.0) -> list[Touch | ExpireSessions]:
        self.now += seconds
        return self.expiry.tick(self.now)

    def expiries(self, seconds: float = 1.0) -> list[ExpireSessions]:
        """What is proposed next, touches apart, of which none reaches the log."""
        return [each for each in self.tick(seconds) if isinstance(each, ExpireSessions)]

    def live(self, seconds: float, *, step: float = 0.5) -> None:
        """Look every so often, with a log that takes no time, until so many seconds are over or no session is left."""
        until = self.now + seconds
        while self.now < until and self.tree.meta.sessions:
            for command in self.tick(min(step, self.expiry.pause, until - self.now)):
                self.do(command)
                if isinstance(command, Touch):
                    self.expiry.confirm(command, self.now)


@pytest.fixture
def server() -> Server:
    return Server()


def test_a_session_that_nobody_hears_of_is_proposed_once_its_timeout_is_over(server: Server) -> None:
    """With the touches that were seen; again only after a while, should the proposal be lost."""
    server.open()
    assert [server.expiries() for _ in range(3)] == [[]] * 3
    assert server.expiries() == [ExpireSessions(((7, 1),))]
    assert server.expiries(0.9) == []
    assert server.expiries(0.1) == [ExpireSessions(((7, 1),))]


def test_an_expired_session_takes_its_ephemerals_with_it(server: Server) -> None:
    """Its connection is notified, its commands are refused; it cannot be attached any more."""
    origin = server.open()
    server.do(Create("/e", b"", mode=Mode.EPHEMERAL), origin)
    server.do(ExpireSessions(((7, 2),)))
    assert server.told == [Error.SESSION_EXPIRED]
    assert server.tree.get_children("/", ())[0] == ["zookeeper"]
    assert server.error(SetData("/zookeeper", b""), origin) is Error.SESSION_EXPIRED
    assert server.error(Attach(7, PASSWORD, 4000)) is Error.SESSION_EXPIRED
    assert [server.tick() for _ in range(9)] == [[]] * 9
    assert (server.tree.meta.sessions, server.tree.meta.ephemerals, server.expiry.attached) == (0, 0, 0)


def test_whoever_was_touched_in_between_lives_on(server: Server) -> None:
    """An expiry that was decided on old knowledge does nothing, and takes no zxid."""
    origin = server.open()
    server.do(SetData("/none", b""), origin)
    before = server.tree.last_zxid
    assert server.do(ExpireSessions(((7, 1), (8, 1)))).ended == ()
    assert server.tree.last_zxid == before
    assert server.told == []


# -- its own server -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [2.0, 4.0, 10.0, 40.0])
@pytest.mark.parametrize("moment", [0.0, 0.1, 0.25, 0.33])
@pytest.mark.parametrize("leaves", [True, False])
def test_a_session_ends_one_timeout_after_its_client_was_heard(
    server: Server, timeout: float, moment: float, leaves: bool
) -> None:
    """Whenever that was, and whether its connection breaks or falls silent. Other clients wait for
    its locks so long."""
    server.open(timeout_ms=round(timeout * 1000))
    for share in (1 / 3, 1 / 3, 1 / 3, 1 / 3, moment):
        server.live(timeout * share)
        server.expiry.heard(7, server.now)
    heard_at = server.now
    if leaves:
        server.expiry.detach(7, 1)
    server.live(2 * timeout)
    assert timeout <= server.now - heard_at <= timeout + LOOK_SECONDS_MIN + 1e-6


def test_an_attached_session_is_touched_six_times_in_its_timeout(server: Server) -> None:
    """Not more often if its client sends more: a touch for each of its messages would only cost."""
    server.open(timeout_ms=12_000)
    touches = 0
    for _ in range(48):
        server.expiry.heard(7, server.now)
        touches += len(server.tick(0.25))
    assert touches == 6
    server.expiry.detach(7, 1)
    assert server.tick(2.0) == [], "a session without a connection is not reported"


def test_sessions_share_their_touches(server: Server) -> None:
    """Also those that began at different moments: an entry of the log for each would cost more."""
    server.open(7, timeout_ms=12_000)
    server.tick(1.0)
    server.open(8, timeout_ms=12_000)
    server.tick(0.5)
    server.open(9, timeout_ms=12_000)
    assert server.tick(0.5) == [Touch((7, 8))], "the last one is too young"
    assert [server.tick(), server.tick()] == [[], [Touch((7, 8, 9))]]
    assert [server.tick(), server.tick()] == [[], [Touch((7, 8, 9))]]


def test_other_touches_are_of_no_account(server: Server) -> None:
    """Sessions that are not here, or are over, are passed over."""
    server.do(Touch((7, 99)))
    assert server.tick() == []
    server.expiry.heard(99, server.now)
    server.expiry.confirm(Touch((99,)), server.now)
    assert not server.answers(99)


def test_a_session_that_was_attached_too_late_is_not_expired_for_that(server: Server) -> None:
    """The command was on its way for longer than the timeout; meanwhile the client was with another
    server, which has answered it up to now, and may do so for a moment more."""
    server.do(CreateSession(7, PASSWORD, 4000))
    moved = server.do(Attach(7, PASSWORD, 4000)).value
    server.expiry.attach(7, moved.generation, server.told.append, proposed=server.now - 9, now=server.now)
    assert not server.answers()
    server.expiry.heard(7, server.now - 8)
    assert [server.expiries(), server.expiries(2.0), server.expiries(2.0)] == [[], [], []]
    assert server.expiries() == [ExpireSessions(((7, 2),))]


@pytest.mark.parametrize(("heard_after", "ends_after"), [(0.001, 6.0), (0.5, 6.0), (2.0, 6.0), (3.0, 7.0)])
def test_a_session_that_has_moved_here_lives_as_long_as_others_would_let_it(
    server: Server, heard_after: float, ends_after: float
) -> None:
    """One timeout and a half from its move, also if it is heard here at once: bytes of a client that is with another server by
    now may be as late as its handshake. One timeout from the last of them, if that is later."""
    server.do(CreateSession(7, PASSWORD, 4000))
    server.attach(7, server.do(Attach(7, PASSWORD, 4000)).value.generation)
    begun = server.now
    server.live(heard_after)
    server.expiry.heard(7, server.now)
    server.live(9.0)
    assert ends_after <= server.now - begun <= ends_after + LOOK_SECONDS_MIN + 1e-6


# -- looks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [2.0, 4.0, 10.0, 40.0])
def test_a_touch_has_a_look_of_its_own(server: Server, timeout: float) -> None:
    """Each sixth of the timeout, to the moment: a log that takes less than a sixth holds up no request."""
    server.tick()
    server.open(timeout_ms=round(timeout * 1000))
    touched_at = server.now
    for _ in range(6):
        server.expiry.heard(7, server.now)
        while not server.tick(server.expiry.pause):
            pass
        assert timeout * REPORT - LOOK_SECONDS_MIN <= server.now - touched_at <= timeout * REPORT + 1e-6
        touched_at = server.now


def test_a_session_that_begins_at_an_idle_server_does_not_wait_for_its_next_look(server: Server) -> None:
    """That would be a second away, when the touch of a short session is long due."""
    server.tick()
    assert server.expiry.pause == TICK_SECONDS
    server.now += 0.1
    server.open(timeout_ms=2000)
    assert server.shortened == 1
    assert server.expiry.pause == pytest.approx(2.0 * REPORT)
    server.open(8, timeout_ms=2000)
    assert server.shortened == 1, "it is early enough"
    assert server.tick(server.expiry.pause) == [Touch((7, 8))]


def test_a_session_that_was_attached_late_is_touched_at_once(server: Server) -> None:
    """Its client has waited for the handshake, and the first ping is not answered before that touch."""
    server.tick()
    attached = server.do(CreateSession(7, PASSWORD, 12_000)).value
    server.expiry.attach(7, attached.generation, server.told.append, proposed=server.now - 5, now=server.now)
    assert server.expiry.pause == pytest.approx(LOOK_SECONDS_MIN)
    assert server.tick(LOOK_SECONDS_MIN) == [Touch((7,))]


# -- requests that wait ---------------------------------------------------------------------------------------------


def test_a_server_that_cannot_report_a_session_does_not_answer_on_it(server: Server) -> None:
    """Elsewhere the session may be over. Its requests are answered once a touch has been applied; it
    counts from its proposal."""
    server.open(timeout_ms=12_000)
    server.now += 4.0
    assert server.answers()
    server.now += 0.1
    assert not server.answers()
    (touch,) = server.tick(0.1)
    assert isinstance(touch, Touch)
    proposed = server.now
    server.now += 3.9
    server.expiry.confirm(touch, proposed)
    assert server.resumed == 1
    assert server.answers()
    server.now += 0.2
    assert not server.answers()


def test_a_request_that_waits_is_reported_at_the_next_look(server: Server) -> None:
    """Not only when the next touch would be due."""
    server.open(timeout_ms=12_000)
    server.now += 3.9
    assert server.tick() == [Touch((7,))], "which is lost"
    assert not server.answers()
    assert server.tick(0.1) == [Touch((7,))]


def test_nothing_is_answered_beside_an_expiry(server: Server) -> None:
    """A request that comes while an expiry is on its way waits for a touch behind it, which finds the
    session or not. A touch that was proposed before proves nothing."""
    server.open(timeout_ms=12_000)
    assert [len(server.tick(seconds)) for seconds in (2.0, 2.0, 2.0, 2.0, 1.5)] == [1, 1, 1, 1, 0]
    (touch,) = server.tick(2.0)
    assert isinstance(touch, Touch)
    proposed = server.now
    assert server.expiries(0.5) == [ExpireSessions(((7, 1),))]
    server.expiry.confirm(touch, proposed)
    assert not server.answers()
    server.expiry.heard(7, server.now)
    (later,) = server.tick(0.1)
    assert later == Touch((7,))
    server.expiry.confirm(later, server.now)
    assert server.answers()


def test_requests_that_wait_are_forgotten_with_their_connection(server: Server) -> None:
    """A touch resumes nothing that has ended."""
    server.open()
    server.now += 3.0
    assert not server.answers()
    server.expiry.detach(7, 1)
    server.expiry.confirm(Touch((7,)), server.now)
    assert server.resumed == 0


# -- other servers --------------------------------------------------------------------------------------------------


def test_other_servers_wait_for_half_as_long_again(server: Server) -> None:
    """And a moment of their own, so that one of them proposes it for all."""
    server.do(CreateSession(7, PASSWORD, 8000))
    server.tick(0.0)
    begun = server.now
    while not (proposed := server.tick(0.1)):
        pass
    assert proposed == [ExpireSessions(((7, 1),))]
    assert 12.0 < server.now - begun <= 12.9


def test_commands_are_touches_also_refused_ones(server: Server) -> None:
    """Other servers need no more."""
    server.do(CreateSession(7, PASSWORD, 4000))
    for _ in range(12):
        server.do(SetData("/none", b""), Origin(7, 1))
        assert server.tick() == []


def test_a_drifting_clock_ends_no_session_that_its_server_answers(server: Server) -> None:
    """The other server's clock runs 1.5 times as fast as that of the session's own server, which was
    cut off right after a touch, and answers for as long as it may."""
    timeout, fast = 9.0, 1.5
    answered_until = timeout * TRUST
    expired_at = timeout * OTHERS / fast
    assert expired_at - answered_until >= timeout / fast - 1e-9


def test_a_short_session_outlives_a_stop_that_is_as_long(server: Server) -> None:
    """No client could be heard for 2.9 seconds: more than the shortest timeout, and less than an
    absence for others."""
    server.open(7, timeout_ms=2000)
    server.open(8, timeout_ms=4000)
    server.tick()
    assert server.expiries(2.9) == []
    assert server.expiries(0.1) == [ExpireSessions(((8, 1),))]
    assert server.expiries(1.9) == [ExpireSessions(((7, 1), (8, 1)))]


def test_after_an_absence_all_sessions_count_anew(server: Server) -> None:
    """A process that was stopped, or could not ask the log, has not listened."""
    server.open(7)
    server.do(CreateSession(8, PASSWORD, 4000))
    assert server.expiries(2.0) == []
    assert server.expiries(ABSENT_SECONDS + 60) == []
    assert server.expiries(2.0) == []
    assert server.expiries(2.0) == [ExpireSessions(((7, 1),))]
    server.do(ExpireSessions(((7, 1),)))
    assert server.expiries(2.0) == []
    assert server.expiries(1.0) == [ExpireSessions(((8, 1),))]


def test_a_session_that_began_after_the_start_does_not_count_anew(server: Server) -> None:
    """The first look comes up to a second after the start."""
    expiry = SessionExpiry(server.tree, random.Random(1))
    attached = server.do(CreateSession(7, PASSWORD, 4000)).value
    expiry.attach(7, attached.generation, server.told.append, proposed=server.now, now=server.now)
    found = [expiry.tick(server.now + seconds) for seconds in (1.0, 2.0, 3.0, 4.0)]
    assert ExpireSessions(((7, 1),)) in found[3]


def test_after_a_start_all_sessions_count_anew(server: Server) -> None:
    """They are in the store, and the time of their last sign of life is unknown."""
    server.open(timeout_ms=4000)
    again = SessionExpiry(server.tree, random.Random(1))
    again.load()
    found = [again.tick(1000.0 + second) for second in range(9)]
    assert found[:7] == [[]] * 7
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
    assert [server.tick() for _ in range(8)] == [[]] * 8


def test_a_connection_may_be_late(server: Server) -> None:
    """Between the answer and `attach` the session may have gone elsewhere, or be over."""
    server.open()
    server.do(Attach(7, PASSWORD, 4000))
    server.told.clear()
    server.attach(7, 1)
    assert server.told == [Error.SESSION_MOVED]
    server.attach(7, 2)
    server.expiry.detach(7, 1)
    assert server.expiry.attached == 1, "a former connection has no say"
    assert server.do(CloseSession(7), Origin(7, 2)).ended == (7,)
    server.attach(7, 2)
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
    assert server.expiries(2.0) == []
    assert [len(each.sessions) for each in server.expiries(2.0)] == [EXPIRIES_MAX, 10]
