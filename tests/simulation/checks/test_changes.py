"""Changes of the register: what the check must object to, and what it must let pass."""

from __future__ import annotations

import pytest

from tests.simulation.checks.told_history import FIRST, SECOND, Story, put, register
from virtuallog.contract import chain
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.register import decode_untrusted
from virtuallog.contract.types import LogletOffset, NodeId, Open, Sealed
from virtuallog.testing.checker.actions import (
    CloseChange,
    ExtendChange,
    LogCheckTail,
    LogletSeal,
    LogletTail,
    LogTrim,
    MembersChange,
    ModifyChange,
    Reconfigure,
    RegisterPut,
    RequestedChange,
    TruncateChange,
)

OLD = SECOND.segments[0]
THIRD = chain.extend(SECOND, 9, "native", b"", 3)
COPIED = chain.modify(SECOND, OLD.id, "copy", b"", 3, LogletOffset(7))
SHORT = chain.truncate(SECOND, 5)
CLOSED = chain.close(SECOND, 9)

EMPTY = chain.close(FIRST, 0)
"""A log that was closed before its first use: its only segment is empty."""

BROKEN = {"changes take effect"}


def members(*nodes: int) -> bytes:
    """The register of `SECOND` that these nodes decide, one version later."""
    changed = decode_untrusted(register(SECOND)).with_members(tuple(NodeId(node) for node in nodes))
    assert changed is not None
    return changed.encode()


def changed(story: Story, asked: RequestedChange, value: bytes) -> None:
    """Record a change of `SECOND` that an operator asks for; its answer is version 3."""
    with story.during(Reconfigure(asked), "operator") as returned:
        end = decode_untrusted(value).chain.segments[-1]
        if end.id != SECOND.last.id or end.stop is not None:
            story.happened(LogletSeal(SECOND.last.id), None, "operator")
            story.happened(LogletTail(SECOND.last.id), Sealed(LogletOffset(4)), "operator")
        story.happened(RegisterPut(3, value, 3), 3, "operator")
        returned(3)


@pytest.fixture
def begun(story: Story) -> Story:
    """The chain is `SECOND`."""
    story.happened(put(FIRST), 1)
    story.became(SECOND)
    return story


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        (ExtendChange("native"), register(THIRD)),
        (ModifyChange(OLD.id, "copy", 7), register(COPIED)),
        (CloseChange(), register(CLOSED)),
        (MembersChange((NodeId(2), NodeId(1))), members(1, 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_change_that_is_made(begun: Story, asked: RequestedChange, value: bytes) -> None:
    """The version shows it."""
    changed(begun, asked, value)

    assert begun.broken() == set()


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        (ExtendChange("memory"), register(THIRD)),
        (ExtendChange("memory"), members(1)),
        (ExtendChange("native"), register(CLOSED)),
        (ModifyChange(OLD.id, "copy", 0), register(COPIED)),
        (ModifyChange(OLD.id, "native", 7), register(COPIED)),
        (ModifyChange(OLD.id, "memory", 0), register(CLOSED)),
        (CloseChange(), register(THIRD)),
        (MembersChange((NodeId(1), NodeId(3))), members(1, 2)),
    ],
    ids=str,
)
def test_a_change_that_is_not_made(begun: Story, asked: RequestedChange, value: bytes) -> None:
    """Another kind, another offset, another segment, open, other members."""
    changed(begun, asked, value)

    assert begun.broken() == BROKEN


@pytest.mark.parametrize(("asked"), [ExtendChange("memory"), ModifyChange(FIRST.last.id, "memory", 0)], ids=str)
def test_a_change_that_others_had_made_before(begun: Story, asked: RequestedChange) -> None:
    """The segment was there when this one began."""
    begun.happened(Reconfigure(asked), 2)

    assert begun.broken() == BROKEN


def test_a_close_and_members_that_others_have_made(begun: Story) -> None:
    """These may find it done."""
    begun.became(CLOSED)
    begun.happened(Reconfigure(CloseChange()), 3)
    begun.happened(Reconfigure(MembersChange(())), 3)

    assert begun.broken() == set()


def test_a_version_that_nobody_knows(begun: Story) -> None:
    """A change may not return a version that no client knew to be decided when it returned."""
    begun.happened(Reconfigure(CloseChange()), 3)
    begun.became(CLOSED)

    assert begun.broken() == BROKEN


def test_a_change_of_unknown_outcome(begun: Story) -> None:
    """Nothing is said of it."""
    begun.failed(Reconfigure(ExtendChange("native")), UnavailableError("no answer"))

    assert begun.broken() == set()


@pytest.mark.parametrize(("trimmed", "expected"), [(4, set()), (5, BROKEN)])
def test_a_truncate_that_leaves_what_is_trimmed(begun: Story, trimmed: int, expected: set[str]) -> None:
    """The first segment ends at 5."""
    begun.happened(LogCheckTail(), Open(9))
    begun.happened(LogTrim(trimmed), trimmed)
    begun.happened(Reconfigure(TruncateChange()), 2)

    assert begun.broken() == expected


def test_a_truncate_that_drops_what_is_trimmed(begun: Story) -> None:
    """The chain starts where the trim ended."""
    begun.happened(LogCheckTail(), Open(9))
    begun.happened(LogTrim(5), 5)
    assert SHORT is not None
    changed(begun, TruncateChange(), register(SHORT))

    assert begun.broken() == set()


def test_a_copy_may_take_the_place_of_an_empty_segment(story: Story) -> None:
    """It owns no position, so no reader finds it by one."""
    story.happened(put(FIRST), 1)
    story.became(EMPTY)
    copied = chain.modify(EMPTY, EMPTY.last.id, "copy", b"", 3, LogletOffset(0))
    with story.during(Reconfigure(ModifyChange(EMPTY.last.id, "copy", 0)), "operator") as returned:
        story.happened(RegisterPut(3, register(copied), 3), 3, "operator")
        returned(3)

    assert story.broken() == set()
