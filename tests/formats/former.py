"""A cluster as the first version left it on disk: `data/format-1.tar.xz`, made by the code of commit 558583f.

Three nodes (127.0.0.1:9801 to 9803: their addresses are in the register), WAL segments of 96 KiB, 4,200 entries of 100
bytes in four loglets (one of them empty), trims at 700 and 1,600, an end by SIGTERM. `expected.json` says what its client
had been told. Entry n is `entry n ......`; which position it got was up to chance, so the order is kept as a hash.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path

import attrs

_ARCHIVE = Path(__file__).with_name("data") / "format-1.tar.xz"


@attrs.frozen
class Expected:
    """Content of the log when the first version stopped."""

    trim: int
    tail: int
    order_sha256: str

    def holds(self, payloads: Iterable[bytes]) -> bool:
        """True if these are the entries from `trim` to `tail`, in order."""
        order = [int(payload.split()[1]) for payload in payloads]
        return hashlib.sha256(json.dumps(order).encode()).hexdigest() == self.order_sha256


def unpack(folder: Path) -> Expected:
    """Lay the cluster out in `folder`."""
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return Expected(**json.loads((folder / "expected.json").read_text()))
