"""Entries and gaps as JSON."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from virtuallog.contract.types import Data, Gap, Record

BASE64: Final = "base64"
TEXT: Final = "text"
ENCODINGS: Final = (BASE64, TEXT)
"""Encodings of payloads that a caller may ask for. With `text` payloads that are no UTF-8 come in `base64` all the same."""


Hides: TypeAlias = Callable[[bytes], bool]
"""True for a payload whose bytes this console does not give out."""
WITHHELD: Final = "an entry of a database, whose values this console masks"


def hides_nothing(_: bytes) -> bool:
    """Give out all payloads."""
    return False


def plain_record(record: Record, encoding: str, hides: Hides = hides_nothing) -> dict[str, Any]:
    """The members of one entry or gap."""
    if isinstance(record, Gap):
        return {"from": record.start, "to": record.stop, "kind": record.kind.value}
    if hides(record.payload):
        withheld = {"withheld": WITHHELD, "bytes": len(record.payload)}
        return {"position": record.position, "time_ms": record.time_ms, **withheld}
    member, value = _payload(record.payload, encoding)
    return {"position": record.position, "time_ms": record.time_ms, member: value}


def spell_record(record: Record, encoding: str, hides: Hides = hides_nothing) -> str:
    """One entry or gap as JSON on one line."""
    if isinstance(record, Data) and not hides(record.payload):
        member, value = _payload(record.payload, encoding)
        spelled = f'"{value}"' if member == BASE64 else json.dumps(value)
        return f'{{"position": {record.position}, "time_ms": {record.time_ms}, "{member}": {spelled}}}'
    return json.dumps(plain_record(record, encoding, hides))


def _payload(payload: bytes, encoding: str) -> tuple[str, str]:
    if encoding == TEXT:
        try:
            return TEXT, payload.decode()
        except UnicodeDecodeError:
            pass
    return BASE64, b64encode(payload).decode("ascii")
