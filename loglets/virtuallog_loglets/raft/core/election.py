"""Elections: who may be voted for, and how votes are counted.

Rules (numbers of the specification, docs/internals/protocols/raft.md):
* R3: a voter votes once in a term, and only for a candidate whose log is at least as long as its own: last term first,
  then last index. So the winner has everything that is committed.
* R5: only answers of the campaign's own kind and term count, each voter once.
* A candidate leads once its own vote is durable, even if all others have voted for it. One that leads and forgets the term
  could be elected again in it, by the same votes, and make other records of it.
* A candidate first asks if it would win (*pre-vote*), which stores nothing. A replica that was cut off comes back without
  having raised its term, and so without deposing a leader that works.
* A voter that has heard from a leader within an election timeout refuses, unless the candidate is *forced*: the leader
  itself asked it to stand, or the leader is stuck and the log has to be sealed.

Times are counted in ticks of the driver. A process that stood still has no ticks to make up for.
"""

from __future__ import annotations

from typing import Final, Protocol

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.raft.core.membership import Configuration
from virtuallog_loglets.raft.messages import VoteAnswer

ELECTION_TICKS: Final = 10
"""Ticks without a leader before a replica stands, at least; at most twice as many. Drawn anew for each attempt."""
HEARTBEAT_TICKS: Final = 2
"""Ticks between two heartbeats of a leader."""


class Chance(Protocol):
    """Source of chance, such as `random.Random`."""

    def randint(self, a: int, b: int) -> int:
        """Draw an integer from `a` to `b`, both included."""
        ...


def is_up_to_date(last_term: int, last_index: int, own_term: int, own_index: int) -> bool:
    """True if a log that ends with (`last_term`, `last_index`) has all that one with the own end may have committed."""
    return (last_term, last_index) >= (own_term, own_index)


@attrs.define(eq=False)
class Campaign:
    """One attempt of a candidate to be elected, or to learn if it would be."""

    term: int
    """The term that it asks for."""
    pre: bool
    forced: bool
    number: int
    """Number of its messages; answers to earlier campaigns are passed over."""
    configuration: Configuration
    granted: set[NodeId] = attrs.field(factory=set)
    refused: set[NodeId] = attrs.field(factory=set)

    def count(self, voter: NodeId, answer: VoteAnswer | None) -> None:
        """Take in the answer of a voter; None, as good as a refusal, if there was none in time."""
        if voter in self.granted or voter in self.refused:
            return
        granted = answer is not None and answer.granted and answer.term == self.term
        (self.granted if granted else self.refused).add(voter)

    @property
    def is_won(self) -> bool:
        return sum(map(self.configuration.is_voter, self.granted)) >= self.configuration.quorum

    @property
    def is_lost(self) -> bool:
        """True if it can no longer be won."""
        refused = sum(map(self.configuration.is_voter, self.refused))
        return len(self.configuration.voters) - refused < self.configuration.quorum
