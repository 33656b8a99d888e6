"""Our errors as exceptions of the RPC protocol.

The protocol has four types, which tell a stock client whether to retry. The reason carries our
whole error for clients that know us, as `virtuallog.contract.errors.encode` writes it.
"""

from __future__ import annotations

from typing import Final

from virtuallog.contract.errors import (
    DiskFullError,
    OverloadedError,
    TerminalError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
    decode_untrusted,
    encode,
)

_REASON_CHARACTERS_MAX: Final = 4096
"""Longest reason in characters. An error is a line of text; a longer one must not fill frames."""


def to_wire(error: VirtualLogError) -> tuple[str, str]:
    """Return reason and type of the exception that stands for `error`."""
    reason = encode(error)
    if len(reason) > _REASON_CHARACTERS_MAX:
        reason = encode(_shortened(error))
    return reason, _type_of(error)


def _type_of(error: VirtualLogError) -> str:
    match error:
        case OverloadedError() | DiskFullError():
            return "overloaded"
        case UnavailableError():
            return "disconnected"
        case UnsupportedError():
            return "unimplemented"
        case _:
            return "failed"


def _shortened(error: VirtualLogError) -> VirtualLogError:
    text = str(error)[: _REASON_CHARACTERS_MAX // 8]  # JSON writes some characters as six
    return UnsupportedError(text) if isinstance(error, TerminalError) else UnavailableError(text)


def from_wire_untrusted(reason: str, kind: str) -> VirtualLogError:
    """Return the error of `to_wire`. Text of another implementation is kept as it is."""
    error = decode_untrusted(reason)
    if not isinstance(error, UnavailableError) or reason.startswith(UnavailableError.__name__):
        return error
    if kind == "unimplemented":
        return UnsupportedError(reason[:_REASON_CHARACTERS_MAX])
    return OverloadedError(reason[:_REASON_CHARACTERS_MAX]) if kind == "overloaded" else error
