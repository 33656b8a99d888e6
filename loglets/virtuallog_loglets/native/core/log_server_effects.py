"""What the LogServer core asks its driver to do, and what the driver gives back."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import VirtualLogError
from virtuallog_loglets.native.core.durable_state import Change
from virtuallog_loglets.native.messages import NativeState, NativeStored
from virtuallog_loglets.wal.core.record import Address, WalRecord

Ticket: TypeAlias = Any
"""The driver's own: whom an answer is for."""


@attrs.define(kw_only=True, eq=False)  # not frozen: one for every store, and frozen classes take twice as long to make
class PendingAnswer:
    """What to answer, from the state at a place in the WAL, once everything up to there is durable."""

    ticket: Ticket
    segment: SegmentId | None
    """None: answered with None, which says that it is durable."""
    stop: int = 0
    """Of the wave to be stored; 0: answered with the `NativeState`."""
    repairs: bool = False
    seals: bool = False


@attrs.define(eq=False)
class PendingWrite:
    """One append to the WAL, on its way to the disk. Give it back to `persisted` or `failed`."""

    segment: SegmentId | None
    changes: tuple[Change, ...]
    questions: list[PendingAnswer]


@attrs.frozen
class NativePersist:
    """Append `records` to the WAL, behind all earlier ones, then call `persisted` (or `failed`) with `entry`."""

    entry: PendingWrite
    records: tuple[WalRecord, ...]
    essential: bool


@attrs.frozen
class NativeAnswer:
    """Send this to whoever asked. What it says is durable."""

    ticket: Ticket
    outcome: NativeState | NativeStored | VirtualLogError | None


@attrs.frozen
class DropBefore:
    """Nothing in the WAL before this address is needed any more."""

    address: Address


@attrs.frozen
class NativeFail:
    """The server cannot be trusted any more."""

    error: VirtualLogError


Effect: TypeAlias = NativePersist | NativeAnswer | DropBefore | NativeFail
