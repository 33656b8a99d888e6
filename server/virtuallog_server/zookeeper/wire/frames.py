"""Splitter of a byte stream into frames: an int length, and as many bytes.

A frame is judged by its length before its content arrives. The first four bytes of a connection may be a command of four letters
instead: as a length it would be more than 1 GiB.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from virtuallog.contract.errors import MalformedError

_LENGTH: Final = struct.Struct(">i")
LENGTH_BYTES: Final = 4
"""Bytes of the length in front of each frame."""


@attrs.define
class FrameSplitter:
    """Collects received bytes and returns whole frames, one at a time."""

    frame_bytes_max: int
    _content: bytes = attrs.field(default=b"", init=False)
    _at: int = attrs.field(default=0, init=False)
    """Start of the next frame in `_content`."""
    _partial: bytearray = attrs.field(factory=bytearray, init=False)
    """The beginning of an incomplete frame, in front of everything in `_content`."""
    _needed: int = attrs.field(default=LENGTH_BYTES, init=False)
    """Bytes missing from that frame, or from its length. With it a large frame is not inspected at each chunk."""

    @property
    def buffered_bytes(self) -> int:
        return len(self._partial) + len(self._content) - self._at

    def feed(self, chunk: bytes) -> None:
        """Add received bytes."""
        if self._at < len(self._content):
            self._partial += self._content[self._at :]
        elif not self._partial:
            self._content, self._at = chunk, 0
            return
        self._content, self._at = b"", 0
        self._partial += chunk
        if len(self._partial) >= self._needed:
            self._content = bytes(self._partial)
            self._partial.clear()

    def first_bytes(self) -> bytes:
        """The first four bytes, or fewer if no more have arrived. They stay in place."""
        return self._content[self._at : self._at + LENGTH_BYTES]

    def next_untrusted(self) -> bytes | None:
        """The content of the next frame. None if it is incomplete.

        Raises:
            MalformedError: its length is negative, or over the limit. The stream cannot be continued from there.
        """
        content, at = self._content, self._at
        left = len(content) - at
        if left < LENGTH_BYTES:
            if not self._partial:  # else it is known already: nothing can be done until then
                self._needed = LENGTH_BYTES
            return None
        (length,) = _LENGTH.unpack_from(content, at)
        if not 0 <= length <= self.frame_bytes_max:
            raise MalformedError(f"a frame of {length} bytes, where {self.frame_bytes_max} is the limit")
        start = at + LENGTH_BYTES
        end = start + length
        if end > len(content):
            self._needed = LENGTH_BYTES + length
            return None
        self._at = end
        return content[start:end]
