"""Listing of a checkpoint's files, stored beside them.

Durable format, version 1: a line `virtuallog checkpoint 1`, one line `CHECKSUM SIZE NAME` for each
file in order of names, with the CRC32C as eight hexadecimal digits, and a last line `end CHECKSUM`
with that of all lines before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from crc32c import crc32c

from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog_database.ports import CheckpointFile

LISTING: Final = "FILES"
"""Name of the file with the listing; not part of the listing."""
_TITLE: Final = "virtuallog checkpoint 1"
_FILE: Final = re.compile(r"([0-9a-f]{8}) (\d{1,18}) (\S+)")
_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


def check_name_untrusted(name: str) -> str:
    """Check the name of a checkpoint's file: it comes from a peer, and becomes a part of a path.
    Returns it.

    Raises:
        MalformedError: not a valid name.
    """
    if not _NAME.fullmatch(name) or name in {LISTING, "LOCK"}:
        raise MalformedError(f"not the name of a file of a checkpoint: {name[:100]!r}")
    return name


def encode(files: Sequence[CheckpointFile]) -> bytes:
    lines = [_TITLE, *(f"{file.checksum:08x} {file.size} {file.name}" for file in files)]
    text = "".join(f"{line}\n" for line in lines).encode()
    return text + f"end {crc32c(text):08x}\n".encode()


def decode_untrusted(text: bytes) -> list[CheckpointFile]:
    """Parse a listing made by `encode`.

    Raises:
        CorruptionError: a byte of it has changed, or it is of another version.
    """
    body, end, checksum = text.rpartition(b"end ")
    if not end or checksum != f"{crc32c(body):08x}\n".encode():
        raise CorruptionError("the listing of a checkpoint is damaged")
    title, *lines = body.decode(errors="replace").splitlines()
    if title != _TITLE:
        raise CorruptionError(f"not the listing of a checkpoint, version 1: {title[:40]!r}")
    return [_parse(line) for line in lines]


def _parse(line: str) -> CheckpointFile:
    match = _FILE.fullmatch(line)
    if match is None:
        raise CorruptionError(f"not a line of the listing of a checkpoint: {line[:100]!r}")
    return CheckpointFile(match[3], int(match[2]), int(match[1], 16))
