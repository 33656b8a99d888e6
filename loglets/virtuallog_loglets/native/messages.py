"""Messages of a NativeLoglet between clients, the sequencer and log servers.

Offsets are positions in the loglet `segment`. Almost every message carries `known_tail`: an offset
below which everything is globally committed, as far as the sender knows. The receiver takes the
maximum. It says nothing about seals. Delos, OSDI'20, section 4.2.1. docs/internals/protocols/native.md has
the table of senders and of the writes that are durable before each answer.
"""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Question, Request

NO_EXPECTATION: Final = -1
"""`NativeAppend.expected_tail` of an unconditional append."""


@attrs.frozen(kw_only=True)
class NativeState:
    """State of one loglet on one log server at one moment. All of it is durable except
    `known_tail`, which is merely true."""

    local_tail: int
    """First unwritten offset of this server. It never drops. Committed offsets below it may be
    missing here."""
    sealed: bool
    known_tail: int
    trim: int
    """Everything below may be gone. Never above `known_tail`; may be above `local_tail` of a server
    that lags."""
    full: bool = False
    """True if the disk has no room for the WAL's next segment: once the current one is full, the
    server takes no more entries. Set in the answer to `NativeGetState` only."""


@attrs.frozen(kw_only=True)
class NativeStored:
    """Outcome of a store or a repair, at the moment when everything that reached the server before
    it was durable."""

    accepted: bool
    """True if every offset below `local_tail` is durable here or globally committed, and the server
    was not sealed when the wave's turn came. A sealed server accepts repairs, too."""
    sealed: bool
    local_tail: int
    known_tail: int


@attrs.frozen(kw_only=True)
class NativeWaves:
    """Consecutive waves that a server holds. If there are any, the first contains the requested
    offset."""

    waves: tuple[bytes, ...]
    """Encoded waves. An empty tuple proves nothing: this server may lack what others have. Below
    `state.trim` it means trimmed."""
    state: NativeState


@attrs.frozen(kw_only=True)
class NativeAppended:
    """Acknowledgement: the batch and everything before it are committed."""

    first: int
    """Offset of the batch's first entry; the others follow."""
    known_tail: int


@attrs.frozen(kw_only=True)
class NativeStore(Request[NativeStored]):
    """Sequencer to log server: make one wave durable, unless the loglet is sealed or the wave is
    too early."""

    segment: SegmentId
    wave: bytes
    known_tail: int


@attrs.frozen(kw_only=True)
class NativeSeal(Request[NativeState]):
    """Client to log server: accept no more stores, for ever. The answer covers every store that was
    or will be accepted."""

    segment: SegmentId
    rebuilds: bool = False
    """True if the sender copies the closed loglet to this server. A server that joined after the
    loglet was created is not sealed by such a request. It answers how far the copy has come, and
    speaks for the loglet once the copy is `whole`."""
    whole: bool = False
    """With `rebuilds`: everything below the stop that is not trimmed is here and has been read
    back."""


@attrs.frozen(kw_only=True)
class NativeGetState(Question[NativeState]):
    """Client or sequencer to log server: return the state of the loglet."""

    segment: SegmentId


@attrs.frozen(kw_only=True)
class NativeWaitTail(Question[NativeState]):
    """Client to log server: answer once the local tail or the known tail is past `past`, the loglet
    is sealed, or some seconds have gone by."""

    segment: SegmentId
    past: int
    known_tail: int


@attrs.frozen(kw_only=True)
class NativeRepair(Request[NativeStored]):
    """Client to log server: store these waves, ascending, even if the loglet is sealed."""

    segment: SegmentId
    waves: tuple[bytes, ...]
    known_tail: int
    rebuilds: bool = False
    """See `NativeSeal.rebuilds`. A repair that begins at the known tail would leave a hole in a
    copy that is not whole."""


@attrs.frozen(kw_only=True)
class NativeReadWaves(Question[NativeWaves]):
    """Client to log server: return durable waves, from the one that holds `start`, while they begin
    below `stop`.

    The answer has at least one wave, then as many as fit in about `max_bytes`. It is
    CorruptionError if the copy here is damaged.
    """

    segment: SegmentId
    start: int
    stop: int
    max_bytes: int


@attrs.frozen(kw_only=True)
class NativeTrim(Request[NativeState]):
    """Client to log server: drop everything below `offset`, but nothing at or past the known tail."""

    segment: SegmentId
    offset: int
    known_tail: int


@attrs.frozen(kw_only=True)
class NativeAppend(Request[NativeAppended]):
    """Client to sequencer: order and commit one batch. Errors are those of `Loglet.append`.

    If the sequencer does not know the session (or no longer) and `opens` is false, it answers
    `OutOfOrderError(expected_sequence=0)`. The client then offers its oldest unsettled batch with
    `opens`.
    """

    segment: SegmentId
    batch: bytes
    opens: bool
    expected_tail: int = NO_EXPECTATION
