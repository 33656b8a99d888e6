"""Order-preserving encoding of the values of key columns: bytes compare as the values do, column by column.

    str, bytes   UTF-8 or the bytes, 00 as 00 FF, then 00 01
    int          128 + the number of bytes of its magnitude, big-endian; a negative one 128 - that number, and the complement
    bool         0 or 1
    float        8 bytes: the bits of an IEEE 754 double, all inverted if negative, else the sign only; -0.0 as 0.0

No encoding is the beginning of another one of the same type. So encodings of several columns are put together as they are,
and all keys that begin with given values are those that begin with their bytes.
"""

from __future__ import annotations

import math
import struct
from typing import Final

from virtuallog.contract.errors import InvalidSettingError

TYPES: Final = (str, int, bytes, bool, float)
"""Types of key columns."""
INT_BYTES_MAX: Final = 64
"""Bytes of the magnitude of an int in a key."""
_DOUBLE: Final = struct.Struct(">d")
_SIGN: Final = 1 << 63


def encode_value(kind: type, value: object) -> bytes:
    """Encode a value of a column of one of `TYPES`.

    Raises:
        InvalidSettingError: it is of another type, NaN, or too large.
    """
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, (int, float) if kind is float else kind):
        raise InvalidSettingError("key", f"{value!r} is not of type {kind.__name__}")
    if isinstance(value, str):
        return escape(value.encode("utf-8", "surrogatepass")) + b"\0\1"
    if isinstance(value, bytes):
        return escape(value) + b"\0\1"
    if kind is bool:
        return b"\1" if value else b"\0"
    if kind is float:
        return _encode_float(value)
    assert isinstance(value, int)
    return _encode_int(value)


def escape(blob: bytes) -> bytes:
    """Bytes that compare as `blob` does, also if 00 01 or nothing follows."""
    return blob.replace(b"\0", b"\0\xff")


def successor(prefix: bytes) -> bytes:
    """The least bytes above all that begin with `prefix`. Empty if there are none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else b""


def _encode_int(value: int) -> bytes:
    size = (abs(value).bit_length() + 7) // 8
    if size > INT_BYTES_MAX:
        raise InvalidSettingError("key", f"an int of {size} bytes, where {INT_BYTES_MAX} is the limit")
    if value >= 0:
        return bytes((128 + size,)) + value.to_bytes(size, "big")
    return bytes((128 - size,)) + (value + (1 << 8 * size) - 1).to_bytes(size, "big")


def _encode_float(value: object) -> bytes:
    try:
        double = float(value)  # type: ignore[arg-type]
    except OverflowError as error:
        raise InvalidSettingError("key", "an int that is no float") from error
    if math.isnan(double):
        raise InvalidSettingError("key", "NaN has no place in an order")
    bits = int.from_bytes(_DOUBLE.pack(double or 0.0), "big")
    return (bits ^ (2 * _SIGN - 1) if bits & _SIGN else bits | _SIGN).to_bytes(8, "big")
