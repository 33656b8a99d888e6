"""Ranges of the tasks of an archive: none larger than a file, enough for all workers, and together
everything."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pyspark_virtuallog.archive.task_ranges import FILE_BYTES_MIN, TASKS_MAX, cut, samples
from virtuallog_loglets.archive.creation.spans import ArchiveSpan

FILE = 96 << 20


def test_a_large_hole_becomes_files_of_about_the_size_they_should_have() -> None:
    """10,000,000 positions of 164 bytes: pieces of 96 MiB at most, all about the same."""
    pieces = cut([ArchiveSpan(0, 10_000_000)], 164, FILE, workers=2)
    lengths = [piece.stop - piece.start for piece in pieces]

    assert len(pieces) == -(-10_000_000 * 164 // FILE)
    assert max(lengths) * 164 <= FILE
    assert max(lengths) - min(lengths) <= 1


def test_a_small_hole_is_cut_for_all_who_work_but_not_into_crumbs() -> None:
    """Two pieces for each of them, unless these would be tiny."""
    assert len(cut([ArchiveSpan(0, 1 << 20)], 100, FILE, workers=4)) == 8
    assert len(cut([ArchiveSpan(0, 1000)], 100, FILE, workers=4)) == 1
    assert FILE_BYTES_MIN < (1 << 20) * 100 / 8


def test_what_is_there_is_one_task() -> None:
    """However large: it is a file."""
    spans = [ArchiveSpan(0, 1 << 40, "there"), ArchiveSpan(1 << 40, (1 << 40) + 10)]
    assert cut(spans, 100, FILE, workers=1) == spans


def test_positions_that_weigh_nothing_are_one_piece() -> None:
    """A segment of gaps."""
    assert cut([ArchiveSpan(0, 1 << 62)], 0.0, FILE, workers=8) == [ArchiveSpan(0, 1 << 62)]


def test_samples_are_spread() -> None:
    """From the start on, never at the stop, each place once."""
    assert samples(100, 200, 4) == [100, 125, 150, 175]
    assert samples(7, 9, 8) == [7, 8]


@given(
    edges=st.sets(st.integers(0, 1 << 40), min_size=2, max_size=6),
    weight=st.floats(0, 1 << 23),
    file=st.integers(1, FILE),
)
def test_pieces_cover_what_is_to_be_done(edges: set[int], weight: float, file: int) -> None:
    """Adjacent, in order, none empty, and never more than a driver can hold."""
    ordered = sorted(edges)
    spans = [ArchiveSpan(low, high) for low, high in pairwise(ordered)]
    pieces = cut(spans, weight, file, workers=3)

    assert [ordered[0], *(piece.stop for piece in pieces)] == [*(piece.start for piece in pieces), ordered[-1]]
    assert all(piece.start < piece.stop for piece in pieces)
    assert len(pieces) <= TASKS_MAX + len(spans)
