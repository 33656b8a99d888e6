"""Quorums: counts the votes of one slot's members.

Any two majorities share a member: that is all Paxos rests on (Paxos Made Simple, section 2.2).
"""

from __future__ import annotations

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_metastore.messages import Vote


@attrs.define
class Tally:
    """Answers of `members`, with the vote that each had accepted. Answers of others do not count."""

    members: tuple[NodeId, ...]
    _votes: dict[NodeId, Vote | None] = attrs.field(factory=dict, init=False)

    def count(self, node: NodeId, vote: Vote | None = None) -> None:
        """Record the answer of `node`; `vote` is None if it has accepted nothing. Each node counts
        once, by its last answer."""
        if node in self.members:
            self._votes[node] = vote

    @property
    def complete(self) -> bool:
        """True if a majority has answered. Never true without members."""
        return 2 * len(self._votes) > len(self.members)

    @property
    def highest(self) -> Vote | None:
        """The accepted proposal with the highest ballot among the answers; None if there is none."""
        votes = [vote for vote in self._votes.values() if vote is not None]
        return max(votes, key=lambda vote: vote.ballot, default=None)

    @property
    def chosen(self) -> Vote | None:
        """A proposal that a majority accepted at the same ballot: it is chosen for good. None if
        there is none.

        Only the highest can be: had an older ballot a majority, the highest would carry the same
        proposal anyway.
        """
        highest = self.highest
        if highest is None:
            return None
        same = sum(vote is not None and vote.ballot == highest.ballot for vote in self._votes.values())
        return highest if 2 * same > len(self.members) else None
