"""Audit records that a client has written, and entries between records: pages stay whole, and their work bounded."""

from __future__ import annotations

import json
from typing import Any

import pytest
from trio.testing import MockClock

from tests.console.actions.test_audit_records import RECORD
from tests.console.actions.test_flow import staged
from tests.virtuallog.client.world import world
from virtuallog.audit import parse_untrusted
from virtuallog.contract.errors import MalformedError
from virtuallog_console.actions.audit_log import BYTES_MAX, AuditLog

HEAD = b"virtuallog-audit/1\n"
NASTY = "</b><script>alert(1)</script>\ud800\x1b[2J\u202e\r\n\x00 {{ 7 * 7 }}"


def forged(**fields: Any) -> bytes:
    """A record as a client may write it."""
    return HEAD + json.dumps({**json.loads(RECORD.encode()[len(HEAD) :]), **fields}).encode()


@pytest.mark.parametrize("field", ["time_ms", "version", "version_after"])
@pytest.mark.parametrize("value", [-1, 1 << 63, 10**400])
def test_a_number_that_no_console_writes_is_refused(field: str, value: int) -> None:
    """No time and no version is below 0 or has more than 63 bits, and not each calculation takes longer ones."""
    with pytest.raises(MalformedError):
        parse_untrusted(forged(**{field: value}))


async def test_a_forged_record_breaks_no_page(autojump_clock: MockClock) -> None:
    """Numbers of 400 digits, times that no calendar has, markup, halves of characters and steps that do not exist: each page is whole."""
    async with staged() as stage:
        console, log = stage.console, stage.console.log
        texts = {
            "event": NASTY,
            "action": NASTY,
            "caller": NASTY,
            "proof": NASTY,
            "role": NASTY,
            "id": NASTY,
            "detail": NASTY,
        }
        first = await log.append(forged(**texts, outcome=NASTY, intent=NASTY, arguments={NASTY: NASTY}))
        for value in (10**400, -(10**400), (1 << 63) - 1, 1 << 62, -1):
            last = await log.append(forged(time_ms=value, version=value, version_after=value))
        for path in ("/actions", "/entries", *(f"/entries/{position}" for position in range(first, last + 1))):
            answer = await console.get(path)
            assert answer.status == 200, path
            assert b"<script>alert" not in answer.body
            assert b"\x1b" not in answer.body
            assert "\u202e".encode() not in answer.body


async def test_the_last_records_are_found_among_large_entries(autojump_clock: MockClock) -> None:
    """The bound on bytes holds there too: the newest record is shown, and the page says how far the log was looked at."""
    async with world() as w:
        log = w.client()
        for _ in range(40):
            await log.append(bytes(1 << 20))
        await log.append(RECORD.encode())
        view = await AuditLog(log).read_last()
        assert [record for _, record in view.records] == [RECORD]
        assert view.looked_from is not None
        assert 41 - view.looked_from <= 2 * (BYTES_MAX >> 20)
        assert not view.is_whole
