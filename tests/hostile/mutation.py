"""Mutations of frames: their header, the pointers of their message, the words behind those, their length."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

_WORD: Final = 8
_ENVELOPE_BYTES: Final = 14 * _WORD
"""Words that the RPC protocol wraps around the parameters of a call. Damage there ends the connection most of the time."""


def mutated(chooser: random.Random, frame: bytes) -> bytes:
    """A damaged frame. Mostly the header stays as it is: else nothing behind it is read."""
    return chooser.choices(_WAYS, _WEIGHTS)[0](chooser, bytearray(frame))


def _flip_bits(chooser: random.Random, frame: bytearray) -> bytes:
    for _ in range(chooser.choice((1, 1, 1, 2, 8))):
        frame[_some_byte(chooser, frame)] ^= 1 << chooser.randrange(8)
    return bytes(frame)


def _change_bytes(chooser: random.Random, frame: bytearray) -> bytes:
    for _ in range(chooser.choice((1, 1, 2, 16))):
        frame[_some_byte(chooser, frame)] = chooser.choice((0, 1, 0x7F, 0x80, 0xFF, chooser.randrange(256)))
    return bytes(frame)


def _change_words(chooser: random.Random, frame: bytearray) -> bytes:
    """Whole words: pointers to anywhere, sizes of anything, far pointers, capabilities."""
    at = _some_word(chooser, frame)
    frame[at : at + _WORD] = chooser.choice(
        (bytes(_WORD), b"\xff" * _WORD, chooser.randbytes(_WORD), _pointer(chooser), _pointer(chooser))
    )
    return bytes(frame)


def _copy_words(chooser: random.Random, frame: bytearray) -> bytes:
    """A word of the same message elsewhere: plausible nonsense, such as a list that contains itself."""
    source, target = _some_word(chooser, frame), _some_word(chooser, frame)
    frame[target : target + _WORD] = frame[source : source + _WORD]
    return bytes(frame)


def _change_header(chooser: random.Random, frame: bytearray) -> bytes:
    """Number and sizes of the segments."""
    at = chooser.choice((0, 1, 4, 4, 5, 6, 7))
    frame[at] = chooser.choice((0, 1, 2, 0xFF, chooser.randrange(256)))
    return bytes(frame)


def _split_segments(chooser: random.Random, frame: bytearray) -> bytes:
    """The same content as several segments."""
    words = (len(frame) - _WORD) // _WORD
    count = chooser.choice((2, 3, 4, min(words, 600)))
    cuts = sorted(chooser.randrange(words + 1) for _ in range(count - 1))
    sizes = [stop - start for start, stop in zip([0, *cuts], [*cuts, words], strict=True)]
    header = b"".join(number.to_bytes(4, "little") for number in (count - 1, *sizes))
    return header.ljust((len(header) + 7) & ~7, b"\0") + frame[_WORD:]


def _truncate(chooser: random.Random, frame: bytearray) -> bytes:
    """The rest never comes; later bytes are taken for it."""
    return bytes(frame[: chooser.randrange(1, len(frame))])


def _double(chooser: random.Random, frame: bytearray) -> bytes:
    return bytes(frame + frame)


def _insert(chooser: random.Random, frame: bytearray) -> bytes:
    at = _some_word(chooser, frame)
    return bytes(frame[:at]) + chooser.randbytes(chooser.choice((1, 8, 64))) + bytes(frame[at:])


def _random_content(chooser: random.Random, frame: bytearray) -> bytes:
    """Sound up to some point, and nothing sound behind it."""
    at = _some_word(chooser, frame)
    return bytes(frame[:at]) + chooser.randbytes(len(frame) - at)


def _random_bytes(chooser: random.Random, frame: bytearray) -> bytes:
    return chooser.randbytes(chooser.randrange(1, 200))


def _some_byte(chooser: random.Random, frame: bytearray) -> int:
    """Mostly one of the parameters."""
    start = _WORD if len(frame) <= _ENVELOPE_BYTES or chooser.random() < 0.02 else _ENVELOPE_BYTES
    return chooser.randrange(start, len(frame))


def _some_word(chooser: random.Random, frame: bytearray) -> int:
    return _some_byte(chooser, frame) & ~(_WORD - 1)


def _pointer(chooser: random.Random) -> bytes:
    """https://capnproto.org/encoding.html: kind and offset, then sizes."""
    kind, offset = chooser.randrange(4), chooser.choice((0, 1, -1, -2, 5, (1 << 29) - 1, -(1 << 29)))
    sizes = chooser.choice((0, 1, 0x0001_0001, 0xFFFF_FFFF, 7, (1 << 29) - 1 << 3 | 6, chooser.getrandbits(32)))
    return ((offset << 2 | kind) & 0xFFFF_FFFF).to_bytes(4, "little") + sizes.to_bytes(4, "little")


_WAYS: Final[tuple[Callable[[random.Random, bytearray], bytes], ...]] = (
    _flip_bits, _change_bytes, _change_words, _copy_words, _split_segments, _double, _random_content,
    _change_header, _truncate, _insert, _random_bytes,
)  # fmt: skip
_WEIGHTS: Final = (250, 250, 250, 150, 50, 1, 50, 2, 2, 2, 2)
