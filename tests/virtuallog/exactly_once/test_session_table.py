"""The session table of a sequencer: places that it knows, and places that it has forgotten."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.loglets.native.core.log_server_bench import batch_of
from virtuallog.client.appender import AppenderSettings
from virtuallog.contract.errors import OutOfOrderError, OverloadedError, ReconfigurationNeededError
from virtuallog.exactly_once import session_table as module
from virtuallog.exactly_once.session_table import SessionTable
from virtuallog_loglets.native.loglet import APPEND_SECONDS


def place(
    sessions: SessionTable, first_sequence: int, session: bytes = b"s" * 16, now_ms: int = 0, commit: bool = True
) -> None:
    placement = sessions.place(batch_of(1, first_sequence, session), first_sequence, "ticket", now_ms)
    if commit:
        placement.commit()


def test_the_last_batches_of_a_session_are_remembered() -> None:
    """The place of an older one is reported as forgotten: its caller has to search the sealed log."""
    sessions = SessionTable()
    for n in range(module.BATCHES_MAX + 1):
        place(sessions, n)

    found = sessions.find(batch_of(1, 1, b"s" * 16), opens=False)
    assert found is not None and found.first == 1
    with pytest.raises(ReconfigurationNeededError):
        sessions.find(batch_of(1, 0, b"s" * 16), opens=False)


def test_batches_that_are_not_committed_are_never_forgotten() -> None:
    """A further one is refused, before anything was done."""
    sessions = SessionTable()
    for n in range(module.BATCHES_MAX):
        place(sessions, n, commit=False)

    with pytest.raises(OverloadedError):
        place(sessions, module.BATCHES_MAX)


def test_an_idle_session_makes_room_and_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batches are forgotten, as no appender offers them again by now; later batches are placed."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 1)
    sessions = SessionTable()
    for sequence in range(3):
        place(sessions, sequence, b"a" * 16)

    place(sessions, 0, b"b" * 16, now_ms=module.SESSION_KEEP_MS)

    for opens in (False, True):
        with pytest.raises(ReconfigurationNeededError):
            sessions.find(batch_of(1, 0, b"a" * 16), opens=opens)
    assert sessions.may_have_placed(batch_of(1, 2, b"a" * 16))
    assert not sessions.may_have_placed(batch_of(1, 3, b"a" * 16))
    with pytest.raises(OutOfOrderError):
        sessions.find(batch_of(1, 4, b"a" * 16), opens=False)
    assert sessions.find(batch_of(1, 3, b"a" * 16), opens=False) is None
    place(sessions, 3, b"a" * 16, now_ms=2 * module.SESSION_KEEP_MS)
    assert sessions.find(batch_of(1, 4, b"a" * 16), opens=False) is None


def test_idle_sessions_give_back_what_they_remember() -> None:
    """A sequencer lives for months and sees very many sessions: only those of the last minutes cost memory."""
    sessions = SessionTable()
    for number in range(100):
        for sequence in range(module.BATCHES_MAX):
            place(sessions, sequence, b"%16d" % number, now_ms=number * module.SESSION_KEEP_MS // 10)

    assert len(sessions._sessions) <= 10
    assert len(sessions._idle) == 100 - len(sessions._sessions)


def test_a_session_in_use_costs_what_the_limit_says() -> None:
    """A session costs 10 KB with all remembered batches."""
    sessions = SessionTable()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(64):
            for sequence in range(1000, 1000 + module.BATCHES_MAX):
                batch = batch_of(1, sequence, b"%16d" % number)
                sessions.place(batch, 10**6 + sequence, object(), 1000).commit()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert 5_000 < (after - before) / 64 < 10_500


def test_an_idle_session_that_was_forgotten_is_not_taken_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch without `opens` may be of any forgotten session: a guess could put an entry into the log twice."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 1)
    monkeypatch.setattr(module, "IDLE_MAX", 0)
    sessions = SessionTable()
    place(sessions, 0, b"a" * 16)
    with pytest.raises(OutOfOrderError):
        sessions.find(batch_of(1, 1, b"b" * 16), opens=False)

    place(sessions, 0, b"b" * 16, now_ms=module.SESSION_KEEP_MS)

    with pytest.raises(ReconfigurationNeededError):
        sessions.find(batch_of(1, 1, b"a" * 16), opens=False)
    assert sessions.find(batch_of(1, 1, b"b" * 16), opens=False) is None


def test_a_session_is_remembered_for_longer_than_its_appender_offers_again() -> None:
    """Without any progress, the last offer begins when the appender is about to give up, and takes some seconds."""
    appender = AppenderSettings()

    assert 1500 * (appender.give_up + appender.retry_max + APPEND_SECONDS) < module.SESSION_KEEP_MS


def test_a_session_in_use_does_not_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its appender may be about to offer its last batch again."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 1)
    sessions = SessionTable()
    place(sessions, 0, b"a" * 16)

    with pytest.raises(OverloadedError):
        place(sessions, 0, b"b" * 16, now_ms=module.SESSION_KEEP_MS - 1)


def test_what_another_orderer_has_placed_is_taken_over() -> None:
    """A batch offered again has its place, an older one is reported as forgotten; the session goes on where it was. For a long
    idle session only that is known."""
    sessions = SessionTable()
    sessions.recall(batch_of(session=b"a" * 16).session, 7, [(4, 40), (5, 50)], 0)
    sessions.recall(batch_of(session=b"i" * 16).session, 3, [], 0)

    found = sessions.find(batch_of(2, 5, b"a" * 16), opens=False)
    assert found is not None
    assert (found.first, found.committed) == (50, True)
    assert sessions.find(batch_of(1, 7, b"a" * 16), opens=False) is None
    assert sessions.find(batch_of(1, 3, b"i" * 16), opens=False) is None
    for name, sequence in ((b"a" * 16, 2), (b"i" * 16, 1)):
        with pytest.raises(ReconfigurationNeededError):
            sessions.find(batch_of(1, sequence, name), opens=False)
    with pytest.raises(OutOfOrderError):
        sessions.find(batch_of(1, 9, b"a" * 16), opens=False)
    assert sessions.place(batch_of(1, 7, b"a" * 16), 70, None, 0).first == 70


def test_too_many_to_take_over_are_forgotten_from_the_earliest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """First their batches are forgotten, then their sequence numbers: then an unknown session may be an old one."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 1)
    monkeypatch.setattr(module, "IDLE_MAX", 1)
    sessions = SessionTable()
    names = [bytes([number]) * 16 for number in range(3)]
    for name in names:
        sessions.recall(batch_of(session=name).session, 2, [(1, 10)], 0)

    first, second, third = names
    assert sessions.find(batch_of(1, 1, third), opens=False) is not None
    assert sessions.find(batch_of(1, 2, second), opens=False) is None
    for name in (first, second):
        with pytest.raises(ReconfigurationNeededError):
            sessions.find(batch_of(1, 1, name), opens=False)
