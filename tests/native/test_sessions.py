"""What a sequencer remembers, and what it admits to have forgotten."""

from __future__ import annotations

import pytest

from loglets.native import sessions as module
from loglets.native.loglet import APPEND_SECONDS
from loglets.native.sessions import Sessions
from tests.native.parts import batch_of
from virtuallog.appender import AppenderSettings
from virtuallog.errors import OutOfOrderError, OverloadedError, ReconfigurationNeededError


def place(
    sessions: Sessions, first_sequence: int, session: bytes = b"s" * 16, now_ms: int = 0, commit: bool = True
) -> None:
    placement = sessions.place(batch_of(1, first_sequence, session), first_sequence, "ticket", now_ms)
    if commit:
        placement.commit()


def test_the_last_batches_of_a_session_are_remembered() -> None:
    """An older one is admitted to be forgotten: its caller has to look for it in the sealed log."""
    sessions = Sessions()
    for n in range(module.BATCHES_MAX + 1):
        place(sessions, n)

    found = sessions.find(batch_of(1, 1, b"s" * 16), opens=False)
    assert found is not None and found.first == 1
    with pytest.raises(ReconfigurationNeededError):
        sessions.find(batch_of(1, 0, b"s" * 16), opens=False)


def test_batches_that_are_not_committed_are_never_forgotten() -> None:
    """A further one is refused, before anything was done."""
    sessions = Sessions()
    for n in range(module.BATCHES_MAX):
        place(sessions, n, commit=False)

    with pytest.raises(OverloadedError):
        place(sessions, module.BATCHES_MAX)


def test_an_idle_session_makes_room_and_is_not_taken_for_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes back without `opens` may be anybody: guessing could put an entry into the log twice."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 1)
    sessions = Sessions()
    place(sessions, 0, b"a" * 16)
    with pytest.raises(OutOfOrderError):
        sessions.find(batch_of(1, 1, b"b" * 16), opens=False)

    place(sessions, 0, b"b" * 16, now_ms=module.SESSION_KEEP_MS)

    with pytest.raises(ReconfigurationNeededError):
        sessions.find(batch_of(1, 1, b"a" * 16), opens=False)
    assert sessions.find(batch_of(1, 1, b"b" * 16), opens=False) is None


def test_a_session_is_remembered_for_longer_than_its_appender_offers_again() -> None:
    """Without any progress, the last offer begins when the appender is about to give up, and takes its time."""
    appender = AppenderSettings()

    assert 1500 * (appender.give_up + appender.retry_max + APPEND_SECONDS) < module.SESSION_KEEP_MS


def test_a_session_in_use_does_not_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its appender may be about to offer its last batch again."""
    monkeypatch.setattr(module, "SESSIONS_MAX", 1)
    sessions = Sessions()
    place(sessions, 0, b"a" * 16)

    with pytest.raises(OverloadedError):
        place(sessions, 0, b"b" * 16, now_ms=module.SESSION_KEEP_MS - 1)
