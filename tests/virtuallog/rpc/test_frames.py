"""Cutting a byte stream into frames."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtuallog.contract.errors import MalformedError, TooLargeError
from virtuallog.rpc.protocol.frames import FRAME_BYTES_MAX, SEGMENTS_MAX, FrameSplitter, Outbox, pack

SEGMENTS = st.lists(st.integers(0, 5).map(lambda words: b"12345678" * words), min_size=1, max_size=5)


def contents(frames: list[list[memoryview]]) -> list[list[bytes]]:
    return [[bytes(segment) for segment in frame] for frame in frames]


@given(st.lists(SEGMENTS, max_size=6), st.data())
def test_any_cut_of_the_stream_gives_the_same_frames(messages: list[list[bytes]], data: st.DataObject) -> None:
    """Whole, byte by byte, or in random pieces: the frames are those that were packed."""
    stream = b"".join(chunk for message in messages for chunk in pack(message))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]

    for chunks in ([stream], [bytes([byte]) for byte in stream], pieces):
        splitter = FrameSplitter()
        assert [frame for chunk in chunks for frame in contents(splitter.feed_untrusted(chunk))] == messages


@pytest.mark.parametrize("chunk_bytes", [1, 64, 5000, 1 << 16])
def test_frame_in_parts_is_joined_once_and_costs_what_it_weighs(chunk_bytes: int) -> None:
    """A frame in chunks of any size is not examined before it is whole, and chunks are not kept one
    by one."""
    (header, body) = pack([b"x" * (1 << 18)])
    splitter = FrameSplitter()
    splitter.feed_untrusted(header)
    for start in range(0, len(body) - chunk_bytes, chunk_bytes):
        assert splitter.feed_untrusted(body[start : start + chunk_bytes]) == []
    assert len(splitter._parts) <= 1 + (1 << 18) // 4096
    rest = len(body) - sum(map(len, splitter._parts)) + len(header)

    assert contents(splitter.feed_untrusted(body[-rest:])) == [[body]]


@pytest.mark.parametrize(
    "header",
    [
        struct.pack("<II", 0, FRAME_BYTES_MAX // 8),
        struct.pack("<II", 0, 0xFFFFFFFF),
        struct.pack("<IIII", 1, FRAME_BYTES_MAX // 16, FRAME_BYTES_MAX // 16, 0),
        struct.pack("<II", SEGMENTS_MAX, 0),
        struct.pack("<II", 0xFFFFFFFF, 0),
    ],
)
def test_frame_over_a_limit_is_refused_by_its_header(header: bytes) -> None:
    """A frame over a limit is refused by its header, without waiting or buffering."""
    with pytest.raises(MalformedError):
        FrameSplitter().feed_untrusted(header)


def test_message_that_no_receiver_would_take_is_not_sent() -> None:
    """A message that is too large for a frame is refused before anything is queued."""
    outbox = Outbox()

    with pytest.raises(TooLargeError):
        outbox.put([b"\0" * FRAME_BYTES_MAX])
    assert outbox.take() == []
    assert outbox.waiting_bytes == 0


def test_outbox_gives_enough_from_the_front_and_keeps_the_rest() -> None:
    """The outbox gives chunks in order, and always at least one of any size."""
    outbox = Outbox()
    for letter in (b"a", b"b", b"c"):
        outbox.put([letter * 64])
    outbox.put([b"d" * 4096])
    sent = outbox.take(100)

    assert len(b"".join(sent)) == 144
    assert outbox.waiting_bytes == 72 + 8 + 4096
    sent += outbox.take(100)
    sent += outbox.take(100)
    assert outbox.waiting_bytes == 0
    assert outbox.take(100) == []
    assert contents(FrameSplitter().feed_untrusted(b"".join(sent))) == [
        [b"a" * 64], [b"b" * 64], [b"c" * 64], [b"d" * 4096],
    ]  # fmt: skip


def test_outbox_gives_everything_once() -> None:
    """The outbox gives everything once, in order, and its count of bytes follows."""
    outbox = Outbox()
    outbox.put([b"a" * 8])
    outbox.put([b"b" * 8, b"c" * 16])

    assert outbox.waiting_bytes == 16 + 16 + 24
    assert contents(FrameSplitter().feed_untrusted(b"".join(outbox.take()))) == [[b"a" * 8], [b"b" * 8, b"c" * 16]]
    assert outbox.waiting_bytes == 0
