"""Audit records: entries by which a console says who has changed the cluster (docs/howto/console.md).

A program that reads the log raw skips them, or reads them:

    for record in placed.records():
        if is_audit_record(record.payload):
            continue

Durable format, version 1: the bytes `virtuallog-audit/1` and a line feed, then a JSON object in UTF-8 with the fields of `AuditRecord`. Fields are only
ever added. On the log of a database the same bytes are a header of an entry (`virtuallog_database.engines.core.audit_entry`).

A record proves no more than the right to append: a client that may append to the log can write one. Nodes let no client append to the
guarded log of a database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from virtuallog.contract.errors import MalformedError

PREFIX: Final = b"virtuallog-audit/"
"""First bytes of every audit record, of any version."""
_HEAD: Final = PREFIX + b"1\n"
RECORD_BYTES_MAX: Final = 64 << 10
"""Bytes of the largest record."""
TEXT_MAX: Final = 1000
"""Longest text in a record, in characters. Longer ones are cut."""
NUMBERS_END: Final = 1 << 63
"""Numbers in a record are from 0 up to this one, which is none of them."""
ARGUMENTS_MAX: Final = 8
"""Most arguments of an action."""
INTENT: Final = "intent"
OUTCOME: Final = "outcome"


@attrs.frozen(kw_only=True)
class AuditRecord:
    """One step of an action: the intent, appended before anything is changed, or the outcome, appended afterwards."""

    event: str
    """`intent` or `outcome`."""
    id: str
    """Random name of the action, the same in both of its records."""
    action: str
    """`reconfigure`, `drain`, `trim` or `archive`."""
    arguments: Mapping[str, str]
    caller: str
    """Name of the caller."""
    proof: str
    """Proof of the name: `certificate`, `proxy` or `loopback`."""
    role: str
    """Role of the caller at that time."""
    time_ms: int
    """Wall clock of the console, in milliseconds since the epoch."""
    version: int
    """Version of the register that the caller has seen in the dry run."""
    version_after: int = 0
    """Newest version that the console knew at the outcome; 0 in an intent."""
    outcome: str = ""
    """`done`, `refused` (nothing was changed), `failed` (a part may have been changed), or `unknown`. Empty in an intent."""
    detail: str = ""
    """Result or reason, in words."""
    intent: str = ""
    """Position of the record of the intent, or the reason why there is none. Empty in an intent."""

    def encode(self) -> bytes:
        """The payload of an entry. Long texts are cut."""
        fields: dict[str, Any] = {
            name: value[:TEXT_MAX] if isinstance(value, str) else value
            for name, value in attrs.asdict(self, recurse=False).items()
        }
        shown = [*self.arguments.items()][:ARGUMENTS_MAX]
        fields["arguments"] = {name[:TEXT_MAX]: value[:TEXT_MAX] for name, value in shown}
        return _HEAD + json.dumps(fields, ensure_ascii=False).encode("utf-8", "backslashreplace")


def is_audit_record(payload: bytes) -> bool:
    """True for the payload of an audit record, of any version. Takes less than a microsecond."""
    return payload[: len(PREFIX)] == PREFIX


def parse_untrusted(payload: bytes) -> AuditRecord:
    """Parse an audit record.

    Raises:
        MalformedError: it is none, or one of a later version.
    """
    if payload[: len(_HEAD)] != _HEAD or len(payload) > RECORD_BYTES_MAX:
        raise MalformedError(f"no audit record of version 1: {bytes(payload[:24])!r}")
    try:
        found = json.loads(payload[len(_HEAD) :])
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"an audit record is no JSON: {error}") from error
    known = {name: found[name] for name in _TYPES if name in found} if isinstance(found, dict) else {}
    if not known.keys() >= _NEEDED or not all(type(value) is _TYPES[name] for name, value in known.items()):
        raise MalformedError("the fields of an audit record are not what they should be")
    if not all(0 <= value < NUMBERS_END for value in known.values() if type(value) is int):
        raise MalformedError("a number in an audit record is below 0, or too large")
    if not all(isinstance(value, str) for value in known["arguments"].values()):
        raise MalformedError("an argument in an audit record is no text")
    return AuditRecord(**known)


_TYPES: Final = {field.name: {"int": int, "str": str}.get(str(field.type), dict) for field in attrs.fields(AuditRecord)}
_NEEDED: Final = frozenset(field.name for field in attrs.fields(AuditRecord) if field.default is attrs.NOTHING)
