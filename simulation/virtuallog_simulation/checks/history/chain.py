"""Promises about the chains that clients learn: invariants I1 and I3, and the ordering rule across
segments.

Checks of the register itself, independent of its values, are in `register.py`.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Final

from virtuallog.contract import chain
from virtuallog.contract.chain import Segment, SegmentId
from virtuallog.contract.types import Open, Sealed
from virtuallog.testing.checker.actions import LogletRead, LogletTail
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.violation import Check, Violation, once, proof
from virtuallog_simulation.checks.history.facts import chains, decided, learned, newest_chain
from virtuallog_simulation.checks.history.register import REGISTER_CHECKS

__all__ = ["CHAIN_CHECKS", "REGISTER_CHECKS", "newest_chain"]

NODE_BYTES: Final = 256
"""Bytes that a node may take in the register: id, store id, some addresses and roles."""
SEGMENT_BYTES: Final = 512
"""Bytes that a segment may take, its config included."""
FIXED_BYTES: Final = 1024


def chain_is_gapless(history: History) -> Iterator[Violation]:
    """I1: on every version that was decided, and between each and the next."""
    known = chains(history)
    for version, one in decided(history).items():
        if version and version not in known:
            yield Violation("chain is gapless", f"version {version} cannot be read", proof(one.known_by))
    for version, one in known.items():
        try:
            chain.validate(one.chain)
            assert one.chain.version == version
            if version - 1 in known:
                chain.validate_successor(known[version - 1].chain, one.chain)
        except AssertionError as error:
            yield Violation("chain is gapless", f"version {version}: {error}", proof(one.known_by))


def boundaries_come_from_sealed_tails(history: History) -> Iterator[Violation]:
    """I3: a client that puts a stop into the chain has read it from the sealed loglet before.

    So two loglets never own one unwritten position: the seal stands between them.
    """
    known = chains(history)
    tails = _sealed_tails(history)
    for version, one in known.items():
        before = known.get(version - 1)
        if before is None or before.chain.active is None or not one.started:
            continue
        left = before.chain.active
        stop = _new_stop(left, one.chain)
        if stop is None:
            continue
        seen = tails.get((left.id, left.offset(stop)))
        if seen is None or seen.done > one.started:
            message = f"version {version} ends segment {left.id} at {stop}, which no sealed tail had told"
            yield Violation("boundaries come from sealed tails", message, proof(seen, one.known_by))


def open_tails_below_the_boundary(history: History) -> Iterator[Violation]:
    """The ordering rule, against the chain: no loglet is ever called open at a tail past its segment's decided stop."""
    stops = _stops(history)
    for tail in history.operations(LogletTail):
        if tail.returned and type(tail.result) is Open and tail.action.segment in stops:
            stop, _, operation = stops[tail.action.segment]
            if tail.result.tail > stop:
                message = f"loglet {tail.action.segment} ends at {stop}, but was open at {tail.result.tail}"
                yield Violation("open tails below the boundary", message, proof(tail, operation))


def nobody_passes_a_known_stop(history: History) -> Iterator[Violation]:
    """The stop that the chain has decided counts, no weaker one: who knows it never reads past it, nor waits there."""
    stops, knowledge = _stops(history), _first_learned(history)
    for call in history.operations(LogletRead, LogletTail):
        action = call.action
        if action.segment not in stops:
            continue
        stop, version, _ = stops[action.segment]
        learned_at = knowledge.get((call.client, version))
        if learned_at is None or learned_at.done > call.invoked:
            continue
        if type(action) is LogletRead and action.stop > stop:
            message = (
                f"{call.client} reads loglet {action.segment} up to {action.stop}, and knows that it ends at {stop}"
            )
            yield Violation("no append passes a known stop", message, proof(learned_at, call))
        elif type(action) is LogletTail and action.lagging:
            message = f"{call.client} waits on loglet {action.segment}, and knows that it ends at {stop}"
            yield Violation("no append passes a known stop", message, proof(learned_at, call))


def register_is_bounded(history: History) -> Iterator[Violation]:
    """However often the chain changes: what the register takes depends on its nodes and segments alone, and there are
    no segments but those that hold something and the last one (`chain_is_gapless`)."""
    for version, one in chains(history).items():
        assert one.register is not None
        nodes, segments = len(one.register.nodes), len(one.chain.segments)
        limit = FIXED_BYTES + NODE_BYTES * nodes + SEGMENT_BYTES * segments
        if len(one.value) > limit:
            message = f"version {version} takes {len(one.value)} bytes for {nodes} nodes and {segments} segments"
            yield Violation("register is bounded", message, proof(one.known_by))


CHAIN_CHECKS: Final[tuple[Check, ...]] = (
    *REGISTER_CHECKS,
    chain_is_gapless,
    boundaries_come_from_sealed_tails,
    open_tails_below_the_boundary,
    nobody_passes_a_known_stop,
    register_is_bounded,
)


def _new_stop(left: Segment, after: chain.Chain) -> int | None:
    """Stop that `after` gives to the segment that was open before; None if it is still open."""
    same = after.find(left.id)
    if same is not None:
        return same.stop
    return left.start  # it was empty, and dropped


@once
def _sealed_tails(history: History) -> dict[tuple[SegmentId, int], Operation]:
    """First observer of each sealed tail."""
    found: dict[tuple[SegmentId, int], Operation] = {}
    for tail in history.operations(LogletTail):
        if tail.returned and type(tail.result) is Sealed:
            place = tail.action.segment, tail.result.tail
            if place not in found or tail.done < found[place].done:
                found[place] = tail
    return found


@once
def _stops(history: History) -> dict[SegmentId, tuple[int, int, Operation]]:
    """Stop of each closed segment in its loglet, with the first version that has it and the client
    that knew it first."""
    stops: dict[SegmentId, tuple[int, int, Operation]] = {}
    for version, one in chains(history).items():
        for segment in one.chain.segments:
            if segment.stop is not None and segment.id not in stops:
                stops[segment.id] = segment.offset(segment.stop), version, one.known_by
    return stops


@once
def _first_learned(history: History) -> dict[tuple[str, int], Operation]:
    """Event at which the client first learned of this version, or of a later one, by client and
    version."""
    first: dict[tuple[str, int], Operation] = {}
    newest: dict[str, int] = {}
    known = list(decided(history))  # an import leaves out most numbers
    for version, _, operation in sorted(learned(history), key=lambda found: found[2].done):
        before = newest.get(operation.client, 0)
        for missed in known[bisect.bisect_right(known, before) : bisect.bisect_right(known, version)]:
            first[operation.client, missed] = operation
        newest[operation.client] = max(version, before)
    return first
