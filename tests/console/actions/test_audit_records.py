"""Audit records: their format, and that programs and replicas pass them over."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from tests.console.actions.acting import acting
from tests.console.pages.page_reader import read
from tests.console.views.test_nodes import log_of
from tests.server.database.test_role import client_of, start
from tests.server.node.world import make_world, until
from virtuallog.audit import ARGUMENTS_MAX, RECORD_BYTES_MAX, TEXT_MAX, AuditRecord, is_audit_record, parse_untrusted
from virtuallog.contract.errors import MalformedError
from virtuallog_database.engines.core.audit_entry import audit_entry, record_in
from virtuallog_database.engines.core.entry import is_proposed
from virtuallog_database.engines.core.entry import parse_untrusted as parse_entry
from virtuallog_server.database.ownership import find_foreign

RECORD = AuditRecord(
    event="outcome", id="00ff", action="trim", arguments={"position": "3"}, caller="virtuallog://c/admin/alice", proof="certificate",
    role="admin", time_ms=5, version=2, version_after=3, outcome="done", detail="the log begins at 3", intent="position 9",
)  # fmt: skip
STORED = (
    b'virtuallog-audit/1\n{"event": "outcome", "id": "00ff", "action": "trim", "arguments": {"position": "3"}, '
    b'"caller": "virtuallog://c/admin/alice", "proof": "certificate", "role": "admin", "time_ms": 5, "version": 2, "version_after": 3, '
    b'"outcome": "done", "detail": "the log begins at 3", "intent": "position 9"}'
)


def test_the_format_stays() -> None:
    """Records of this version are in logs for ever."""
    assert RECORD.encode() == STORED
    assert parse_untrusted(STORED) == RECORD
    later = STORED.replace(b'"event"', b'"more": [1], "event"')
    assert parse_untrusted(later) == RECORD


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"entry", b"virtuallog-audit/", b"virtuallog-audit/2\n{}", b"virtuallog-audit/1\n", b"virtuallog-audit/1\n[]",
        b"virtuallog-audit/1\n{}", b"virtuallog-audit/1\n" + b"[" * 60_000, STORED.replace(b'"3"', b"3"), STORED.replace(b": 5", b": true"),
        STORED.replace(b"alice", b"\xff"), STORED + b" " * RECORD_BYTES_MAX,
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(payload: bytes) -> None:
    """Bytes of others, later versions, fields of another type, nesting without end."""
    with pytest.raises(MalformedError):
        parse_untrusted(payload)


def test_records_of_later_versions_are_recognized() -> None:
    """So that programs go on to skip them."""
    assert is_audit_record(STORED)
    assert is_audit_record(b"virtuallog-audit/2\nanything")
    assert not is_audit_record(b"virtuallog audit")


@given(
    st.text(max_size=3 * TEXT_MAX),
    st.dictionaries(st.text(), st.text(max_size=2 * TEXT_MAX), max_size=2 * ARGUMENTS_MAX),
)
def test_a_record_is_bounded(text: str, arguments: dict[str, str]) -> None:
    """Long texts and many arguments are cut; every text can be written."""
    record = AuditRecord(
        event="intent", id="0", action="trim", arguments=arguments, caller=text, proof=text, role=text, time_ms=1, version=1,
        outcome=text, detail=text, intent=text,
    )  # fmt: skip
    encoded = record.encode()
    assert len(encoded) <= RECORD_BYTES_MAX
    json.loads(encoded.partition(b"\n")[2])
    parse_untrusted(encoded)


def test_an_entry_of_a_database_has_it_as_a_header() -> None:
    """Counted as the database's own, without a command."""
    entry = parse_entry(audit_entry(STORED, b"t" * 16))
    assert is_proposed(entry)
    assert entry.payload == b""
    assert record_in(entry) == STORED


async def test_replicas_pass_records_over(autojump_clock: MockClock) -> None:
    """On the log of a database: each replica stays healthy and the same; pages show who did what; the guard may still be put."""
    async with make_world() as world:
        nodes = await start(world, 1, 2, 3)
        log = log_of(nodes[0])
        await client_of(nodes[0]).create("/a", b"1")
        await log.view.refresh()
        await until(lambda: log.view.cached is not None and log.view.cached.database)
        async with acting(log) as console:
            page = await console.act("trim", "trim 999999", 409, position=999_999)
            assert "the database needs the log from" in page.text
            allowed = await console.page("/actions/trim?position=1")
            assert "cannot be carried out: the database needs" in allowed.text or "type trim 1" in allowed.text
            page = await console.act("reconfigure", "reconfigure memory", kind="memory")
            assert "done" in page.text
            records = await console.records()
            shown = read((await console.get("/entries", "bob")).body.decode())
            listed = await console.page("/actions")
            found = await console.page("/entries?text=virtuallog-audit&from=0")
            one = await console.page(listed_link(listed.tags, (await console.get("/actions")).body))
        await client_of(nodes[1]).create("/b", b"2")
        for node in nodes:
            assert (await client_of(node).get("/b", linearizable=True)).data == b"2"
            assert node.database is not None
            assert node.database.life is not None
            assert node.not_ready() == []
        assert await find_foreign(log) is None

    assert [(record.event, record.action, record.caller, record.outcome) for record in records] == [
        ("intent", "reconfigure", "alice", ""), ("outcome", "reconfigure", "alice", "done")
    ]  # fmt: skip
    assert "intent of reconfigure" in shown.text
    assert "by alice" in shown.text
    assert "outcome of reconfigure" in listed.text
    assert "2 entries found" in found.text
    assert "Audit record" in one.text


def listed_link(_: list[str], body: bytes) -> str:
    """Address of the newest record on the page of actions."""
    return "/entries/" + body.decode().partition('href="/entries/')[2].partition('"')[0]
