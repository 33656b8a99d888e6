"""Replacement of the loglet under a closed segment by another one with the same entries."""

from __future__ import annotations

import attrs

from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.errors import InvalidSettingError, SealedError, VirtualLogError
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogPosition, Sealed
from virtuallog.reconfiguration.chain_cache import ChainCache
from virtuallog.reconfiguration.chain_writer import ChainWriter
from virtuallog.reconfiguration.core.chain_change import Modify


@attrs.frozen(eq=False)
class SegmentModification:
    """Modifies segments for one client: checks the copy, changes the chain, carries trims over to the copy."""

    _view: ChainCache
    _chain_writer: ChainWriter

    async def run(self, modification: Modify) -> Register:
        """Modify a segment; see `VirtualLog.reconfig_modify`.

        Trims that begin after the put find the copy in the chain, as each looks at the chain once more when it is done.
        """
        segments = (await self._view.refresh()).chain.segments
        old = next((segment for segment in segments if segment.id == modification.segment), None)
        if old is not None and old.stop is not None:
            await self._check_copy(old, old.stop, modification)
        # Asked before the change as well: the servers drop the original once no chain has it.
        trimmed = LogPosition(0) if old is None else await self._trim_point(old)
        # Copies that were lost are made again in any case: it grows the register once, and by other servers only.
        planned = old is None or old.kind != modification.kind
        register = (await self._chain_writer.change(modification, planned=planned)).register
        new = None if old is None else register.chain.segment_at(old.start)
        if old is not None and new is not None and new.id != old.id:
            await self._carry_trim(max(trimmed, await self._trim_point(old)), new)
        return register

    async def _check_copy(self, old: Segment, stop: LogPosition, modification: Modify) -> None:
        """Check, from here, that the copy exists and is sealed at or past the end of the segment.

        Once it is in the chain, all clients depend on it.

        Raises:
            InvalidSettingError: it is open, or too short, or has been dropped.
            VirtualLogError: an error of its `check_tail`: it cannot be reached, or is damaged.
        """
        environment = self._view.environment
        # The copy has entries before it has a segment: its config says where they are, and any id opens it. The id
        # of its segment is not known before the put.
        placeholder = SegmentId(old.id.version, environment.random.getrandbits(63))
        opened = self._view.provider(modification.kind).open(placeholder, modification.config, environment)
        try:
            tail = await opened.check_tail()
        except SealedError as error:
            raise InvalidSettingError(f"segment {old.id}", f"the {modification.kind} copy is gone: {error}") from error
        length = stop - old.start
        if not isinstance(tail, Sealed) or tail.tail < modification.base + length:
            found = f"the {modification.kind} copy is {type(tail).__name__.lower()} at {tail.tail}"
            raise InvalidSettingError(
                f"segment {old.id}", f"{found}, and has to be sealed at {modification.base + length}"
            )

    async def _trim_point(self, segment: Segment) -> LogPosition:
        """Trim point of a closed segment; its start if that cannot be found out: the copy may be all that is left."""
        try:
            return segment.position(await self._view.loglet(segment).prefix_trim(segment.offset(segment.start)))
        except VirtualLogError:
            # Not only silence: files of an archive may be damaged, and the copy that replaces them is whole.
            return segment.start

    async def _carry_trim(self, trimmed: LogPosition, copy: Segment) -> None:
        if trimmed > copy.start and copy.stop is not None:
            await self._view.loglet(copy).prefix_trim(copy.offset(min(trimmed, copy.stop)))
