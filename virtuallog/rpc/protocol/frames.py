"""Cuts a stream of bytes into Cap'n Proto messages, and the other way round.                                   Pure.

A frame is: number of segments minus one (u32), words in each segment (u32 each), padding to 8 bytes, the segments.
https://capnproto.org/encoding.html#serialization-over-a-stream

A frame is judged by its header before its content is waited for, so nobody can make us buffer more than
`FRAME_BYTES_MAX`. Segments are views into the received bytes: nothing is copied until a message is read.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.batch import BATCH_BYTES_MAX
from virtuallog.contract.errors import MalformedError, TooLargeError

FRAME_BYTES_MAX: Final = 2 * BATCH_BYTES_MAX + (64 << 10)
"""16 MiB and slack: the largest batch once, and as much again for replies that carry several batches and may overshoot
what was asked for by one."""
SEGMENTS_MAX: Final = 512
"""What Cap'n Proto's own readers accept. Stock writers double each segment and need few."""

Frame: TypeAlias = list[memoryview]
"""The segments of one message."""

_WORD: Final = 8
_SMALL_BYTES: Final = 4096
_GATHERED_BYTES: Final = 64 << 10
_TLS: Final = b"\x16\x03"
"""How a TLS handshake begins. As a frame it would have more segments than any may have."""
_ONE_SEGMENT: Final = struct.Struct("<II")


@attrs.define
class FrameSplitter:
    """Collects received bytes and gives back whole frames."""

    _parts: list[bytes | bytearray] = attrs.field(factory=list, init=False)
    """Of the frame at the front, which is not whole."""
    _buffered: int = attrs.field(default=0, init=False)
    _needed: int = attrs.field(default=_WORD, init=False)
    """Bytes until the frame at the front, or its header, is whole. Saves looking at every chunk of a large frame."""

    @property
    def buffered_bytes(self) -> int:
        """Of the frame at the front, which is not whole."""
        return self._buffered

    def feed_untrusted(self, chunk: bytes) -> list[Frame]:
        """The frames that `chunk` completes, in order.

        Raises:
            MalformedError: a frame is over a limit. Frames before it are lost, too: the stream cannot be trusted.
        """
        self._buffered += len(chunk)
        if self._parts or self._buffered < self._needed:
            self._keep(chunk)
            if self._buffered < self._needed:
                return []
            chunk = b"".join(self._parts)
            self._parts.clear()
        frames, start, self._needed = _cut_all_untrusted(memoryview(chunk))
        self._buffered = len(chunk) - start
        if self._buffered:  # copied: as a view it would keep the whole chunk in memory
            self._parts.append(bytearray(memoryview(chunk)[start:]))
        return frames

    def _keep(self, chunk: bytes) -> None:
        """Small chunks are gathered: as objects of their own, single bytes would cost forty times their size."""
        last = self._parts[-1] if self._parts else None
        if len(chunk) >= _SMALL_BYTES:
            self._parts.append(chunk)
        elif isinstance(last, bytearray) and len(last) < _GATHERED_BYTES:
            last += chunk
        else:
            self._parts.append(bytearray(chunk))


def _cut_all_untrusted(view: memoryview) -> tuple[list[Frame], int, int]:
    """All whole frames in `view`, the bytes they take, and the bytes needed to get further after them."""
    frames: list[Frame] = []
    start = 0
    while True:
        frame, size = _cut_untrusted(view[start:] if start else view)
        if frame is None:
            return frames, start, size
        frames.append(frame)
        start += size


def _cut_untrusted(view: memoryview) -> tuple[Frame | None, int]:
    """The frame at the front of `view` and its size; or None and the bytes needed to get further."""
    available = len(view)
    if available < _WORD:
        return None, _WORD
    more_segments, first_words = _ONE_SEGMENT.unpack_from(view)
    if not more_segments:
        size = _WORD + first_words * _WORD
        _check_size(size)
        return ([view[_WORD:size]], size) if available >= size else (None, size)
    return _cut_segments_untrusted(view, more_segments + 1)


def _cut_segments_untrusted(view: memoryview, segments: int) -> tuple[Frame | None, int]:
    if segments > SEGMENTS_MAX:
        if bytes(view[:2]) == _TLS:
            raise MalformedError("the other side speaks TLS")
        raise MalformedError(f"a frame of {segments} segments, where {SEGMENTS_MAX} is the limit")
    header = _header_bytes(segments)
    if len(view) < header:
        return None, header
    sizes = [words * _WORD for words in struct.unpack_from(f"<{segments}I", view, 4)]
    size = header + sum(sizes)
    _check_size(size)
    if len(view) < size:
        return None, size
    frame, start = [], header
    for segment_bytes in sizes:
        frame.append(view[start : start + segment_bytes])
        start += segment_bytes
    return frame, size


def _check_size(size: int) -> None:
    if size > FRAME_BYTES_MAX:
        raise MalformedError(f"a frame of {size} bytes, where {FRAME_BYTES_MAX} is the limit")


def _header_bytes(segments: int) -> int:
    """A count and one size per segment, 4 bytes each, padded to whole words."""
    return (4 + 4 * segments + 7) & ~7


def pack(segments: Sequence[bytes]) -> list[bytes]:
    """The chunks that make up the frame of a message: header, then its segments as they are.

    Raises:
        TooLargeError: no receiver would take such a frame.
    """
    size = sum(map(len, segments))
    if size + _header_bytes(len(segments)) > FRAME_BYTES_MAX:
        raise TooLargeError(what="bytes in a message", size=size, limit=FRAME_BYTES_MAX)
    if len(segments) == 1:
        return [_ONE_SEGMENT.pack(0, size // _WORD), *segments]
    header = struct.pack(f"<{1 + len(segments)}I", len(segments) - 1, *(len(s) // _WORD for s in segments))
    return [header.ljust(_header_bytes(len(segments)), b"\0"), *segments]


@attrs.define
class Outbox:
    """Frames on their way out, in order."""

    waiting_bytes: int = attrs.field(default=0, init=False)
    """How many wait for `take`."""
    _chunks: list[bytes] = attrs.field(factory=list, init=False)

    def put(self, segments: Sequence[bytes]) -> None:
        """Add one message.

        Raises:
            TooLargeError: no receiver would take it. Nothing was added.
        """
        for chunk in pack(segments):
            self.add(chunk)

    def add(self, chunk: bytes) -> None:
        """Add what is a frame, or a part of one, already."""
        self._chunks.append(chunk)
        self.waiting_bytes += len(chunk)

    def take(self, enough_bytes: int = sys.maxsize) -> list[bytes]:
        """What there is, once: everything, or from the front on until it is enough."""
        chunks = self._chunks
        if self.waiting_bytes <= enough_bytes:
            self._chunks, self.waiting_bytes = [], 0
            return chunks
        count = size = 0
        while size < enough_bytes:
            size += len(chunks[count])
            count += 1
        taken = chunks[:count]
        del chunks[:count]
        self.waiting_bytes -= size
        return taken
