"""What the registers that clients learn must be like: invariants I1 and I2.                                    Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from simulation.checks.violation import Check, Violation, proof
from simulation.history import Get, History, LogletTail, Operation, Put
from virtuallog import chain, register
from virtuallog.types import Open


def one_value_per_version(history: History) -> Iterator[Violation]:
    """I2: no two clients ever disagree on the value of a version."""
    decided: dict[int, tuple[bytes, Operation]] = {}
    for version, value, operation in _decided(history):
        known, first = decided.setdefault(version, (value, operation))
        if known != value:
            yield Violation("one value per version", f"version {version} has two values", proof(first, operation))


def versions_move_forward(history: History) -> Iterator[Violation]:
    """A read of the register returns a version at least as new as any that was known before it began."""
    known = list(_decided(history))
    for get in history.operations(Get):
        if not get.returned:
            continue
        newest = max((found for found in known if found[2].before(get)), key=lambda found: found[0], default=None)
        if newest is not None and newest[0] > get.result[0]:
            yield Violation(
                "versions move forward", f"version {get.result[0]} after {newest[0]}", proof(newest[2], get)
            )


def refused_stays_refused(history: History) -> Iterator[Violation]:
    """A put that lost to somebody else's value is never the one that was decided.

    Two clients may well put equal bytes (both close the log at the same place): then one of them may have won.
    """
    decided = {(version, value): operation for version, value, operation in _decided(history)}
    puts = history.operations(Put)
    possible = {_put(put) for put in puts if not put.failed}
    for put in puts:
        winner = decided.get(_put(put))
        if put.failed and winner is not None and _put(put) not in possible:
            yield Violation(
                "refused stays refused", f"version {put.action.version} was refused and decided", proof(put, winner)
            )


def chain_is_gapless(history: History) -> Iterator[Violation]:
    """I1: on every version that was decided, and between each and the next."""
    chains = _chains(history)
    for version in sorted(chains):
        after, operation = chains[version]
        try:
            chain.validate(after)
            assert after.version == version
            if version - 1 in chains:
                chain.validate_successor(chains[version - 1][0], after)
        except AssertionError as error:
            yield Violation("chain is gapless", f"version {version}: {error}", proof(operation))


def open_tails_below_the_boundary(history: History) -> Iterator[Violation]:
    """The ordering rule, against the chain: no loglet is ever called open at a tail past its segment's decided stop."""
    stops: dict[chain.SegmentId, tuple[int, Operation]] = {}
    for decided, operation in _chains(history).values():
        for segment in decided.segments:
            if segment.stop is not None:
                stops[segment.id] = segment.offset(segment.stop), operation
    for tail in history.operations(LogletTail):
        if tail.returned and isinstance(tail.result, Open) and tail.action.segment in stops:
            stop, operation = stops[tail.action.segment]
            if tail.result.tail > stop:
                yield Violation(
                    "open tails below the boundary",
                    f"loglet {tail.action.segment} ends at {stop}, but was open at {tail.result.tail}",
                    proof(tail, operation),
                )


REGISTER_CHECKS: Final[tuple[Check, ...]] = (one_value_per_version, versions_move_forward, refused_stays_refused)
"""Whatever the values mean."""
CHAIN_CHECKS: Final[tuple[Check, ...]] = (*REGISTER_CHECKS, chain_is_gapless, open_tails_below_the_boundary)


def newest_chain(history: History) -> chain.Chain | None:
    """The newest chain that any client has learned."""
    chains = _chains(history)
    return chains[max(chains)][0] if chains else None


def _decided(history: History) -> Iterator[tuple[int, bytes, Operation]]:
    """Each (version, value) that a client knows to be decided, and how it knows."""
    for operation in history.operations(Get, Put):
        if operation.returned:
            version, value = operation.result if isinstance(operation.action, Get) else _put(operation)
            yield version, value, operation


def _put(operation: Operation) -> tuple[int, bytes]:
    return operation.action.version, operation.action.value


def _chains(history: History) -> dict[int, tuple[chain.Chain, Operation]]:
    """The chain of each version that is known to be decided, and who learned it first."""
    chains: dict[int, tuple[chain.Chain, Operation]] = {}
    for version, value, operation in _decided(history):
        if version and version not in chains:
            chains[version] = register.decode_untrusted(value).chain, operation
    return chains
