"""The first bytes of a connection, and the decision that they allow. Pure.

Clients of TLS and of HTTP speak first, and send a whole hello or a whole head in one or two segments. So a server can tell most connections
of strangers by bytes that are still in the socket, before it makes anything for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum, auto
from functools import partial
from typing import Final

import attrs

_HANDSHAKE_OF_TLS: Final = b"\x16\x03"
"""Type of a record with a handshake, and the major version, of SSL 3 and all versions of TLS."""
_RECORD_HEAD_BYTES: Final = 5
_RECORD_BYTES_MAX: Final = 1 << 14
"""Most bytes of a plain record (RFC 8446, section 5.1)."""
_METHOD: Final = re.compile(rb"[A-Z][A-Z-]{0,31}( |\Z)")
"""A method of HTTP, which ends with a space unless the rest has yet to come."""
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_NO_HTTP: Final = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\nthis is no request of HTTP/1.1\n"
)
_TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"
    b"the head of a request has at most %d bytes\n"
)


class OpeningVerdict(Enum):
    """Decision about a connection."""

    SERVE = auto()
    """The first request, or flight, is whole."""
    WAIT = auto()
    """It may become one."""
    REFUSE = auto()
    """It never will."""
    REFUSE_SIZE = auto()
    """It is too large."""


@attrs.frozen(kw_only=True)
class FirstBytes:
    """The first bytes that a server takes."""

    judge: Callable[[bytes], OpeningVerdict]
    """Decides by the bytes that have come, `bytes_max` of them at most."""
    bytes_max: int
    """Bytes that are enough for a decision other than to wait."""
    seconds: float
    """Time for the whole of it."""
    refusals: Mapping[OpeningVerdict, bytes]
    """Answers to other bytes."""


def opening_of_http(head_bytes: int, seconds: float) -> FirstBytes:
    """A head of HTTP/1.1 with `head_bytes` at most, whole after `seconds`."""
    return FirstBytes(
        judge=partial(_judge_http, head_bytes),
        bytes_max=head_bytes + 1,
        seconds=seconds,
        refusals={OpeningVerdict.REFUSE: _NO_HTTP, OpeningVerdict.REFUSE_SIZE: _TOO_LARGE % head_bytes},
    )


def opening_of_tls(seconds: float, refusal: bytes) -> FirstBytes:
    """The first record of a client's hello, whole after `seconds`. `refusal` is the answer to other bytes."""
    return FirstBytes(
        judge=_judge_tls,
        bytes_max=_RECORD_HEAD_BYTES + _RECORD_BYTES_MAX,
        seconds=seconds,
        refusals={OpeningVerdict.REFUSE: refusal},
    )


def _judge_http(head_bytes: int, begin: bytes) -> OpeningVerdict:
    head = begin.lstrip(b"\r\n")  # some clients send an empty line behind a body
    if head and _METHOD.match(head) is None:
        return OpeningVerdict.REFUSE
    if _END_OF_HEAD.search(head):
        return OpeningVerdict.SERVE
    return OpeningVerdict.REFUSE_SIZE if len(begin) > head_bytes else OpeningVerdict.WAIT


def _judge_tls(begin: bytes) -> OpeningVerdict:
    if not _HANDSHAKE_OF_TLS.startswith(begin[:2]):
        return OpeningVerdict.REFUSE
    if len(begin) < _RECORD_HEAD_BYTES:
        return OpeningVerdict.WAIT
    size = int.from_bytes(begin[3:_RECORD_HEAD_BYTES])
    if not 0 < size <= _RECORD_BYTES_MAX:
        return OpeningVerdict.REFUSE
    return OpeningVerdict.SERVE if len(begin) >= _RECORD_HEAD_BYTES + size else OpeningVerdict.WAIT
