"""Frames of ZooKeeper's protocol out of any pieces."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from virtuallog_server.zookeeper.wire.frames import FrameSplitter

FRAME_BYTES_MAX = 1 << 20


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def frames(splitter: FrameSplitter) -> list[bytes]:
    return list(iter(splitter.next_untrusted, None))


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(1, 30)))
def test_frames_are_the_same_however_they_are_cut(contents: list[bytes], cuts: list[int]) -> None:
    """Halves of lengths, several at once, empty ones."""
    splitter, found = FrameSplitter(FRAME_BYTES_MAX), list[bytes]()
    stream = b"".join(frame(content) for content in contents)
    while stream:
        size = cuts.pop() if cuts else len(stream)
        splitter.feed(stream[:size])
        found += frames(splitter)
        stream = stream[size:]
    assert found == contents and splitter.buffered_bytes == 0


def test_the_beginning_of_a_large_frame_is_not_copied_with_each_piece() -> None:
    """A megabyte in pieces of 1,448 bytes, as they come off the wire: looked at once its length is known, and once it is whole."""
    splitter, looks = FrameSplitter(FRAME_BYTES_MAX), 0
    stream = frame(bytes(FRAME_BYTES_MAX))
    for start in range(0, len(stream), 1448):
        assert not frames(splitter)
        splitter.feed(stream[start : start + 1448])
        looks += bool(splitter.first_bytes())
    assert looks == 2
    assert frames(splitter) == [bytes(FRAME_BYTES_MAX)]
