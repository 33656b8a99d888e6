"""A store in RocksDB with a damaged block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from virtuallog.contract.errors import CorruptionError
from virtuallog.runtime.rocks_map import RocksMap, open_rocks_map

SCANS: dict[str, Callable[[RocksMap], Awaitable[Any]]] = {
    "scan": lambda store: store.scan(b""),
    "span": lambda store: store.scan_span((b"", b"\xff"), 1 << 20),
}


@pytest.mark.parametrize("scan", SCANS.values(), ids=list(SCANS))
async def test_a_damaged_block_does_not_lock_the_directory(
    tmp_path: Path, scan: Callable[[RocksMap], Awaitable[Any]]
) -> None:
    """Each scan reports the damage, also while the error of the former one is still held; a later one finds the directory free."""
    directory = tmp_path / "store"
    async with open_rocks_map(directory) as store:
        await store.write({b"%d" % number: bytes(300) for number in range(30)})
    (file,) = directory.glob("*.sst")
    block = bytearray(file.read_bytes())
    block[200] ^= 1
    file.write_bytes(block)
    errors = list[CorruptionError]()
    for _ in range(3):
        async with open_rocks_map(directory) as store:
            with pytest.raises(CorruptionError) as raised:
                await scan(store)
            errors.append(raised.value)
    assert len(errors) == 3
