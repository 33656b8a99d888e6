"""Errors. Each class answers one question of the caller: what do I do now?

Errors cross the wire: every field is a string or an integer, and `encode`/`decode_untrusted` keep
class and fields. An operation that fails with `UnavailableError` has an *unknown* outcome: it may
have happened, or may still happen.
"""

from __future__ import annotations

import json
from typing import Final

import attrs


class VirtualLogError(Exception):
    """Base of every error that virtuallog raises on purpose."""


class RetryableError(VirtualLogError):
    """The same call may succeed later, unchanged."""


class TerminalError(VirtualLogError):
    """The same call will fail again; change something first."""


@attrs.define
class UnavailableError(RetryableError):
    """No answer in time, or not enough servers answered. Unknown outcome of a write: retry or
    settle it."""

    reason: str

    def __str__(self) -> str:
        return self.reason


def as_unavailable(error: RetryableError) -> UnavailableError:
    """Convert to `UnavailableError`, for callers with a contract that names only that.

    An example is a server that had no room and was not asked again.
    """
    return error if isinstance(error, UnavailableError) else UnavailableError(str(error))


@attrs.define
class OverloadedError(RetryableError):
    """A bounded queue is full; nothing has been done. Back off, then retry."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define
class UntrustedError(RetryableError):
    """One side of a connection could not prove its identity. Nothing has been done.

    To a protocol such a node is one that does not answer. It comes back once an operator has
    repaired the certificates.
    """

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define
class ReconfigurationNeededError(RetryableError):
    """The loglet can no longer take appends, but is not sealed: extend the chain.

    One cause is a restart of its sequencer.
    """

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define
class OutOfOrderError(RetryableError):
    """A batch of a session arrived before its predecessor; nothing has been done. Offer the predecessor first."""

    expected_sequence: int

    def __str__(self) -> str:
        return f"the session continues at sequence {self.expected_sequence}"


@attrs.define
class SealedError(VirtualLogError):
    """The loglet is sealed: refresh the chain. From a `VirtualLog`: the log was closed on purpose.

    An append that fails so has an unknown outcome until it has been looked for below the final
    tail.
    """

    reason: str = "sealed"
    refused: bool = False
    """True if this attempt was refused before anything was done, so it needs no search."""

    def __str__(self) -> str:
        return self.reason


@attrs.define
class ChainConflictError(VirtualLogError):
    """Another client's change of the register came first: read it and decide anew."""

    expected: int
    found: int

    def __str__(self) -> str:
        return f"the chain is at version {self.found}, not {self.expected}"


@attrs.define
class TrimmedError(TerminalError):
    """The requested place has been trimmed; `first` is the first one that has not."""

    first: int

    def __str__(self) -> str:
        return f"trimmed: the log starts at {self.first}"


@attrs.define
class BeyondTailError(TerminalError):
    """The requested place is at or past the tail."""

    position: int
    tail: int

    def __str__(self) -> str:
        return f"position {self.position} is past the tail {self.tail}"


@attrs.define
class TailMismatchError(TerminalError):
    """The tail is not where the caller of a conditional append expected it. Nothing was appended."""

    expected: int
    found: int

    def __str__(self) -> str:
        return f"the tail is {self.found}, not {self.expected}"


@attrs.define
class TooLargeError(TerminalError):
    """A value exceeds a limit. Refused when offered; nothing has been done."""

    what: str
    size: int
    limit: int

    def __str__(self) -> str:
        return f"{self.size} {self.what}, where {self.limit} is the limit"


@attrs.define
class MalformedError(TerminalError):
    """Malformed bytes: a frame, a batch, a message, or a file of another kind or version."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define
class UnsupportedError(TerminalError):
    """The other side does not know this method, or this loglet cannot do this."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define
class ForbiddenError(TerminalError):
    """The caller's certificate does not allow this call. Nothing has been done."""

    what: str
    caller: str
    needed: str
    """The least role that may make the call."""

    def __str__(self) -> str:
        return f"{self.what} needs the role {self.needed}; the caller is {self.caller}"


@attrs.define
class UnknownKindError(TerminalError):
    """No loglet provider of this name is installed."""

    kind: str
    known: str

    def __str__(self) -> str:
        return f"no loglet kind '{self.kind}' (known: {self.known})"


@attrs.define
class InvalidSettingError(TerminalError):
    """A setting is unknown, has a bad value, or asks for what the cluster cannot give."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@attrs.define
class WrongRecipientError(TerminalError):
    """The node that answered is not the intended one: another cluster, node, data directory or boot."""

    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"wrong {self.what}: expected {self.expected}, found {self.found}"


@attrs.define
class CorruptionError(TerminalError):
    """Stored bytes have changed. Stop using this copy; others may be whole."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define
class StorageError(TerminalError):
    """A disk failed a write or a sync. The component on it is stopped; unacknowledged writes are
    unknown."""

    reason: str

    def __str__(self) -> str:
        return self.reason


@attrs.define
class DiskFullError(RetryableError):
    """No room for more data; nothing has been done. Trims, seals and reads still work."""

    reason: str

    def __str__(self) -> str:
        return self.reason


WIRE_CLASSES: Final[dict[str, type[VirtualLogError]]] = {
    error_class.__name__: error_class
    for parent in (RetryableError, TerminalError, VirtualLogError)
    for error_class in parent.__subclasses__()
    if error_class not in {RetryableError, TerminalError}
}
"""Every error above that carries fields, by name. The names are wire format."""


def encode(error: VirtualLogError) -> str:
    """Encode an error as one line of text: class name, then the fields as JSON."""
    return f"{type(error).__name__} {json.dumps(attrs.asdict(error), sort_keys=True)}"  # type: ignore[arg-type]


def decode_untrusted(text: str) -> VirtualLogError:
    """Decode the text of `encode`. Any other text becomes an `UnavailableError` that quotes it."""
    name, _, packed = text.partition(" ")
    try:
        error_class, values = WIRE_CLASSES[name], json.loads(packed)
        fields = {field.name: str(field.type) for field in attrs.fields(error_class)}  # type: ignore[arg-type]
        if {key: type(value).__name__ for key, value in values.items()} == fields:
            return error_class(**values)
    except (KeyError, AttributeError, ValueError, RecursionError):  # RecursionError: a million opening brackets
        pass
    # Quote the end: peers send tracebacks, and the last line of one tells what happened.
    return UnavailableError(f"the other side failed: {text[-200:]}")
