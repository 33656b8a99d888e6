"""The session digest: folded from positions, cut by truncations, stored and carried."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.errors import MalformedError
from virtuallog.exactly_once import session_digest as digests
from virtuallog.exactly_once.session_digest import BATCHES_MAX, DigestedBatch, DigestedSession
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.position_digest import PositionDigest
from virtuallog_loglets.paxos.offsets import offset_of

ANN, BOB = SessionId(b"a" * 16), SessionId(b"b" * 16)


def append(session: SessionId, first: int, count: int = 1) -> bytes:
    return values.append(Batch.build(session, first, [b"x"] * count).blob, 1)


def folded(log: list[bytes], start: int = 1) -> PositionDigest:
    digest = PositionDigest(start)
    for position, value in enumerate(log, start):
        digest.take(position, value)
    return digest


def test_sessions_in_the_order_of_their_last_batches() -> None:
    """Each session has its next sequence number and its batches; other payloads are ignored."""
    digest = folded([append(ANN, 0, 3), append(BOB, 0), values.nop(), append(ANN, 3), values.append(b"no batch", 1)])

    assert list(digest.sessions()) == [
        DigestedSession(BOB, 1, (DigestedBatch(0, 1, offset_of(2)),)),
        DigestedSession(ANN, 4, (DigestedBatch(0, 3, 0), DigestedBatch(3, 1, offset_of(4)))),
    ]
    assert digest.stop == 6
    assert not digest.has_forgotten


def test_only_the_last_batches_are_kept() -> None:
    """A session resends no older batches; the next sequence number stays."""
    digest = folded([append(ANN, number) for number in range(BATCHES_MAX + 10)])
    (ann,) = digest.sessions()

    assert ann.next_sequence == BATCHES_MAX + 10
    assert [batch.first_sequence for batch in ann.last] == [*range(10, BATCHES_MAX + 10)]


def test_long_idle_sessions_keep_where_they_go_on_and_then_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest reports that it has forgotten sessions: a leader must not take an unknown session
    for a new one then."""
    monkeypatch.setattr(digests, "SESSIONS_MAX", 2)
    monkeypatch.setattr(digests, "IDLE_MAX", 1)
    names = [SessionId(bytes([number]) * 16) for number in range(4)]
    three = folded([append(name, 7) for name in names[:3]])
    assert [(known.session, known.next_sequence, len(known.last)) for known in three.sessions()] == [
        (names[0], 8, 0),
        (names[1], 8, 1),
        (names[2], 8, 1),
    ]
    assert not three.has_forgotten

    four = folded([append(name, 7) for name in names])
    assert [known.session for known in four.sessions()] == names[1:]
    assert four.has_forgotten
    assert four.copy().has_forgotten


def test_a_session_that_comes_back_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session goes on where it was, also if its batches were forgotten meanwhile: its next number was not."""
    monkeypatch.setattr(digests, "SESSIONS_MAX", 1)
    digest = folded([append(ANN, 0, 5), append(BOB, 0), append(ANN, 5)])

    assert list(digest.sessions()) == [
        DigestedSession(BOB, 1, ()),
        DigestedSession(ANN, 6, (DigestedBatch(5, 1, offset_of(3)),)),
    ]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=40), st.integers(1, 41))
def test_who_comes_after_a_truncation_knows_the_same(log: list[tuple[int, int]], to: int) -> None:
    """A replica that has everything, and one that begins where a truncation has cut, agree once both have the TRUNCATE: it
    carries what it dropped."""
    following: dict[int, int] = {}
    written = []
    for who, count in log:
        first = following.get(who, 0)
        following[who] = first + count
        written.append(append(SessionId(bytes([who]) * 16), first, count))
    to = min(to, len(written) + 1)
    whole = folded(written)
    truncate = values.truncate(to, 1, digest=whole.encode_below(to))
    whole.take(whole.stop, truncate)

    late = folded([*written[to - 1 :], truncate], start=to)

    assert {each.session: each for each in late.sessions()} == {each.session: each for each in whole.sessions()}
    assert late.stop == whole.stop


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=40))
def test_what_is_stored_comes_back(log: list[tuple[int, int]]) -> None:
    """A digest that was written and read again is the same one, byte for byte."""
    digest = folded([append(SessionId(bytes([who]) * 16), 10 * place, count) for place, (who, count) in enumerate(log)])

    again = PositionDigest.decode_untrusted_below(digest.encode(), digest.stop)

    assert list(again.sessions()) == list(digest.sessions())
    assert again.stop == digest.stop
    assert again.encode() == digest.encode()


def test_damage_is_no_digest() -> None:
    """Cut anywhere, or with more behind it: refused. Inside a TRUNCATE it is decided: then it counts as forgotten."""
    encoded = folded([append(ANN, 0), append(BOB, 0)]).encode()
    for length in range(len(encoded)):
        with pytest.raises(MalformedError):
            PositionDigest.decode_untrusted_below(encoded[:length], 3)
    with pytest.raises(MalformedError):
        PositionDigest.decode_untrusted_below(encoded + b"x", 3)

    assert folded([values.truncate(1, 1, digest=encoded[:-1])]).has_forgotten


def test_noise_is_refused_or_read() -> None:
    """Any bytes give an error or a digest, nothing else."""
    source = random.Random(1)
    encoded = bytearray(folded([append(ANN, 0), append(BOB, 0)]).encode())
    refused = 0
    for _ in range(500):
        noise = bytes(byte if source.random() < 0.95 else source.randrange(256) for byte in encoded)
        try:
            PositionDigest.decode_untrusted_below(noise, 3)
        except MalformedError:
            refused += 1
    assert 0 < refused < 500
