"""Actions in a history: the operations that a client can ask of a log, of one loglet, or of the register.

Each class documents its result. `nothing_done` is the one place that knows which errors promise
that an operation did not and will not happen; after any other error its outcome is unknown.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import attrs

from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    BeyondTailError,
    ChainConflictError,
    InvalidSettingError,
    SealedError,
    TailMismatchError,
    TooLargeError,
    TrimmedError,
    UnknownKindError,
    VirtualLogError,
)
from virtuallog.contract.types import NodeId

# -- of a log -----------------------------------------------------------------------------------------------------


@attrs.frozen
class LogAppend:
    """Entries that land side by side; no two appends of a history offer equal payloads. Result: the positions, a range."""

    payloads: tuple[bytes, ...]
    expected_tail: int | None = None
    """Position of a conditional append: exactly there, or not at all. None for an unconditional one."""


@attrs.frozen
class LogCheckTail:
    """Result: a `Tail`."""


@attrs.frozen
class LogRead:
    """Result: the records from `start` on, a list. A tailing reader makes one of these of
    everything it sees."""

    start: int
    stop: int


@attrs.frozen
class LogFollow:
    """A reader follows the log from `start` on. It is handed the records of its client's `LogRead`s
    meanwhile.

    Result: None, once it stops by itself. It ends without a result if it fails, is cancelled or
    dies.
    """

    start: int


@attrs.frozen
class LogTrim:
    """Result: the effective trim point."""

    position: int


@attrs.frozen
class LogFindTrimPoint:
    """Result: the first position that has not been trimmed."""


@attrs.frozen
class ExtendChange:
    """Continue on a new loglet of this kind."""

    kind: str
    settings: str = ""
    """Settings as an operator writes them."""


@attrs.frozen
class ModifyChange:
    """Put another loglet under a closed segment; the segment begins at the loglet's offset `base`."""

    segment: SegmentId
    kind: str
    base: int


@attrs.frozen
class TruncateChange:
    """Drop the segments that are trimmed as a whole."""


@attrs.frozen
class CloseChange:
    """Close the log on purpose."""


@attrs.frozen
class MembersChange:
    """Let these nodes decide the register."""

    members: tuple[NodeId, ...]
    seen: tuple[NodeId, ...] = ()
    """The members to be replaced, if the operator names them."""


RequestedChange: TypeAlias = ExtendChange | ModifyChange | TruncateChange | CloseChange | MembersChange


@attrs.frozen
class Reconfigure:
    """A change of the register. Result: the version in which it is made."""

    change: RequestedChange


# -- of one loglet ------------------------------------------------------------------------------------------------


def _brief(batch: Batch) -> str:
    return f"{batch.session.hex()[:8]}#{batch.first_sequence}+{batch.count}"


@attrs.frozen
class LogletAppend:
    """One batch offered to one loglet. Result: its places, a range."""

    segment: SegmentId
    batch: Batch = attrs.field(repr=_brief)
    expected_tail: int | None = None


@attrs.frozen
class LogletTail:
    """`check_tail` of a loglet. Result: a `Tail`."""

    segment: SegmentId
    lagging: bool = False
    """True for a `wait_tail`: an `Open` result may be old."""
    of_copy: bool = False
    """True for a loglet that was moved before (`LogletCopy`)."""


@attrs.frozen
class LogletCopy:
    """`replicate` of a closed loglet, or of a part of one, up to the stop of its segment. Result: None."""

    segment: SegmentId
    stop: int


@attrs.frozen
class LogletSeal:
    """`seal` of a loglet. Result: None."""

    segment: SegmentId


@attrs.frozen
class LogletRead:
    """`read` of a loglet. Result: a sequence of `Placed`."""

    segment: SegmentId
    start: int
    stop: int


@attrs.frozen
class LogletTrim:
    """`prefix_trim` of a loglet. Result: the effective trim point."""

    segment: SegmentId
    offset: int


# -- of the register ----------------------------------------------------------------------------------------------


@attrs.frozen
class RegisterGet:
    """A client read the register. Result: (version, value)."""


@attrs.frozen
class RegisterPut:
    """A client put a value of its own, as this version. Result: the version."""

    version: int
    value: bytes = attrs.field(repr=False)
    attempt: int = attrs.field(default=0, repr=hex)


LogAction: TypeAlias = LogAppend | LogCheckTail | LogRead | LogFollow | LogTrim | LogFindTrimPoint | Reconfigure
LogletAction: TypeAlias = LogletAppend | LogletTail | LogletSeal | LogletRead | LogletTrim
Action: TypeAlias = LogAction | LogletAction | RegisterGet | RegisterPut

_NOTHING_DONE: Final = (
    BeyondTailError,
    ChainConflictError,
    InvalidSettingError,
    TailMismatchError,
    TooLargeError,
    TrimmedError,
    UnknownKindError,
)


def nothing_done(action: object, error: VirtualLogError) -> bool:
    """Return True if `error` promises that `action` has had no effect and will have none.

    A temporary refusal (a full queue, a batch too early) leaves the outcome unknown: a call may be
    executed twice, and the other copy may have come at a better moment.
    """
    if isinstance(error, SealedError):
        # To a log it says that the entry has been looked for; to a loglet, only that no server may
        # acknowledge it.
        return isinstance(action, LogAppend) or error.refused
    return isinstance(error, _NOTHING_DONE)
