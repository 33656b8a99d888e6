"""Values as text: UTF-8, JSON or hexadecimal, cut to a bound."""

from __future__ import annotations

import codecs
import enum
import json
import re
from typing import Final

import attrs

PREVIEW_BYTES: Final = 4096
"""Bytes of a value in a list."""
PREVIEW_BYTES_MAX: Final = 1 << 20
"""Most bytes of one value that a viewer may ask for: as large as a znode."""
JSON_BYTES_MAX: Final = 64 << 10
"""Longest value that is parsed to see if it is JSON, some milliseconds."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_OPENERS: Final = (b"{", b"[", b'"')
"""First bytes of values that are taken for JSON without being asked to. A number is shown as text."""


class Decoder(enum.Enum):
    """Reading of the bytes of a value."""

    AUTO = "auto"
    """JSON if it is an object, a list or a string; text if it is printable UTF-8; else hexadecimal."""
    TEXT = "text"
    """UTF-8, with escapes for other bytes."""
    JSON = "json"
    """As text, once it has been parsed. If it is no JSON, as `AUTO`."""
    HEX = "hex"


@attrs.frozen(kw_only=True)
class Value:
    """A value as far as it is shown."""

    size: int
    """Bytes of the whole value."""
    decoder: Decoder = Decoder.TEXT
    """Reading that was used; never `AUTO`."""
    text: str = ""
    is_cut: bool = False
    """True if `text` is not all of it."""
    withheld: str = ""
    """Reason why it is not shown. Empty if it is."""


def withhold(size: int, reason: str) -> Value:
    """A value of which only the size is shown."""
    return Value(size=size, is_cut=size > 0, withheld=reason)


def decode(payload: bytes, decoder: Decoder = Decoder.AUTO, max_bytes: int = PREVIEW_BYTES) -> Value:
    """Decode the first bytes of a value.

    Args:
        payload: the value.
        decoder: the reading that the viewer chose.
        max_bytes: bytes that are shown, at most `PREVIEW_BYTES_MAX`.
    """
    shown = payload[: max(0, min(max_bytes, PREVIEW_BYTES_MAX))]
    is_cut = len(shown) < len(payload)
    chosen = _choose(payload, shown, decoder, is_cut)
    text = shown.hex() if chosen is Decoder.HEX else _text(shown, is_cut, "backslashreplace")
    return Value(size=len(payload), decoder=chosen, text=text, is_cut=is_cut)


def readable(text: str) -> str:
    """A text that can be encoded: halves of surrogate pairs become escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _choose(payload: bytes, shown: bytes, decoder: Decoder, is_cut: bool) -> Decoder:
    if decoder in {Decoder.TEXT, Decoder.HEX}:
        return decoder
    if (decoder is Decoder.JSON or payload.lstrip()[:1] in _OPENERS) and _is_json(payload):
        return Decoder.JSON
    try:
        text = _text(shown, is_cut, "strict")
    except UnicodeDecodeError:
        return Decoder.HEX
    return Decoder.HEX if _CONTROL.search(text) else Decoder.TEXT


def _is_json(payload: bytes) -> bool:
    if len(payload) > JSON_BYTES_MAX:
        return False
    try:
        json.loads(payload.decode())
    except (ValueError, RecursionError):
        return False
    return True


def _text(shown: bytes, is_cut: bool, errors: str) -> str:
    """The bytes as UTF-8. A character that the cut goes through is left out."""
    return codecs.getincrementaldecoder("utf-8")(errors).decode(shown, final=not is_cut)
