"""Spans in which processes led: what counts as a split brain."""

from __future__ import annotations

from tests.clients.spans import SpanRecord, in_order, overlaps


def test_two_leaders_at_once_are_found() -> None:
    """A span counts as far as it is certain: from its first answer to its last question."""
    one, other = SpanRecord("one"), SpanRecord("other")
    one.observe(1.0, 1.1, True, "A")
    one.observe(2.0, 2.1, True, "A")
    other.observe(1.5, 1.6, False, "B")
    other.observe(2.05, 2.15, True, "B")
    assert overlaps(in_order([one, other])) == []

    one.observe(3.0, 3.1, True, "A")
    assert overlaps(in_order([other, one])) == [(*one.spans, *other.spans)]


def test_a_process_that_is_started_again_begins_a_span() -> None:
    """Another one may have led in between."""
    record = SpanRecord("one")
    record.observe(1.0, 1.1, True, "A")
    record.observe(2.0, 2.1, True, "B")
    record.observe(3.0, 3.1, False, "B")
    record.observe(4.0, 4.1, True, "B")
    assert [(span.since, span.until) for span in record.spans] == [(1.1, 1.1), (2.1, 2.1), (4.1, 4.1)]
