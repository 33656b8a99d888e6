"""Choice of sources for a range."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pyspark_virtuallog.restore.coverage import Span, cover, whole_from
from virtuallog.contract.errors import InvalidSettingError

SPANS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 20)).map(lambda pair: Span(min(pair), max(pair), str(pair))),
    max_size=6,
)


@given(SPANS, st.integers(0, 20), st.integers(0, 20))
def test_a_cover_is_whole_or_refused(spans: list[Span[str]], start: int, stop: int) -> None:
    """Each position of the range is in exactly one part, which is of a span that has it; it is refused only if no span has one."""
    has = [any(span.start <= position < span.stop for span in spans) for position in range(start, stop)]
    try:
        parts = cover(spans, start, stop)
    except InvalidSettingError:
        assert not all(has)
        return
    assert all(has)
    assert [position for part in parts for position in range(part.start, part.stop)] == list(range(start, stop))
    for part in parts:
        assert any(s.start <= part.start and part.stop <= s.stop and s.what == part.what for s in spans)


@given(SPANS, st.integers(0, 20))
def test_what_is_whole_up_to_an_end(spans: list[Span[str]], stop: int) -> None:
    """From the reported position on everything can be read, and right below it nothing."""
    first = whole_from(spans, stop)
    cover(spans, first, stop)
    assert not any(span.start < first <= span.stop for span in spans)


def test_what_is_missing_is_named() -> None:
    """The error names the missing ranges, and the position from which on a history would be whole."""
    spans = [Span(0, 10, "archive"), Span(15, 30, "live")]
    with pytest.raises(InvalidSettingError, match="positions 10 to 14; from 15 on all is there"):
        cover(spans, 5, 25)
    with pytest.raises(InvalidSettingError, match=r"positions 30 to 39$"):
        cover(spans, 20, 40)
