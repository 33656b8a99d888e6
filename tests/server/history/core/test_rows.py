"""Rows of an answer: bounded in number and in bytes."""

from __future__ import annotations

import attrs

from virtuallog_server.history.core.rows import Rows


@attrs.frozen
class Row:
    size: int


def test_an_answer_ends_with_the_last_row_that_fits() -> None:
    """By number or by bytes; one that is too large by itself is an answer."""
    rows = Rows[Row](limit=3, bytes_max=100)
    taken = list[int]()
    for size in (10, 10, 10):
        assert not rows.is_full
        rows.add(Row(size))
        taken.append(size)
    assert rows.is_full and [row.size for row in rows] == taken

    large = Rows[Row](limit=3, bytes_max=100)
    large.add(Row(1000))
    assert large.is_full and len(large) == 1 and large.dropped == 0


def test_the_last_rows_are_kept() -> None:
    """So many of them as fit, and at least the last one."""
    rows = Rows[Row](limit=3, bytes_max=100, only_last=True)
    for size in (1, 2, 3, 4, 90, 7, 200):
        rows.add(Row(size))
        assert not rows.is_full
        if size == 90:
            assert [row.size for row in rows] == [3, 4, 90]
        if size == 7:
            assert [row.size for row in rows] == [90, 7]

    assert [row.size for row in rows] == [200] and rows.dropped == 6
