"""Splitting of a stream into entries for `append --lines`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.batch import ENTRY_BYTES_MAX
from virtuallog.contract.errors import TooLargeError
from virtuallog_server.cli.log.line_splitter import GROUP_ENTRIES, LineSplitter


def cut(*chunks: bytes) -> list[bytes]:
    cutter = LineSplitter()
    groups = [group for chunk in chunks for group in cutter.feed(chunk)] + cutter.finish()
    assert all(groups)
    return [line for group in groups for line in group]


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"\n\na\n\n", [b"", b"", b"a", b""]),
        (b"a\r\nb\x0cc\x1cd\xc2\x85e\xe2\x80\xa8f\n", [b"a\r", b"b\x0cc\x1cd\xc2\x85e\xe2\x80\xa8f"]),
        (b"\x00\xff\n", [b"\x00\xff"]),
    ],
)
def test_lines_end_at_newlines_only(text: bytes, entries: list[bytes]) -> None:
    """Empty lines are entries, other separators are data, a last line without its newline is not lost."""
    assert cut(text) == entries


@given(st.lists(st.binary(max_size=8).map(lambda data: data.replace(b"\x01", b"\n")), max_size=12))
def test_what_is_cut_comes_back_byte_for_byte(chunks: list[bytes]) -> None:
    """However the stream is chunked: every entry and a newline gives the stream, with a newline at its end."""
    stream = b"".join(chunks)
    printed = b"".join(entry + b"\n" for entry in cut(*chunks))

    assert printed == (stream if not stream or stream.endswith(b"\n") else stream + b"\n")


def test_groups_are_bounded() -> None:
    """A chunk of many lines becomes several appends."""
    groups = LineSplitter().feed(b"x\n" * (2 * GROUP_ENTRIES + 1))

    assert [len(group) for group in groups] == [GROUP_ENTRIES, GROUP_ENTRIES, 1]


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    """A file that is not lines is noticed once a line is longer than an entry may be."""
    cutter = LineSplitter()
    cutter.feed(b"one\ntwo\n" + b"x" * ENTRY_BYTES_MAX)

    with pytest.raises(TooLargeError, match="bytes or more in line 3, where"):
        cutter.feed(b"x")
