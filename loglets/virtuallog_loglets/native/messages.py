"""What the parts of a NativeLoglet say to each other: clients, the sequencer, LogServers.

Offsets are places in the loglet `segment`. `known_tail` rides on almost every message: an offset below which everything
is globally committed, as far as the sender knows; the receiver takes the maximum. It says nothing about seals.
Delos, OSDI'20, section 4.2.1. docs/internals/protocols/native.md has the table of who sends what, and what is durable before.
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
    """One loglet on one LogServer, at one moment. All of it is durable, but for `known_tail`, which is merely true."""

    local_tail: int
    """First unwritten offset of this server. Never drops; offsets below may be missing here if they are committed."""
    sealed: bool
    known_tail: int
    trim: int
    """Everything below may be gone. Never above `known_tail`; may be above `local_tail` of a server that lags."""
    full: bool = False
    """The disk has no room for the WAL's next segment: once this one is full, no more entries are taken. Told in the answer to
    `NativeGetState` only."""


@attrs.frozen(kw_only=True)
class NativeStored:
    """Whether a server took a wave, as of the moment when everything that reached the server before it was durable."""

    accepted: bool
    """True: every offset below `local_tail` is durable here or globally committed, and the server was not sealed when
    the wave's turn came (a repair is accepted by a sealed server, too)."""
    sealed: bool
    local_tail: int
    known_tail: int


@attrs.frozen(kw_only=True)
class NativeWaves:
    """Consecutive waves that a server holds. The first contains the offset asked for, if there is one."""

    waves: tuple[bytes, ...]
    """None at all proves nothing: this server may lack what others have. Below `state.trim` it says trimmed."""
    state: NativeState


@attrs.frozen(kw_only=True)
class NativeAppended:
    """The batch is committed, and so is everything before it."""

    first: int
    """Offset of its first entry; the others follow."""
    known_tail: int


@attrs.frozen(kw_only=True)
class NativeStore(Request[NativeStored]):
    """Sequencer to LogServer: make one wave durable, unless sealed or too early."""

    segment: SegmentId
    wave: bytes
    known_tail: int


@attrs.frozen(kw_only=True)
class NativeSeal(Request[NativeState]):
    """Client to LogServer: take no more stores, for ever. The answer covers every store that was or will be accepted."""

    segment: SegmentId
    rebuilds: bool = False
    """From whoever copies the loglet, which is closed, to this server. One that joined when the loglet was there already
    is not sealed by that: it says how far the copy has come, and speaks for the loglet once the copy is `whole`."""
    whole: bool = False
    """With `rebuilds`: all below the stop is here, but for what is trimmed, and has been read back."""


@attrs.frozen(kw_only=True)
class NativeGetState(Question[NativeState]):
    """Client or sequencer to LogServer."""

    segment: SegmentId


@attrs.frozen(kw_only=True)
class NativeWaitTail(Question[NativeState]):
    """Client to LogServer: answer once the local tail or the known tail is past `past`, or the loglet is sealed, or
    some seconds have gone by."""

    segment: SegmentId
    past: int
    known_tail: int


@attrs.frozen(kw_only=True)
class NativeRepair(Request[NativeStored]):
    """Client to LogServer: complete these waves, ascending, although the loglet is sealed (it need not be)."""

    segment: SegmentId
    waves: tuple[bytes, ...]
    known_tail: int
    rebuilds: bool = False
    """See `NativeSeal.rebuilds`. A repair that begins at the known tail would leave a hole in a copy that is not whole."""


@attrs.frozen(kw_only=True)
class NativeReadWaves(Question[NativeWaves]):
    """Client to LogServer: durable waves from the one that holds `start`, while they begin below `stop`. At least
    one, then as many as fit in about `max_bytes`. Answered with CorruptionError if the copy here is damaged."""

    segment: SegmentId
    start: int
    stop: int
    max_bytes: int


@attrs.frozen(kw_only=True)
class NativeTrim(Request[NativeState]):
    """Client to LogServer: drop what lies below `offset`, but nothing at or past the known tail."""

    segment: SegmentId
    offset: int
    known_tail: int


@attrs.frozen(kw_only=True)
class NativeAppend(Request[NativeAppended]):
    """Client to sequencer: order and commit one batch. Errors are those of `Loglet.append`.

    A session that the sequencer does not know, or knows no longer, and that does not say `opens` is told
    `OutOfOrderError(expected_sequence=0)`: offer the oldest batch that is not settled, with `opens`.
    """

    segment: SegmentId
    batch: bytes
    opens: bool
    expected_tail: int = NO_EXPECTATION
