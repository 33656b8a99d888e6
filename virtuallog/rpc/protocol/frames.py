"""Frames: cuts a stream of bytes into Cap'n Proto messages, and packs messages into frames.

A frame is: number of segments minus one (u32), words in each segment (u32 each), padding to 8
bytes, the segments. https://capnproto.org/encoding.html#serialization-over-a-stream

A frame is judged by its header before its content is awaited, so a peer cannot make us buffer more
than `FRAME_BYTES_MAX`. Segments are views into the received bytes: nothing is copied until a
message is read.
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
"""16 MiB and slack: the largest batch once, and as much again for replies with several batches.

Such replies may overshoot the requested size by one batch.
"""
SEGMENTS_MAX: Final = 512
"""Limit of Cap'n Proto's own readers. Stock writers double each segment and need few."""

Frame: TypeAlias = list[memoryview]
"""The segments of one message."""

_WORD: Final = 8
_SMALL_BYTES: Final = 4096
_GATHERED_BYTES: Final = 64 << 10
_TLS: Final = b"\x16\x03"
"""First bytes of a TLS handshake. As a frame it would have more segments than allowed."""
_ONE_SEGMENT: Final = struct.Struct("<II")


@attrs.define
class FrameSplitter:
    """Collects received bytes and returns whole frames."""

    buffered_bytes: int = attrs.field(default=0, init=False)
    """Bytes of the incomplete frame at the front."""
    _parts: list[bytes | bytearray] = attrs.field(factory=list, init=False)
    """Parts of the incomplete frame at the front."""
    _needed: int = attrs.field(default=_WORD, init=False)
    """Bytes until the frame at the front, or its header, is whole. Saves looking at every chunk of
    a large frame."""

    def feed_untrusted(self, chunk: bytes) -> list[Frame]:
        """Return the frames that `chunk` completes, in order.

        Raises:
            MalformedError: a frame is over a limit. Frames before it are lost, too: the stream
                cannot be trusted.
        """
        if not self._parts and (frame := _only_frame(chunk)) is not None:
            return [frame]
        self.buffered_bytes += len(chunk)
        if self._parts or self.buffered_bytes < self._needed:
            self._keep(chunk)
            if self.buffered_bytes < self._needed:
                return []
            chunk = b"".join(self._parts)
            self._parts.clear()
        frames, start, self._needed = _cut_all_untrusted(memoryview(chunk))
        self.buffered_bytes = len(chunk) - start
        if self.buffered_bytes:  # copied: a view would keep the whole chunk in memory
            self._parts.append(bytearray(memoryview(chunk)[start:]))
        return frames

    def _keep(self, chunk: bytes) -> None:
        """Keep a chunk. Small ones are joined: as objects of their own, single bytes would cost
        forty times their size."""
        last = self._parts[-1] if self._parts else None
        if len(chunk) >= _SMALL_BYTES:
            self._parts.append(chunk)
        elif isinstance(last, bytearray) and len(last) < _GATHERED_BYTES:
            last += chunk
        else:
            self._parts.append(bytearray(chunk))


def _only_frame(chunk: bytes) -> Frame | None:
    """Return the frame that `chunk` is, if it is one of a single segment. Nearly every read brings just one."""
    size = len(chunk)
    if size < _WORD or size > FRAME_BYTES_MAX or _ONE_SEGMENT.unpack_from(chunk) != (0, (size - _WORD) // _WORD):
        return None
    return [memoryview(chunk)[_WORD:]] if not size % _WORD else None


def _cut_all_untrusted(view: memoryview) -> tuple[list[Frame], int, int]:
    """Return all whole frames in `view`, the bytes they take, and the bytes needed for the next step."""
    frames: list[Frame] = []
    start = 0
    while True:
        frame, size = _cut_untrusted(view[start:] if start else view)
        if frame is None:
            return frames, start, size
        frames.append(frame)
        start += size


def _cut_untrusted(view: memoryview) -> tuple[Frame | None, int]:
    """Return the frame at the front of `view` and its size; or None and the bytes needed for the
    next step."""
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
    """Size of a header: a count and one size per segment, 4 bytes each, padded to whole words."""
    return (4 + 4 * segments + 7) & ~7


def pack(segments: Sequence[bytes]) -> list[bytes]:
    """Return the chunks of a message's frame: the header, then the segments as they are.

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
    """Outgoing frames, in order."""

    waiting_bytes: int = attrs.field(default=0, init=False)
    """Bytes that wait for `take`."""
    _chunks: list[bytes] = attrs.field(factory=list, init=False)

    def put(self, segments: Sequence[bytes]) -> None:
        """Add one message.

        Raises:
            TooLargeError: no receiver would take it. Nothing was added.
        """
        if len(segments) == 1 and (size := len(segments[0])) <= FRAME_BYTES_MAX - _WORD:
            self._chunks += (_ONE_SEGMENT.pack(0, size // _WORD), segments[0])
            self.waiting_bytes += _WORD + size
        else:
            for chunk in pack(segments):
                self.add(chunk)

    def add(self, chunk: bytes) -> None:
        """Add bytes that are a frame, or a part of one, already."""
        self._chunks.append(chunk)
        self.waiting_bytes += len(chunk)

    def take(self, enough_bytes: int = sys.maxsize) -> list[bytes]:
        """Remove and return everything, or chunks from the front until there are `enough_bytes`."""
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
