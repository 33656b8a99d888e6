"""Audit records (`virtuallog.audit`) as entries of a database: a header, and no command.

Replicas of every version count such an entry as one of their database, find no command in it, and go on: an entry with an unknown
header and an empty payload is refused as a command, in the same way everywhere.
"""

from __future__ import annotations

from typing import Final

from virtuallog.audit import is_audit_record
from virtuallog_database.engines.core.entry import PROPOSER, Entry

AUDIT: Final = "audit"
"""Name of the header. Its value is the payload that the record has in a log without a database."""


def audit_entry(record: bytes, token: bytes) -> bytes:
    """Payload of the entry with this record.

    Args:
        record: an encoded `AuditRecord`.
        token: `entry.TOKEN_BYTES` random bytes, as each proposal has.
    """
    return Entry(b"", {AUDIT: record, PROPOSER: token}).encode()


def record_in(entry: Entry) -> bytes | None:
    """The encoded record in an entry. None if it has none."""
    found = entry.headers.get(AUDIT)
    return found if found is not None and not entry.payload and is_audit_record(found) else None
