"""PNG files with a table of colours: some tens of KiB for a picture of a page, a third of what a browser writes."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Final

COLOURS_MAX: Final = 256
"""Most colours of a table."""
CHANNELS: Final = 3


def smaller(png: bytes) -> bytes:
    """The picture with its most frequent colours in a table, and the nearest of them for the others. The same if it has another form."""
    width, height, depth, form = struct.unpack(">IIBB", png[16:26])
    if (depth, form) != (8, 2):
        return png
    rows = unfiltered(zlib.decompress(b"".join(data for kind, data in chunks(png) if kind == b"IDAT")), width, height)
    counted = Counter(pixel for row in rows for pixel in pixels(row))
    table = [pixel for pixel, _ in counted.most_common(COLOURS_MAX)]
    index = {pixel: nearest(pixel, table) for pixel in counted}
    body = b"".join(b"\0" + bytes(index[pixel] for pixel in pixels(row)) for row in rows)
    made = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", b"".join(table)),
        (b"IDAT", zlib.compress(body, 9)),
        (b"IEND", b""),
    ]
    return png[:8] + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in made
    )


def chunks(png: bytes) -> list[tuple[bytes, bytes]]:
    """Kinds and contents of the chunks of a PNG."""
    found, at = [], 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        found.append((png[at + 4 : at + 8], png[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def pixels(row: bytes) -> list[bytes]:
    """Colours of a row."""
    return [row[at : at + CHANNELS] for at in range(0, len(row), CHANNELS)]


def nearest(pixel: bytes, table: Sequence[bytes]) -> int:
    """Place of the most similar colour in the table."""
    return min(
        range(len(table)), key=lambda place: sum((a - b) ** 2 for a, b in zip(pixel, table[place], strict=True))
    )  # fmt: skip


def unfiltered(data: bytes, width: int, height: int) -> list[bytes]:
    """Rows of a picture without the filters of PNG."""
    length = width * CHANNELS
    rows, before = [], bytearray(length)
    for number in range(height):
        start = number * (length + 1)
        row = bytearray(data[start + 1 : start + 1 + length])
        for at in range(length):
            left = row[at - CHANNELS] if at >= CHANNELS else 0
            corner = before[at - CHANNELS] if at >= CHANNELS else 0
            row[at] = row[at] + _predicted(data[start], left, before[at], corner) & 0xFF
        rows.append(bytes(row))
        before = row
    return rows


def _predicted(kind: int, left: int, up: int, corner: int) -> int:
    if kind == 4:  # Paeth
        base = left + up - corner
        return min((left, up, corner), key=lambda value: abs(base - value))
    return (0, left, up, (left + up) // 2)[kind]
