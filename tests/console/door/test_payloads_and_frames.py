"""Bodies and events of any content: what goes in comes out."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode

from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.batch import SessionId
from virtuallog.contract.types import Data, Gap, GapKind, LogPosition, Record
from virtuallog_console.access.core.problem import ProblemError
from virtuallog_console.door.entry_json import ENCODINGS, spell_record
from virtuallog_console.door.payloads import MEDIA_TYPES, payloads_of
from virtuallog_console.door.tail_window import CHUNK_ENTRIES_MAX, TailWindow, chunks_of, spell_events, stop_of

SESSION = SessionId(b"s" * 16)


def entry(position: int, payload: bytes) -> Data:
    return Data(LogPosition(position), payload, 5, SESSION, position)


@given(st.lists(st.binary(max_size=50), min_size=1))
def test_entries_of_an_array_are_those_that_were_sent(payloads: list[bytes]) -> None:
    """In base64, for any bytes."""
    body = json.dumps([b64encode(payload).decode() for payload in payloads]).encode()

    assert payloads_of(body, "application/json") == payloads


@given(st.binary(max_size=200), st.sampled_from(MEDIA_TYPES))
def test_any_body_has_entries_or_is_refused(body: bytes, media_type: str) -> None:
    """Bytes that are no such body end with 400, and with no other error."""
    status = 201
    try:
        payloads_of(body, media_type)
    except ProblemError as error:
        status = error.problem.status

    assert status in {201, 400}


@given(st.binary(), st.sampled_from(ENCODINGS))
def test_a_payload_can_be_read_back(payload: bytes, encoding: str) -> None:
    """From one line of JSON, in both encodings: line ends within a payload end no event."""
    spelled = spell_record(entry(7, payload), encoding)
    found = json.loads(spelled)

    assert len(spelled.splitlines()) == 1
    assert (found["text"].encode() if "text" in found else b64decode(found["base64"])) == payload
    assert (found["position"], found["time_ms"]) == (7, 5)


@given(st.lists(st.one_of(st.binary(max_size=20), st.integers(1, 9)), min_size=1, max_size=600), st.integers(0, 2000))
def test_a_window_has_every_position_once(parts: list[bytes | int], at: int) -> None:
    """Entries and gaps of any size: a tail that begins anywhere gets all that is behind it, and events have the ids of their ends."""
    found, position = list[Record](), 0
    for part in parts:
        found.append(
            entry(position, part) if isinstance(part, bytes) else Gap(position, position + part, GapKind.FILLER)
        )
        position = stop_of(found[-1])
    window = TailWindow(0, 0)
    for chunk in chunks_of(found):
        assert len(chunk.records) <= CHUNK_ENTRIES_MAX
        window.add(chunk)

    start = at = at % position
    sent = b""
    while (chunk_at := window.at(at)) is not None:
        sent += chunk_at.events("text", at)
        at = chunk_at.stop
    assert at == position == window.stop
    assert sent == spell_events([record for record in found if stop_of(record) > start], "text")
