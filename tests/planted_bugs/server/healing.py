"""Bugs of failure detection, of the policy, and of rebuilds."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract import placement
from virtuallog.contract.chain import Chain, SegmentId
from virtuallog.contract.placement import Member
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider, Pace
from virtuallog.contract.types import LogletOffset, NodeId
from virtuallog_loglets.native.provider import NativeProvider
from virtuallog_server.healing.core.failure_detector import Condition, FailureDetector
from virtuallog_server.healing.core.healing_policy import Decision, PlacedSegment, ReplaceFailed
from virtuallog_server.node.register_follower import live_loglets

failed_once = FailureDetector.failed


@mutant(FailureDetector.failed, scenario="nervous", within=10, found_by=["healing"])
def one_missed_probe_is_a_suspicion(self: FailureDetector, node: NodeId, now: float) -> None:
    """A node that is slow once is replaced."""
    for _ in range(3):
        failed_once(self, node, now)


@mutant(ReplaceFailed._heal_sequencer, scenario="bereft", within=10, found_by=["progress"])
def silent_sequencer_replaced_by_nobody(
    self: ReplaceFailed, nodes: Mapping[NodeId, Condition], placed: PlacedSegment
) -> Decision | None:
    """Appends wait for an operator."""
    return None


@mutant(placement.default_servers, scenario="bereft", within=10, found_by=["healing"])
def dead_server_left_out_without_a_spare_node(
    candidates: Sequence[Member], former: Collection[NodeId], count: int, role: str
) -> tuple[NodeId, ...]:
    """The new loglet has as many copies as there are nodes just now, one if two of three live."""
    living = sorted(member.node for member in candidates if member.alive)
    wanted = min(count, len(living))
    return tuple(living[: wanted - (wanted % 2 == 0)])


@mutant(NativeProvider.replicate, scenario="rebuilt", within=10, found_by=["healing"])
async def rebuild_put_before_the_copy_is_complete(
    self: NativeProvider,
    segment: SegmentId,
    config: bytes,
    target: bytes,
    stop: LogletOffset,
    environment: Environment,
    pace: Pace,
    lost: Collection[NodeId] = (),
) -> None:
    """The chain names a newcomer that has nothing."""


@mutant(live_loglets, scenario="rebuilt", within=10, found_by=["healing", "acknowledged is readable"])
def moved_loglet_forgotten(chain: Chain, providers: Mapping[str, LogletProvider]) -> Collection[SegmentId] | None:
    """A node goes by the id of the segment, which is new, while its entries are kept under the old one."""
    return [segment.id for segment in chain.segments]


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
