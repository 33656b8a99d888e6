"""Comparison of the disks of the MetaStore's acceptors: invariant I2, below the clients.

A decision is what makes the register one: all who know it know the same, it is what a majority accepted in one ballot,
and once a client has heard of it a majority of those who decided it has it on disk.

An acceptor keeps its newest decision, and a vote only until that is decided. So one look sees little: what each has seen
is kept, and the next one is compared with it. What could really be compared is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation, proof
from virtuallog_metastore.core.acceptor import Acceptor
from virtuallog_metastore.messages import Ballot, Decision, Proposal
from virtuallog_simulation.checks.history.facts import decided

Acceptors: TypeAlias = Mapping[NodeId, Acceptor | None]
"""Acceptor on the disk of each node; None if the disk is empty or damaged: then it may have held
anything."""
DECIDED: Final = "looked: decided versions"
KNOWN: Final = "looked: decided versions that a client knows"
UNDECIDED: Final = "looked: undecided votes"
CHOSEN: Final = "looked: chosen before it was decided"
DURABLE: Final = "looked: who has what a client has heard of"
LOOKED: Final = (DECIDED, KNOWN, UNDECIDED, CHOSEN, DURABLE)


def acceptors_agree(acceptors: Acceptors, history: History) -> Iterator[Violation]:
    """One look, with nothing before it."""
    return Seen(Counter()).look(acceptors, history)


@attrs.define(eq=False)
class Seen:
    """Observations of one run so far."""

    looked: Counter[str]
    """Counts of comparisons."""
    _decisions: dict[int, tuple[Decision, NodeId]] = attrs.field(factory=dict, init=False)
    """Decision and the node that had stored it, by version."""
    _chosen: dict[int, tuple[Proposal, Sequence[NodeId]]] = attrs.field(factory=dict, init=False)
    """Value that a majority had accepted in one ballot, and that majority, by version. No other
    value can be decided there."""

    def look(self, acceptors: Acceptors, history: History) -> Iterator[Violation]:
        """All of the above, for what is durable now."""
        found = {node: acceptor for node, acceptor in acceptors.items() if acceptor is not None}
        yield from self._decisions_agree(found)
        yield from self._clients_agree(found, history)
        yield from self._count_votes(found)
        yield from self._chosen_is_decided()
        yield from self._known_is_durable(acceptors, history)

    def _decisions_agree(self, found: Mapping[NodeId, Acceptor]) -> Iterator[Violation]:
        for node, acceptor in found.items():
            if acceptor.decision is None:
                continue
            known = acceptor.known in self._decisions
            first, other = self._decisions.setdefault(acceptor.known, (acceptor.decision, node))
            self.looked[DECIDED] += known
            if first != acceptor.decision:
                message = f"version {acceptor.known}: nodes {other} and {node} have stored different decisions"
                yield Violation("acceptors agree", message)

    def _clients_agree(self, found: Mapping[NodeId, Acceptor], history: History) -> Iterator[Violation]:
        for version in sorted({acceptor.known for acceptor in found.values() if acceptor.decision is not None}):
            decision, node = self._decisions[version]
            client = decided(history).get(version)
            self.looked[KNOWN] += client is not None
            if client is not None and client.value != decision.proposal.value:
                message = f"version {version}: node {node} has stored another value than {client.known_by.client} knows"
                yield Violation("acceptors agree", message, proof(client.known_by))

    def _count_votes(self, found: Mapping[NodeId, Acceptor]) -> Iterator[Violation]:
        """A value accepted by a majority in one ballot is chosen, even before any node notices."""
        votes: dict[tuple[int, Ballot], tuple[Proposal, set[NodeId]]] = {}
        for node, acceptor in found.items():
            if acceptor.accepted is not None:
                place = acceptor.known + 1, acceptor.accepted.ballot
                proposal, voters = votes.setdefault(place, (acceptor.accepted.proposal, set()))
                voters.add(node)
                self.looked[UNDECIDED] += place[0] not in self._decisions
                if proposal != acceptor.accepted.proposal:
                    message = f"version {place[0]}: one ballot has two proposals, at node {node}"
                    yield Violation("acceptors agree", message)
        for (version, _), (proposal, voters) in votes.items():
            before = self._decisions.get(version - 1)
            if before is not None and _is_majority(voters, before[0].members):
                first, others = self._chosen.setdefault(version, (proposal, sorted(voters)))
                if first != proposal:
                    message = f"version {version}: nodes {others} chose one proposal, nodes {sorted(voters)} another"
                    yield Violation("chosen is decided", message)

    def _chosen_is_decided(self) -> Iterator[Violation]:
        for version in sorted(self._chosen.keys() & self._decisions.keys()):
            (proposal, voters), (decision, node) = self._chosen.pop(version), self._decisions[version]
            self.looked[CHOSEN] += 1
            if decision.proposal != proposal:
                message = f"version {version}: nodes {voters} chose one proposal, node {node} decided another"
                yield Violation("chosen is decided", message)

    def _known_is_durable(self, acceptors: Acceptors, history: History) -> Iterator[Violation]:
        """Decisions known to clients would survive if all processes died now."""
        newest = max(decided(history), default=0)
        before = self._decisions.get(newest - 1)
        if newest == 0 or before is None:
            return  # all that decided it have gone on
        self.looked[DURABLE] += 1
        known, members = decided(history)[newest], before[0].members
        have = {node for node in members if _has(acceptors.get(node), newest, known.value)}
        if not _is_majority(have, members):
            message = (
                f"version {newest} is known to {known.known_by.client}, and of {list(members)} "
                f"only {sorted(have)} have it"
            )
            yield Violation("decided is durable", message, proof(known.known_by))


def _has(acceptor: Acceptor | None, version: int, value: bytes) -> bool:
    if acceptor is None or acceptor.known >= version:
        return True
    accepted = acceptor.accepted
    return acceptor.known == version - 1 and accepted is not None and accepted.proposal.value == value


def _is_majority(some: set[NodeId], members: Sequence[NodeId]) -> bool:
    return 2 * len(some & set(members)) > len(members)
