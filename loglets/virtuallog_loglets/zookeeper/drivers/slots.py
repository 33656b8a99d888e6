"""Contents of slots: written whole or in chunks, read several at once, found by the transaction
that created them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import attrs
from crc32c import crc32c

from virtuallog.contract.batch import Batch
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import CorruptionError
from virtuallog.contract.znodes import Check, Create, Znode, ZnodeExistsError, Znodes
from virtuallog.exactly_once import bundle
from virtuallog_loglets.zookeeper.core.layout import ZooKeeperLayout
from virtuallog_loglets.zookeeper.core.records import CHUNK_BYTES, ChunkManifest, decode_manifest_untrusted

PROBES: Final = 16
"""Slots probed together in a search for one."""

_CHUNK = CrashPoint("zookeeper: one chunk more of a large batch is written, its slot is not", rare=True)


@attrs.frozen(eq=False)
class ZooKeeperSlots:
    """Slots of one loglet."""

    _layout: ZooKeeperLayout
    _znodes: Znodes

    async def prepare(self, batches: Sequence[Batch]) -> bytes:
        """Content of the slot for these batches. If that is too much for a znode, its chunks have
        been written on return.

        Raises:
            BadVersionError: the loglet is sealed.
            NoZnodeError: it does not exist.
            UnavailableError: some chunks may be written, now or later. A repeated attempt writes the same ones.
        """
        body = bundle.join(batches)
        if len(body) <= CHUNK_BYTES:
            return body
        manifest = ChunkManifest.of(batches[0], body)
        for number, name in enumerate(manifest.names):
            part = body[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES]
            with suppress(ZnodeExistsError):  # from an earlier attempt
                await self._znodes.multi([Check(self._layout.base, 0), Create(f"{self._layout.chunks}/{name}", part)])
            _CHUNK.reached()
        return manifest.encode()

    async def read(self, start: int, stop: int) -> tuple[Znode | None, Sequence[Znode | None]]:
        """The `batches` znode and the slots in [start, stop), as stored. None for each that the
        answering server lacks."""
        numbers = range(start, stop)
        batches, *found = await self._znodes.read([self._layout.batches, *map(self._layout.slot, numbers)])
        return batches, found

    async def body_untrusted(self, data: bytes) -> bytes | None:
        """The bundle that a slot stands for; None if the answering server lacks a chunk.

        Raises:
            CorruptionError: the chunks are not what was written.
        """
        manifest = decode_manifest_untrusted(data)
        if manifest is None:
            return data
        found = await self._znodes.read([f"{self._layout.chunks}/{name}" for name in manifest.names])
        body = b"".join(chunk.data for chunk in found if chunk is not None)
        if any(chunk is None for chunk in found):
            return None
        if len(body) != manifest.size or crc32c(body) != manifest.checksum:
            raise CorruptionError("the chunks of a slot do not add up")
        return body

    async def find(self, zxid: int, low: int, high: int) -> int | None:
        """Slot in [low, high) that this transaction created; None if it has been trimmed.

        Slots are created in the order of transactions and deleted from the beginning.
        """
        while low < high:
            step = -(-(high - low) // PROBES)
            probes = range(low, high, step)
            found = await self._znodes.stats([self._layout.slot(number) for number in probes])
            below = [number for number, stat in zip(probes, found, strict=True) if stat is None or stat.czxid <= zxid]
            if not below:
                return None
            low, high = below[-1], min(below[-1] + step, high)
            stat = found[probes.index(low)]
            if stat is not None and stat.czxid == zxid:
                return low
            low += 1
        return None
