"""Entries in the body of a request."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Sequence
from typing import Any, Final

from virtuallog_console.access.core.problem import Problem, ProblemError
from virtuallog_console.door.entry_json import BASE64, TEXT
from virtuallog_console.door.query import malformed

ENTRIES_MAX: Final = 4096
"""Entries of one request. They land side by side, in one batch."""
BODY_BYTES_MAX: Final = 12 << 20
"""Bytes of a body: one batch of 8 MiB in base64, and some room."""
OCTETS: Final = "application/octet-stream"
PLAIN: Final = "text/plain"
LINES: Final = "application/x-ndjson"
JSON: Final = "application/json"
MEDIA_TYPES: Final = (OCTETS, PLAIN, LINES, JSON)


def payloads_of(body: bytes, media_type: str) -> Sequence[bytes]:
    """The entries of a body.

    One for `application/octet-stream` and `text/plain`: the bytes as they are. One for each line of `application/x-ndjson`: its bytes,
    which are not parsed, without the end of the line. One for each item of the array of `application/json`: a string in base64, or an
    object with `base64` or `text`.

    Raises:
        ProblemError: the body is malformed, or has no entries or too many.
    """
    match media_type:
        case "application/x-ndjson":
            found = _lines(body)
        case "application/json":
            found = [_item(number, item) for number, item in enumerate(_array(body))]
        case _:
            return [body]
    if not found:
        raise malformed("the body", "", "at least one entry")
    return found


def _lines(body: bytes) -> list[bytes]:
    _check_count(body.count(b"\n"))
    lines = body.removesuffix(b"\n").split(b"\n") if body else []
    lines = [line.removesuffix(b"\r") for line in lines]
    if b"" in lines:
        raise malformed("the body", f"empty in line {lines.index(b'') + 1}", "lines that are not empty")
    return lines


def _array(body: bytes) -> list[Any]:
    try:
        items = json.loads(body)
    except (ValueError, RecursionError) as error:  # also for endless brackets
        raise malformed("the body", f"no JSON: {error}", "an array of entries") from error
    if not isinstance(items, list):
        raise malformed("the body", f"JSON, but a {type(items).__name__}", "an array of entries")
    _check_count(len(items))
    return items


def _item(number: int, item: Any) -> bytes:
    try:
        match item:
            case str():
                return b64decode(item, validate=True)
            case {"base64": str(value)} if len(item) == 1:
                return b64decode(value, validate=True)
            case {"text": str(value)} if len(item) == 1:
                return value.encode()
    except ValueError:  # bad base64; a lone half of a surrogate pair
        pass
    raise malformed(
        f"item {number} of the body", "of another form", f"base64 in quotes, or an object with {BASE64} or {TEXT}"
    )


def _check_count(count: int) -> None:
    if count > ENTRIES_MAX:
        raise ProblemError(
            Problem(
                status=413,
                kind="too-large",
                title="The request is too large",
                detail=f"the body has more than {ENTRIES_MAX} entries",
                remedy="nothing was done; send fewer entries at a time",
                more={"limit": ENTRIES_MAX},
            )
        )
