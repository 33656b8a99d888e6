"""What the registers that clients learn must be like: invariants I1 and I2.                                    Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simulation.history import History, Learn, LogletTail, Operation
from simulation.violation import Check, Violation, proof
from virtuallog import chain, register
from virtuallog.types import Open


def one_value_per_version(history: History) -> Iterator[Violation]:
    """I2: no two clients ever disagree on the value of a version."""
    decided: dict[int, tuple[bytes, Operation]] = {}
    for learn in _learned(history):
        version, value = learn.result
        known, first = decided.setdefault(version, (value, learn))
        if known != value:
            yield Violation("one value per version", f"version {version} has two values", proof(first, learn))


def versions_move_forward(history: History) -> Iterator[Violation]:
    """A read of the register returns a version at least as new as any that was learned before it began."""
    newest: Operation | None = None
    learned = _learned(history)
    for learn in learned:
        earlier = [other for other in learned if other.before(learn)]
        newest = max(earlier, key=lambda other: int(other.result[0]), default=None)
        if newest is not None and newest.result[0] > learn.result[0]:
            yield Violation(
                "versions move forward", f"version {learn.result[0]} after {newest.result[0]}", proof(newest, learn)
            )


def chain_is_gapless(history: History) -> Iterator[Violation]:
    """I1: on every version that was decided, and between each and the next."""
    decided = {learn.result[0]: learn for learn in _learned(history) if learn.result[0]}
    for version in sorted(decided):
        learn = decided[version]
        try:
            after = register.decode_untrusted(learn.result[1]).chain
            chain.validate(after)
            assert after.version == version
            if version - 1 in decided:
                before = register.decode_untrusted(decided[version - 1].result[1]).chain
                chain.validate_successor(before, after)
        except AssertionError as error:
            yield Violation("chain is gapless", f"version {version}: {error}", proof(learn))


def open_tails_below_the_boundary(history: History) -> Iterator[Violation]:
    """The ordering rule, against the chain: no loglet is ever called open at a tail past its segment's decided stop."""
    stops: dict[chain.SegmentId, tuple[int, Operation]] = {}
    for learn in _learned(history):
        if learn.result[0]:
            for segment in register.decode_untrusted(learn.result[1]).chain.segments:
                if segment.stop is not None:
                    stops[segment.id] = segment.offset(segment.stop), learn
    for tail in history.operations(LogletTail):
        if tail.returned and isinstance(tail.result, Open) and tail.action.segment in stops:
            stop, learn = stops[tail.action.segment]
            if tail.result.tail > stop:
                yield Violation(
                    "open tails below the boundary",
                    f"loglet {tail.action.segment} ends at {stop}, but was open at {tail.result.tail}",
                    proof(tail, learn),
                )


CHAIN_CHECKS: Final[tuple[Check, ...]] = (
    one_value_per_version,
    versions_move_forward,
    chain_is_gapless,
    open_tails_below_the_boundary,
)


def _learned(history: History) -> list[Operation]:
    return [learn for learn in history.operations(Learn) if learn.returned]
