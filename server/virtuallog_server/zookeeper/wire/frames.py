"""Cuts a stream of bytes into frames: an int length, and as many bytes.                                           Pure.

A frame is judged by its length before its content is waited for. The first four bytes of a connection may be a command of
four letters instead: as a length it would be more than 1 GiB.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from virtuallog.contract.errors import MalformedError

_LENGTH: Final = struct.Struct(">i")
LENGTH_BYTES: Final = 4


@attrs.define
class FrameSplitter:
    """Collects received bytes and gives back whole frames, one at a time."""

    frame_bytes_max: int
    _content: bytes = attrs.field(default=b"", init=False)
    _at: int = attrs.field(default=0, init=False)
    """Where in `_content` the next frame begins."""
    _partial: bytearray = attrs.field(factory=bytearray, init=False)
    """The beginning of a frame that was not whole when it was looked at last; in front of everything in `_content`."""
    _needed: int = attrs.field(default=LENGTH_BYTES, init=False)
    """Bytes until that frame, or its length, is whole: saves looking at every chunk of a large frame."""

    @property
    def buffered_bytes(self) -> int:
        return len(self._partial) + len(self._content) - self._at

    def feed(self, chunk: bytes) -> None:
        """More has come."""
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
        """Four bytes, or fewer if no more have come; they stay where they are."""
        return self._content[self._at : self._at + LENGTH_BYTES]

    def next_untrusted(self) -> bytes | None:
        """The content of the next frame; None: it is not whole.

        Raises:
            MalformedError: its length is negative, or over the limit. There is no way on from there.
        """
        content, at = self._content, self._at
        left = len(content) - at
        if left < LENGTH_BYTES:
            if not self._partial:  # else it is known already: nothing is here to look at until then
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
