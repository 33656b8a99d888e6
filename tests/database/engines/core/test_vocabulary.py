"""Commands and records of engines as text: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

import json
from collections.abc import Mapping

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_database.engines.checksums import Compare, Report
from virtuallog_database.engines.core.backup_state import Begin, Bid, DropBid, Uploaded
from virtuallog_database.engines.core.enabled_engines import Disable, Enable
from virtuallog_database.engines.core.holds import DropHold, PlaceExactly, PlaceHold
from virtuallog_database.engines.core.lease_state import Acquire, Confirm, Expire, Grant, Release, Renew
from virtuallog_database.engines.core.liveness_timers import LivenessTimers
from virtuallog_database.engines.core.view import Floor, Hold, Member
from virtuallog_database.engines.core.vocabulary import Vocabulary
from virtuallog_database.engines.time_engine import Cancel, Elapsed, Set, Timer
from virtuallog_database.engines.view_tracking import Announce, Eject, Heartbeat
from virtuallog_database.errors import BinaryTooOldError

ALL = Vocabulary((
    Begin, Bid, DropBid, Uploaded, Compare, Report, DropHold, PlaceExactly, PlaceHold, Acquire, Confirm, Expire, Grant, Release,
    Renew, Disable, Enable, Cancel, Elapsed, Set, Timer, Floor, Hold, Member, Announce, Eject, Heartbeat,
))  # fmt: skip

FIELDS = {
    "int": st.integers(-(1 << 63) + 1, (1 << 63) - 1),
    "LogPosition": st.integers(0, (1 << 63) - 1),
    "str": st.text(max_size=20),
    "tuple[str, ...]": st.lists(st.text(max_size=5), max_size=4).map(tuple),
    "Mapping[str, str]": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=4),
}


@st.composite
def values(draw: st.DrawFn) -> object:
    kind = draw(st.sampled_from(ALL.classes))
    return kind(*(draw(FIELDS[str(field.type)]) for field in attrs.fields(kind)))


@settings(max_examples=40)
@given(values())
def test_what_goes_in_comes_out(value: object) -> None:
    """All replicas apply what one has written: a field lost on the way is a state that differs."""
    assert ALL.parse_untrusted(ALL.encode(value)) == value


@settings(max_examples=40)
@given(values(), st.data())
def test_whatever_has_become_of_the_bytes_the_error_is_typed(value: object, data: st.DataObject) -> None:
    """Every replica refuses the same bytes and plays on; a flipped bit may also give another valid command."""
    blob = bytearray(ALL.encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(blob) - 1))
        if data.draw(st.booleans()):
            del blob[at:]
            break
        blob[at] = data.draw(st.integers(0, 255))
    try:
        parsed = ALL.parse_untrusted(bytes(blob))
    except (MalformedError, BinaryTooOldError):
        return
    assert type(parsed) in ALL.classes


@settings(max_examples=40)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_anything_else_is_refused(blob: bytes) -> None:
    """Bytes that are no command never reach an engine, which trusts its input."""
    with pytest.raises((MalformedError, BinaryTooOldError)):
        ALL.parse_untrusted(blob)


@pytest.mark.parametrize(
    "fields",
    [
        ["1-ab", 1.0, []],
        ["1-ab", True, []],
        ["1-ab", -1, []],
        ["1-ab", 1 << 63, []],
        ["1-ab", 1, [1]],
        ["1-ab", 1],
        [1, 1, []],
    ],
)
def test_fields_have_their_types(fields: list[object]) -> None:
    """JSON would pass a float, a bool or a number beyond 64 bits for an int, and an engine would count with it."""
    with pytest.raises(MalformedError):
        ALL.parse_untrusted(json.dumps([1, "Announce", *fields]).encode())


def test_a_later_version_is_nothing_that_all_agree_on() -> None:
    """Other replicas may know it, so the one that does not must stop. Malformed text, however, is
    malformed for all."""
    for blob in (b'[2,"Enable","x"]', b'[1,"Unheard","x"]'):
        with pytest.raises(BinaryTooOldError):
            ALL.parse_untrusted(blob)
    with pytest.raises(CorruptionError):
        ALL.parse_stored(b'[1,"Enable",7]')


def test_what_nests_too_deep_is_malformed_whoever_reads_it() -> None:
    """The parser's depth limit depends on its caller's depth, and on the interpreter. One replica
    would take this for a command of a later version, and stop; another one would skip it."""
    blob = b'[1,"Later",' + b"[" * 900 + b"]" * 900 + b"]"

    def read(depth: int) -> None:
        if depth:
            read(depth - 1)
        else:
            ALL.parse_untrusted(blob)

    for depth in (0, 200):
        with pytest.raises(MalformedError):
            read(depth)


def test_a_class_whose_fields_have_no_form_is_no_part_of_a_vocabulary() -> None:
    """The error comes when the program starts, and not when the first such command is in the log
    for good."""

    @attrs.frozen
    class Odd:
        table: Mapping[str, int]

    with pytest.raises(AssertionError):
        Vocabulary((Odd,))


def test_silence_is_counted_from_what_was_last_heard() -> None:
    """Ejections stand on it: silence begins when one is first seen, ends with a new count, and with who left."""
    silence = LivenessTimers()
    silence.learn({"a": 1, "b": 1}, now=0.0)
    silence.learn({"a": 1, "b": 2}, now=5.0)
    assert silence.silent("a", 10.0, now=10.0) and not silence.silent("b", 10.0, now=10.0)
    silence.learn({"b": 2}, now=11.0)
    assert not silence.silent("a", 0.0, now=100.0), "nobody is waited for who is not there"
    silence.learn({"a": 1, "b": 2}, now=20.0)
    assert not silence.silent("a", 10.0, now=25.0), "it came back"
    assert silence.last("b") == 2
