"""Looks at what the MetaStore's acceptors have on their disks when a run is over: invariant I2, below the clients.  Pure.

A decision is what makes the register one: all who know it know the same, it is what a majority accepted in one ballot,
and once a client has heard of it a majority of those who decided it has it on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from metastore.acceptor import Acceptor
from metastore.messages import Ballot, Decision, Proposal
from simulation.checks.facts import decided
from simulation.checks.violation import Violation, proof
from simulation.history import History
from virtuallog.types import NodeId

Acceptors: TypeAlias = Mapping[NodeId, Acceptor | None]
"""What lies on the disk of each node; None if the disk is empty or damaged: then it may have held anything."""


def acceptors_agree(acceptors: Acceptors, history: History) -> Iterator[Violation]:
    """All of the above, for what the acceptors still know: each keeps its newest decision, and votes after it."""
    found = {node: acceptor for node, acceptor in acceptors.items() if acceptor is not None}
    decisions: dict[int, tuple[Decision, NodeId]] = {}
    for node, acceptor in found.items():
        if acceptor.decision is not None:
            first, other = decisions.setdefault(acceptor.known, (acceptor.decision, node))
            if first != acceptor.decision:
                message = f"version {acceptor.known}: nodes {other} and {node} have stored different decisions"
                yield Violation("acceptors agree", message)
    for version, (decision, node) in decisions.items():
        client = decided(history).get(version)
        if client is not None and client.value != decision.proposal.value:
            message = f"version {version}: node {node} has stored another value than {client.known_by.client} knows"
            yield Violation("acceptors agree", message, proof(client.known_by))
    yield from _chosen_is_decided(found, decisions)
    yield from _known_is_durable(acceptors, decisions, history)


def _chosen_is_decided(
    found: Mapping[NodeId, Acceptor], decisions: Mapping[int, tuple[Decision, NodeId]]
) -> Iterator[Violation]:
    """Accepted by a majority in one ballot is chosen, whoever has noticed: nothing else can be decided there."""
    votes: dict[tuple[int, Ballot], tuple[Proposal, set[NodeId]]] = {}
    for node, acceptor in found.items():
        if acceptor.accepted is not None:
            place = acceptor.known + 1, acceptor.accepted.ballot
            proposal, voters = votes.setdefault(place, (acceptor.accepted.proposal, set()))
            voters.add(node)
            if proposal != acceptor.accepted.proposal:
                yield Violation("acceptors agree", f"version {place[0]}: one ballot has two proposals, at node {node}")
    for (version, _), (proposal, voters) in votes.items():
        before, after = decisions.get(version - 1), decisions.get(version)
        if before is None or after is None or after[0].proposal == proposal:
            continue
        if _is_majority(voters, before[0].members):
            message = f"version {version}: nodes {sorted(voters)} chose one proposal, node {after[1]} decided another"
            yield Violation("chosen is decided", message)


def _known_is_durable(
    acceptors: Acceptors, decisions: Mapping[int, tuple[Decision, NodeId]], history: History
) -> Iterator[Violation]:
    """What a client has heard of would survive if all processes died now."""
    newest = max(decided(history), default=0)
    before = decisions.get(newest - 1)
    if newest == 0 or before is None:
        return  # whoever decided it has gone on, all of them
    known, members = decided(history)[newest], before[0].members
    have = {node for node in members if _has(acceptors.get(node), newest, known.value)}
    if not _is_majority(have, members):
        message = (
            f"version {newest} is known to {known.known_by.client}, and of {list(members)} only {sorted(have)} have it"
        )
        yield Violation("decided is durable", message, proof(known.known_by))


def _has(acceptor: Acceptor | None, version: int, value: bytes) -> bool:
    if acceptor is None or acceptor.known >= version:
        return True
    accepted = acceptor.accepted
    return acceptor.known == version - 1 and accepted is not None and accepted.proposal.value == value


def _is_majority(some: set[NodeId], members: Sequence[NodeId]) -> bool:
    return 2 * len(some & set(members)) > len(members)
