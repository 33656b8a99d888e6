"""States of a replica and of its flows, and which may follow which: docs/reference/transitions.md draws them from here.

A change that no table has is a broken invariant.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, Generic, TypeVar

import attrs

StateT = TypeVar("StateT", bound=enum.Enum)


class RaftRole(enum.Enum):
    """Role of a replica, as YugabyteDB names them."""

    LEADER = "LEADER"
    FOLLOWER = "FOLLOWER"
    CANDIDATE = "CANDIDATE"
    LEARNER = "LEARNER"
    NON_PARTICIPANT = "NON_PARTICIPANT"


class RunState(enum.Enum):
    """Progress of a replica since its start, as YugabyteDB names it."""

    BOOTSTRAPPING = "BOOTSTRAPPING"
    """It replays its records."""
    CONFIGURING = "CONFIGURING"
    """It votes and takes records, and does not know yet that a leader of this term works."""
    RUNNING = "RUNNING"


class Flow(enum.Enum):
    """State of the flow to one peer."""

    PROBE = "probe"
    REPLICATE = "replicate"
    BASE = "base"


@attrs.frozen(eq=False)
class Transitions(Generic[StateT]):
    """Changes of a state that may happen, with the cause of each."""

    start: StateT
    causes: Mapping[tuple[StateT, StateT], str]
    """Cause of each change, by (state before, state after)."""

    def checked(self, before: StateT, after: StateT) -> StateT:
        """Return `after`, which is `before` or may follow it."""
        assert before is after or (before, after) in self.causes, f"no change from {before.value} to {after.value}"
        return after


_STANDS: Final = "no leader for an election timeout, or asked to stand"
_STANDS_UNSURE: Final = "the same; the change that took its vote may not be committed"
_LEADS_NO_LONGER: Final = "a higher term, no majority that answers, a disk that stands still"
_LOSES: Final = "a higher term, a leader of this term, or too many refusals"
_MEMBERS: Final = "the members in its log say so"

ROLES: Final = Transitions(
    RaftRole.FOLLOWER,
    {
        (RaftRole.FOLLOWER, RaftRole.CANDIDATE): _STANDS,
        (RaftRole.LEARNER, RaftRole.CANDIDATE): _STANDS_UNSURE,
        (RaftRole.NON_PARTICIPANT, RaftRole.CANDIDATE): _STANDS_UNSURE,
        (RaftRole.CANDIDATE, RaftRole.LEADER): "a majority has voted for it, and its own vote is durable",
        (RaftRole.FOLLOWER, RaftRole.LEADER): "the loglet's config names it as the leader of the first term",
        (RaftRole.LEADER, RaftRole.FOLLOWER): _LEADS_NO_LONGER,
        (RaftRole.LEADER, RaftRole.LEARNER): "it has lost its vote, and that is committed",
        (RaftRole.LEADER, RaftRole.NON_PARTICIPANT): "it was removed, and that is committed",
        (RaftRole.CANDIDATE, RaftRole.FOLLOWER): _LOSES,
        (RaftRole.CANDIDATE, RaftRole.LEARNER): f"{_LOSES}; {_MEMBERS}",
        (RaftRole.CANDIDATE, RaftRole.NON_PARTICIPANT): f"{_LOSES}; {_MEMBERS}",
        (RaftRole.FOLLOWER, RaftRole.LEARNER): _MEMBERS,
        (RaftRole.FOLLOWER, RaftRole.NON_PARTICIPANT): _MEMBERS,
        (RaftRole.LEARNER, RaftRole.FOLLOWER): _MEMBERS,
        (RaftRole.LEARNER, RaftRole.NON_PARTICIPANT): _MEMBERS,
        (RaftRole.NON_PARTICIPANT, RaftRole.FOLLOWER): _MEMBERS,
        (RaftRole.NON_PARTICIPANT, RaftRole.LEARNER): _MEMBERS,
    },
)
"""Roles (`voter.py`). What a replica does not lead, its members say."""

RUN_STATES: Final = Transitions(
    RunState.BOOTSTRAPPING,
    {
        (RunState.BOOTSTRAPPING, RunState.CONFIGURING): "its write-ahead log is read",
        (
            RunState.CONFIGURING,
            RunState.RUNNING,
        ): "a leader of this term sends what follows its log, or it leads and has committed",
        (RunState.RUNNING, RunState.CONFIGURING): "a new term, or an election",
    },
)
"""States since the start (`voter.py`)."""

FLOWS: Final = Transitions(
    Flow.PROBE,
    {
        (Flow.PROBE, Flow.REPLICATE): "the peer accepts: the logs are equal up to there",
        (Flow.REPLICATE, Flow.PROBE): "a rejection, or no answer",
        (Flow.PROBE, Flow.BASE): "the peer needs records that are dropped here",
        (Flow.REPLICATE, Flow.BASE): "the same: they were dropped before it had them",
        (Flow.BASE, Flow.PROBE): "no answer",
        (Flow.BASE, Flow.REPLICATE): "the peer has taken the base",
    },
)
"""Flow of records to one peer (`replication.py`)."""
