"""Pauses before a role restarts after a retryable error."""

from __future__ import annotations

from virtuallog.contract.errors import CorruptionError, DiskFullError, OverloadedError, UnavailableError
from virtuallog.runtime.restart_backoff import (
    KEPT_MAX,
    PAUSE_SECONDS,
    RESET_SECONDS,
    RestartBackoff,
    is_bug,
    retryable_cause,
)


def test_pauses_grow_and_are_short_again_after_a_while() -> None:
    """Pauses grow, so that there is no busy loop, and are short again after a quiet time."""
    setbacks, now, pauses = RestartBackoff(), 100.0, []
    for _ in range(20):
        pauses.append(setbacks.met(OverloadedError("full"), now))
        now += pauses[-1]
    now += RESET_SECONDS

    assert pauses[:3] == [0.5, 1.0, 2.0]
    assert max(pauses) == PAUSE_SECONDS[1]
    assert setbacks.met(OverloadedError("full"), now) == PAUSE_SECONDS[0]
    assert setbacks.count == 21
    assert len(setbacks.latest) == KEPT_MAX


def test_a_setback_is_made_of_retryable_errors_alone() -> None:
    """A group with any other error is no setback."""
    retryable, terminal = UnavailableError("no answer"), CorruptionError("a bad block")
    assert retryable_cause(ExceptionGroup("", [ExceptionGroup("", [retryable])])) is retryable
    assert retryable_cause(ExceptionGroup("", [retryable, terminal])) is None
    assert retryable_cause(KeyError()) is None


def test_a_full_disk_is_no_bug() -> None:
    """Any retryable error but a full disk should have been caught by its caller."""
    assert is_bug(OverloadedError("full"))
    assert not is_bug(DiskFullError("no room"))
