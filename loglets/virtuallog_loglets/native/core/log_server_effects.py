"""Effects of the log server core, and the objects that its driver passes back."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog_loglets.native.core.durable_state import Change
from virtuallog_loglets.native.core.live_loglet import LiveLoglet
from virtuallog_loglets.native.messages import NativeState, NativeStored
from virtuallog_loglets.wal.core.record import Address, WalRecord

Ticket: TypeAlias = Any
"""Opaque handle of the driver that identifies the receiver of an answer."""


# not frozen, like the next two: made for every store, and frozen classes take twice as long to make
@attrs.define(kw_only=True, eq=False)
class PendingAnswer:
    """Answer to make from the state at a position in the WAL, once everything up to there is durable."""

    ticket: Ticket
    loglet: LiveLoglet | None
    """Loglet of the request. If None, the answer is None, which means: durable."""
    stop: int = 0
    """One past the last offset of the wave to be stored. If 0, the answer is the `NativeState`."""
    repairs: bool = False
    seals: bool = False


@attrs.define(eq=False)
class NativePersist:
    """Append `records` to the WAL behind all earlier ones, then call `persisted` (or `failed`) with this."""

    loglet: LiveLoglet | None
    """Loglet that the changes concern; None if they drop loglets."""
    changes: tuple[Change, ...]
    records: tuple[WalRecord, ...]
    """Encoded changes."""
    questions: list[PendingAnswer]
    """Answers that rest on these changes, and on all before them."""
    essential: bool


@attrs.define
class NativeAnswer:
    """Send this answer to the requester. What it says is durable."""

    ticket: Ticket
    outcome: NativeState | NativeStored | VirtualLogError | None


@attrs.frozen
class DropBefore:
    """Nothing in the WAL before this address is needed any more."""

    address: Address


@attrs.frozen
class NativeFail:
    """Stop the server: it can no longer be trusted."""

    error: VirtualLogError


Effect: TypeAlias = NativePersist | NativeAnswer | DropBefore | NativeFail
