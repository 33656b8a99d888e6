"""Reader of slots, several at once. It tells why a slot is missing: trimmed, dropped, not written, or lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import CorruptionError, MalformedError, UnavailableError, VirtualLogError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import Gap, GapKind
from virtuallog.contract.znodes import Znode, Znodes
from virtuallog.exactly_once import slot_offsets as places
from virtuallog.exactly_once.slot_offsets import INDEX_BITS
from virtuallog_loglets.zookeeper.core.layout import ZooKeeperLayout
from virtuallog_loglets.zookeeper.core.records import decode_trim_untrusted
from virtuallog_loglets.zookeeper.drivers.base_znodes import BaseZnodes
from virtuallog_loglets.zookeeper.drivers.slots import ZooKeeperSlots

FIRST_SLOTS: Final = 2
"""Slots requested together at first. Their size decides how many are requested next."""
SLOTS_MAX: Final = 32
"""Most slots requested together: enough to fill the time of an answer; 28 MB if all are of the largest size."""


@attrs.frozen(eq=False)
class SlotReader:
    """Slot reader of one client of a loglet."""

    _layout: ZooKeeperLayout
    _znodes: Znodes
    _base_znodes: BaseZnodes
    _slots: ZooKeeperSlots

    async def read(self, start: int, stop: int, max_bytes: int) -> Sequence[Placed]:
        """See `Loglet.read`."""
        found = _Found(start, stop)
        size, width, slot, end = 0, FIRST_SLOTS, start >> INDEX_BITS, ((stop - 1) >> INDEX_BITS) + 1
        while slot < end:
            batches, znodes = await self._slots.read(slot, min(slot + width, end))
            if batches is not None:
                self._base_znodes.recognise(batches.stat)
            for znode in znodes:
                body = await self._body(znode, found)
                if found.damage is not None:
                    return found.result()
                if znode is None or body is None:
                    return found.items or [*await self._ask_again(slot, found)]
                if not found.add_untrusted(slot, body, znode):
                    return found.result()
                size += len(body)
                slot += 1
                if size >= max_bytes and found.items:  # those that follow may be of several chunks each
                    return found.result()
            width = max(1, min(SLOTS_MAX, (max_bytes - size) * (slot - (start >> INDEX_BITS)) // max(1, size)))
        return found.result()

    async def _ask_again(self, slot: int, found: _Found) -> Sequence[Placed]:
        """Read a missing slot again: the server that answered may lag, and a fresh answer has it."""
        layout, segment = self._layout, self._layout.segment
        # The tail is read before the slot; otherwise a slot written in between would count as
        # lost.
        seal, batches, znode = await self._znodes.read([layout.base, layout.batches, layout.slot(slot)], fresh=True)
        body = await self._body(znode, found)
        # The trim point is read after the slot and its chunks: a client that deletes them has
        # moved it before.
        (trim,) = await self._znodes.read([layout.trim], fresh=True)
        self._base_znodes.check_dropped(seal)
        if seal is None or trim is None or batches is None:
            self._base_znodes.missing()
            raise UnavailableError(f"ZooKeeper has no loglet {segment}, at {layout.root}")
        self._base_znodes.recognise(batches.stat)
        trimmed = decode_trim_untrusted(trim.data).trim
        if znode is not None and body is not None:
            found.add_untrusted(slot, body, znode)
        elif trimmed >> INDEX_BITS > slot:
            return [Gap(found.start, min(trimmed, found.stop), GapKind.TRIMMED)]
        elif found.damage is None and slot >= batches.stat.version:
            raise UnavailableError(f"offset {found.start} of loglet {segment} is not written")
        elif found.damage is None:
            raise self._base_znodes.lost(f"slot {slot} is not there, and is not trimmed")
        return found.result()

    async def _body(self, znode: Znode | None, found: _Found) -> bytes | None:
        """Bundle of a slot; None if the slot or a part of it is missing, or it is damaged."""
        try:
            return None if znode is None else await self._slots.body_untrusted(znode.data)
        except CorruptionError as error:
            found.damage = error
            return None


@attrs.define(eq=False)
class _Found:
    """Result of a read so far: what lies in [start, stop)."""

    start: int
    stop: int
    items: list[Placed] = attrs.field(factory=list)
    damage: VirtualLogError | None = None

    def add_untrusted(self, slot: int, body: bytes, znode: Znode) -> bool:
        """Add a slot; False if it is damaged."""
        try:
            parts = places.open_untrusted(body, 0, slot << INDEX_BITS, znode.stat.ctime_ms)
        except (MalformedError, CorruptionError) as error:
            self.damage = error
            return False
        for part in parts:
            places.add(self.items, part.clip(self.start, self.stop))
        return True

    def result(self) -> list[Placed]:
        """The items found. Raises CorruptionError if there are none because of damage."""
        if not self.items and self.damage is not None:
            raise CorruptionError(f"offset {self.start} is damaged: {self.damage}")
        return self.items
