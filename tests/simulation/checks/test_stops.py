"""Why something stopped for good: what the check must object to, and what it must let pass."""

from __future__ import annotations

import pytest

from tests.simulation.checks.told_history import Story
from virtuallog.contract.errors import (
    CorruptionError,
    DiskFullError,
    MalformedError,
    StorageError,
    UnavailableError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog_simulation.world.stop_reasons import refuses_rot, stopped_for_a_reason

WRONG = WrongRecipientError("cluster", "a", "b")


def objects(story: Story, error: VirtualLogError, *happened: str) -> bool:
    return bool([*stopped_for_a_reason(story.history, "program of 1.1", error, happened)])


@pytest.mark.parametrize(
    ("error", "happened"),
    [
        (StorageError("no sync"), "sync error"),
        (StorageError("no read"), "store read error"),
        (DiskFullError("no room"), "disk full"),
        (CorruptionError("damaged"), "bit flipped"),
        (MalformedError("another magic number"), "store bit flipped"),
        (WRONG, "wiped"),
        (WRONG, "replacement asked for"),
    ],
)
def test_disks_are_a_reason(story: Story, error: VirtualLogError, happened: str) -> None:
    """The fault fits the error; without it the same error is a bug that looks like a disk's."""
    assert not objects(story, error, "unsynced torn", happened)
    assert objects(story, error, "unsynced torn")


@pytest.mark.parametrize("error", [UnavailableError("no answer"), VirtualLogError()])
def test_nothing_else_is_a_reason(story: Story, error: VirtualLogError) -> None:
    """No other error is excused by faults of the disks."""
    assert objects(story, error, "sync error", "bit flipped", "wiped")


def test_a_failed_sync_damages_nothing(story: Story) -> None:
    """Durable bytes are as they were."""
    assert objects(story, CorruptionError("damaged"), "sync error")


def test_rot_that_was_noticed() -> None:
    """A read that fails is excused where there was rot, and not elsewhere."""
    assert refuses_rot(CorruptionError("damaged"), ["bit flipped"])
    assert not refuses_rot(CorruptionError("damaged"), ["sync error"])
    assert not refuses_rot(StorageError("no sync"), ["bit flipped"])
