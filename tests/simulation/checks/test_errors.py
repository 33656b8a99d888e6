"""Which errors a client may hear: what the check must object to, and what it must let pass."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.checks.story import LOGLET, A, Story, offer
from virtuallog.errors import (
    ChainConflictError,
    CorruptionError,
    DiskFullError,
    InvalidSettingError,
    OutOfOrderError,
    ReconfigurationNeededError,
    SealedError,
    StorageError,
    TailMismatchError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.testing.actions import (
    Action,
    Append,
    CheckTail,
    CloseAsked,
    ExtendAsked,
    FindTrimPoint,
    Follow,
    Get,
    LogletRead,
    LogletTail,
    Put,
    Read,
    Reconfigure,
    Trim,
)
from virtuallog_simulation.checks.errors import DOCUMENTED, register_errors_as_documented
from virtuallog_simulation.checks.register import REGISTER_CHECKS

BROKEN = {"errors as documented"}
SILENT = UnavailableError("no answer")
DAMAGED = CorruptionError("every copy is damaged")


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (Append((b"x",)), SILENT),
        (Append((b"x",), 3), TailMismatchError(3, 4)),
        (Trim(3), SILENT),
        (FindTrimPoint(), SILENT),
        (Reconfigure(ExtendAsked("native")), InvalidSettingError("servers", "too few")),
        (offer(A, 0), OutOfOrderError(3)),
        (offer(A, 0), ReconfigurationNeededError("restarted")),
        (LogletTail(LOGLET), SealedError("dropped")),
        (Put(3, b"", 1), SILENT),
    ],
    ids=str,
)
def test_an_error_that_is_documented(story: Story, action: Action, error: VirtualLogError) -> None:
    """Whoever reads the contract knows what to do."""
    story.failed(action, error)

    assert story.broken() == set()


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (Append((b"x",)), TailMismatchError(3, 4)),
        (Append((b"x",)), StorageError("no disk")),
        (Append((b"x",)), SealedError("nobody has closed it")),
        (CheckTail(), SealedError()),
        (Follow(0), SILENT),
        (Trim(3), ReconfigurationNeededError("restarted")),
        (Reconfigure(CloseAsked()), InvalidSettingError("servers", "too few")),
        (offer(A, 0), DiskFullError("full")),
        (LogletTail(LOGLET), StorageError("no disk")),
        (Get(), ChainConflictError(1, 2)),
    ],
    ids=str,
)
def test_an_error_that_nobody_expects(story: Story, action: Action, error: VirtualLogError) -> None:
    """No contract names it for this action."""
    story.failed(action, error)

    assert story.broken() == BROKEN


@pytest.mark.parametrize("action", [Read(0, 1), Follow(0), LogletRead(LOGLET, 0, 1)], ids=str)
def test_damage_is_reported_only_where_there_is_some(story: Story, action: Any) -> None:
    """Bits must have changed before."""
    story.failed(action, DAMAGED)
    story.history.fault("bit rot 3: flipped later")
    assert story.broken() == BROKEN

    other = Story()
    other.history.fault("bit rot 3: flipped")
    other.failed(action, DAMAGED)
    assert other.broken() == set()


def test_an_append_to_a_log_that_somebody_wanted_closed(story: Story) -> None:
    """He need not have heard that it was."""
    story.failed(Reconfigure(CloseAsked()), SILENT)
    story.failed(Append((b"x",)), SealedError())

    assert story.broken() == set()


def test_a_crash_is_no_error_of_ours(story: Story) -> None:
    """Who is cancelled or dies has heard nothing."""
    with pytest.raises(KeyboardInterrupt), story.history.record("a", Get()):
        raise KeyboardInterrupt

    assert story.broken() == set()


def test_the_register_alone_is_judged_as_well() -> None:
    """The table has a row for each of its calls."""
    assert register_errors_as_documented in REGISTER_CHECKS
    assert {Get, Put} <= set(DOCUMENTED)
