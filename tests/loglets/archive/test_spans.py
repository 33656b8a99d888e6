"""The rest of an unfinished archive: files that fit are taken, the holes between them are made."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from virtuallog_loglets.archive.creation.spans import ArchiveSpan, spans_untrusted

DIGITS = "0123456789abcdef"


def name(start: int, stop: int) -> str:
    return f"{start:020d}-{stop:020d}-{DIGITS}.parquet"


def spans(ranges: list[tuple[int, int]], start: int, stop: int) -> list[ArchiveSpan]:
    return spans_untrusted([name(*one) for one in ranges], start, stop)


def test_files_that_are_there_leave_holes_between_them() -> None:
    """As in the docstring of the module: of two that begin together the longer one counts."""
    found = spans([(0, 100), (250, 300), (0, 70)], 0, 400)

    assert found == [
        ArchiveSpan(0, 100, name(0, 100)),
        ArchiveSpan(100, 250),
        ArchiveSpan(250, 300, name(250, 300)),
        ArchiveSpan(300, 400),
    ]


def test_a_file_that_overlaps_is_left_out() -> None:
    """A file in the middle of another one, or beyond the archive, is no part of it."""
    assert spans([(0, 100), (50, 150)], 0, 200) == [ArchiveSpan(0, 100, name(0, 100)), ArchiveSpan(100, 200)]
    assert spans([(0, 300)], 0, 200) == [ArchiveSpan(0, 200)]
    assert spans([(0, 50), (40, 60)], 10, 60) == [ArchiveSpan(10, 40), ArchiveSpan(40, 60, name(40, 60))]


def test_other_names_say_nothing() -> None:
    """Manifests, markers, files of other tools, numbers in other digits."""
    others = ["manifest.json", "trimmed-00000000000000000007", "a.parquet", name(3, 3), name(5, 4), name(0, 9)[:-1],
              name(0, 9) + "x", "." + name(0, 9), name(0, 9).upper(), name(0, 9).replace("0", "\u0660")]  # fmt: skip
    assert spans_untrusted(others, 0, 10) == [ArchiveSpan(0, 10)]


@given(ranges=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12), start=st.integers(0, 59))
def test_spans_cover_what_is_wanted(ranges: list[tuple[int, int]], start: int) -> None:
    """Adjacent, in order, without an empty one, for any files; and each file that is taken is one
    that is there."""
    found = spans(ranges, start, 60)

    assert [start, *(span.stop for span in found)] == [*(span.start for span in found), 60]
    assert all(span.start < span.stop for span in found)
    assert {span.found for span in found} - {None} <= {name(*one) for one in ranges}
