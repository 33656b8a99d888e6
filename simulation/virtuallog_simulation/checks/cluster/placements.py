"""Sets that several operators change: members, tables of nodes, servers of segments. Judged on
versions of the register.

Independent of what an operator saw before, each version follows from the one that it was put on:

* a drained node is given nothing: no seat, no copy, no loglet;
* what a version names is in its table of nodes;
* no segment has fewer servers than the log began with, and the MetaStore keeps as many members as were last asked for;
* members change by one seat, or to those that an operator asked for in the place of the members before;
* a node in use keeps its roles or loses all of them, and then others are left for its seat and for the servers of a loglet;
* a directory is given up only if N - M + 1 whole copies of each group of its segments are left (N servers, M a majority).

Valid for runs in which no operator forces anything, nor asks for fewer servers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from virtuallog.contract.chain import Segment
from virtuallog.contract.placement import Placement
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import MembersChange, Reconfigure
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation, proof
from virtuallog_simulation.checks.history.facts import Decided, chains

CHECK: Final = "sets are amended"
COPIES: Final = 3
"""Servers of each group of a segment."""

Placements: TypeAlias = Callable[[Segment], Placement | None]
"""The place of the loglet of a segment; None: not on nodes."""


def sets_are_amended(history: History, placement: Placements) -> Iterator[Violation]:
    """Changes of server sets replace servers one by one and keep the number of copies; the rules
    are in the module's docstring."""
    versions = chains(history)
    changes = [change.action.change for change in history.operations(Reconfigure)]
    wished = [change for change in changes if isinstance(change, MembersChange)]
    asked = {len(change.members) for change in wished}
    for version, known in versions.items():
        assert known.register is not None
        yield from _spoken(known, _names_strangers(known.register, placement))
        yield from _spoken(known, _thin_segments(known.register, placement))
        before = versions.get(version - 1)
        if before is not None:
            assert before.register is not None
            yield from _spoken(known, _drained_get(before.register, known.register, placement))
            yield from _spoken(known, _given_up(before.register, known.register, placement))
            yield from _spoken(known, _seats_moved(before.register, known.register, wished))
            yield from _spoken(known, _withdrawn(before.register, known.register, placement))
            smaller = len(known.register.members) < len(before.register.members)
            if smaller and len(known.register.members) not in asked:
                yield from _spoken(known, [f"the MetaStore is {known.register.members} only"])


def _spoken(known: Decided, problems: Iterable[str]) -> Iterator[Violation]:
    for problem in problems:
        yield Violation(CHECK, f"version {known.version}: {problem}", proof(known.known_by))


def _names_strangers(register: Register, placement: Placements) -> Iterator[str]:
    for segment in register.chain.segments:
        if strangers := _servers(segment, placement) - register.nodes.keys():
            yield f"segment {segment.id} is on nodes {sorted(strangers)}, which the table does not have"
    if seated := set(register.members) - register.nodes.keys():
        yield f"nodes {sorted(seated)} have seats, and the table does not have them"


def _thin_segments(register: Register, placement: Placements) -> Iterator[str]:
    for segment in register.chain.segments:
        found = placement(segment)
        for group in found.groups if found is not None else ():
            if len(group) < COPIES:
                yield f"segment {segment.id} is on {group} only"


def _drained_get(before: Register, after: Register, placement: Placements) -> Iterator[str]:
    idle = frozenset(node for node, entry in after.nodes.items() if not entry.roles)
    if seated := idle.intersection(after.members).difference(before.members):
        yield f"nodes {sorted(seated)} are drained, and were given seats"
    former = {segment.start: _servers(segment, placement) for segment in before.chain.segments}
    known = {segment.id for segment in before.chain.segments}
    for segment in after.chain.segments:
        was_there = former.get(segment.start, frozenset()) if segment.stop is not None else frozenset()
        if segment.id not in known and (given := idle & (_servers(segment, placement) - was_there)):
            yield f"nodes {sorted(given)} are drained, and were given segment {segment.id}"


def _seats_moved(before: Register, after: Register, wished: Sequence[MembersChange]) -> Iterator[str]:
    gone, come = set(before.members) - set(after.members), set(after.members) - set(before.members)
    if not (gone or come) or len(gone) == len(come) == 1:
        return
    if not any(one.members == after.members and one.seen in {before.members, ()} for one in wished):
        yield f"the members were {before.members}, and are {after.members}, which no operator has asked for"


def _withdrawn(before: Register, after: Register, placement: Placements) -> Iterator[str]:
    for node, entry in after.nodes.items():
        former = before.nodes[node].roles if node in before.nodes else frozenset()
        if entry.roles and former - entry.roles:
            yield f"node {node} is in use, and has lost the roles {sorted(former - entry.roles)}"
        if former and not entry.roles:
            yield from _shortages(after, node, former, placement)


def _shortages(register: Register, node: NodeId, roles: Collection[str], placement: Placements) -> Iterator[str]:
    used = {other: entry.roles for other, entry in register.nodes.items() if entry.roles}
    ready = [other for other in used if not register.nodes[other].is_expected or other in register.members]
    if len(ready) < len(register.members):
        yield f"node {node} was drained, and {ready} are left for {len(register.members)} seats"
    found = [place for segment in register.chain.segments if (place := placement(segment)) is not None]
    if found and found[-1].role in roles:
        left = [other for other, its in used.items() if found[-1].role in its]
        if len(left) < len(found[-1].servers):
            yield f"node {node} was drained, and {left} are left for {len(found[-1].servers)} servers"


def _given_up(before: Register, after: Register, placement: Placements) -> Iterator[str]:
    for node, entry in before.nodes.items():
        later = after.nodes.get(node)
        if not entry.is_expected and later is not None and later.is_expected:
            for segment in before.chain.segments:
                found = placement(segment)
                for group in found.groups if found is not None else ():
                    if node in group and _has(before, node, segment):
                        left = [other for other in group if other != node and _has(before, other, segment)]
                        if len(left) < len(group) - len(group) // 2:
                            yield f"node {node} was given up, and segment {segment.id} has whole copies on {left} only"


def _has(register: Register, node: NodeId, segment: Segment) -> bool:
    entry = register.nodes.get(node)
    return entry is not None and not entry.is_expected and entry.joined < segment.id.version


def _servers(segment: Segment, placement: Placements) -> frozenset[NodeId]:
    found = placement(segment)
    if found is None:
        return frozenset()
    return frozenset(found.servers) | (found.orders if segment.stop is None else frozenset())
