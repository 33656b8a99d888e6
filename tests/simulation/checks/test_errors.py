"""Errors that a client may receive: violations that the check must find, and histories that it must
accept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation.checks.told_history import LOGLET, A, Story, offer
from virtuallog.contract.errors import (
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
from virtuallog.testing.checker.actions import (
    Action,
    CloseChange,
    ExtendChange,
    LogAppend,
    LogCheckTail,
    LogFindTrimPoint,
    LogFollow,
    LogletRead,
    LogletTail,
    LogRead,
    LogTrim,
    Reconfigure,
    RegisterGet,
    RegisterPut,
)
from virtuallog_simulation.checks.history.errors import DOCUMENTED, register_errors_as_documented
from virtuallog_simulation.checks.history.register import REGISTER_CHECKS

BROKEN = {"errors as documented"}
SILENT = UnavailableError("no answer")
DAMAGED = CorruptionError("every copy is damaged")


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (LogAppend((b"x",)), SILENT),
        (LogAppend((b"x",), 3), TailMismatchError(3, 4)),
        (LogTrim(3), SILENT),
        (LogFindTrimPoint(), SILENT),
        (Reconfigure(ExtendChange("native")), InvalidSettingError("servers", "too few")),
        (offer(A, 0), OutOfOrderError(3)),
        (offer(A, 0), ReconfigurationNeededError("restarted")),
        (LogletTail(LOGLET), SealedError("dropped")),
        (RegisterPut(3, b"", 1), SILENT),
    ],
    ids=str,
)
def test_an_error_that_is_documented(story: Story, action: Action, error: VirtualLogError) -> None:
    """A client that knows the contract knows what to do."""
    story.failed(action, error)

    assert story.broken() == set()


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (LogAppend((b"x",)), TailMismatchError(3, 4)),
        (LogAppend((b"x",)), StorageError("no disk")),
        (LogAppend((b"x",)), SealedError("no client has closed it")),
        (LogCheckTail(), SealedError()),
        (LogFollow(0), SILENT),
        (LogTrim(3), ReconfigurationNeededError("restarted")),
        (Reconfigure(CloseChange()), InvalidSettingError("servers", "too few")),
        (offer(A, 0), DiskFullError("full")),
        (LogletTail(LOGLET), StorageError("no disk")),
        (RegisterGet(), ChainConflictError(1, 2)),
    ],
    ids=str,
)
def test_an_error_that_nobody_expects(story: Story, action: Action, error: VirtualLogError) -> None:
    """No contract names it for this action."""
    story.failed(action, error)

    assert story.broken() == BROKEN


@pytest.mark.parametrize("action", [LogRead(0, 1), LogFollow(0), LogletRead(LOGLET, 0, 1)], ids=str)
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
    """The operator need not have heard that it was closed."""
    story.failed(Reconfigure(CloseChange()), SILENT)
    story.failed(LogAppend((b"x",)), SealedError())

    assert story.broken() == set()


def test_a_crash_is_no_error_of_ours(story: Story) -> None:
    """A cancelled or dead client has heard nothing."""
    with pytest.raises(KeyboardInterrupt), story.history.record("a", RegisterGet()):
        raise KeyboardInterrupt

    assert story.broken() == set()


def test_the_register_alone_is_judged_as_well() -> None:
    """The table has a row for each of its calls."""
    assert register_errors_as_documented in REGISTER_CHECKS
    assert {RegisterGet, RegisterPut} <= set(DOCUMENTED)
