"""Audit records in entries, of logs with a database and without. Each caller that may read the log may read them."""

from __future__ import annotations

from virtuallog.audit import AuditRecord, is_audit_record, parse_untrusted
from virtuallog.contract.errors import MalformedError
from virtuallog_console.views.database_commands import open_entry
from virtuallog_database.engines.core.audit_entry import record_in
from virtuallog_database.errors import BinaryTooOldError


def find_record(payload: bytes) -> AuditRecord | None:
    """The audit record in the payload of an entry. None if it has none of a version that is known here."""
    found: bytes | None = payload
    try:
        if not is_audit_record(payload):
            entry = open_entry(payload)
            found = None if entry is None else record_in(entry)
        return None if found is None else parse_untrusted(found)
    except (MalformedError, BinaryTooOldError):
        return None
