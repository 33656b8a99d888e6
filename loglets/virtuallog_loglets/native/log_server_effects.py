"""What the LogServer core asks its driver to do, and what the driver gives back."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from virtuallog.chain import SegmentId
from virtuallog.errors import VirtualLogError
from virtuallog_loglets.native.durable import Change
from virtuallog_loglets.native.messages import State, Stored
from virtuallog_loglets.wal.record import Address, Record

Ticket: TypeAlias = Any
"""The driver's own: whom an answer is for."""


@attrs.define(kw_only=True, eq=False)  # not frozen: one for every store, and frozen classes take twice as long to make
class Question:
    """What to answer, from the state at a place in the WAL, once everything up to there is durable."""

    ticket: Ticket
    segment: SegmentId | None
    """None: answered with None, which says that it is durable."""
    stop: int = 0
    """Of the wave to be stored; 0: answered with the `State`."""
    repairs: bool = False
    seals: bool = False


@attrs.define(eq=False)
class Entry:
    """One append to the WAL, on its way to the disk. Give it back to `persisted` or `failed`."""

    segment: SegmentId | None
    changes: tuple[Change, ...]
    questions: list[Question]


@attrs.frozen
class Persist:
    """Append `records` to the WAL, behind all earlier ones, then call `persisted` (or `failed`) with `entry`."""

    entry: Entry
    records: tuple[Record, ...]
    essential: bool


@attrs.frozen
class Answer:
    """Send this to whoever asked. What it says is durable."""

    ticket: Ticket
    outcome: State | Stored | VirtualLogError | None


@attrs.frozen
class DropBefore:
    """Nothing in the WAL before this address is needed any more."""

    address: Address


@attrs.frozen
class Fail:
    """The server cannot be trusted any more."""

    error: VirtualLogError


Effect: TypeAlias = Persist | Answer | DropBefore | Fail
