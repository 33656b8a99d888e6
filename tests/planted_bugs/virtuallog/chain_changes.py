"""Changes that claim to have been made, and a trim point that is returned without a look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tests.planted_bugs.mutant import Mutant, mutant
from tests.planted_bugs.virtuallog.virtual_log import QUIET
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId
from virtuallog.reconfiguration.chain_writer import ChainWriter

_ORIGIN: Final = LogletOffset(0)


@mutant(ChainWriter.change_members, scenario="cluster", options=QUIET, found_by=["changes take effect"])
async def members_that_are_not_changed(
    self: ChainWriter, members: Sequence[NodeId], seen: Sequence[NodeId] | None = None
) -> Register:
    """The register as it is comes back; the operator shuts the former members down."""
    return await self._view.refresh()


@mutant(VirtualLog.reconfig_modify, scenario="cluster", options=QUIET, found_by=["changes take effect"])
async def modify_that_leaves_the_original(
    self: VirtualLog,
    segment: SegmentId,
    kind: str,
    config: bytes,
    base: LogletOffset = _ORIGIN,
    directories: Mapping[NodeId, bytes] | None = None,
) -> Register:
    """The chain stays as it is; the operator throws the original away."""
    return await self.view.refresh()


@mutant(VirtualLog.seal, scenario="cluster", options=QUIET, found_by=["changes take effect"])
async def close_that_closes_nothing(self: VirtualLog) -> Register:
    """The log goes on."""
    return await self.view.refresh()


@mutant(VirtualLog.find_trim_point, scenario="cluster", options=QUIET, found_by=["trim points move forward"])
async def trim_point_that_is_always_zero(self: VirtualLog) -> LogPosition:
    """No loglet is asked."""
    return LogPosition(0)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
