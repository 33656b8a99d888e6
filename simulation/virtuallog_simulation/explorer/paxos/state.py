"""States of the Paxos log as moves and checks see them, and the bounds of a configuration."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import attrs


@attrs.frozen(kw_only=True)
class PaxosBounds:
    """Limits of one configuration."""

    nodes: int = 3
    clients: int = 0
    """Clients that check the tail, one check after the other."""
    first_leader: int = 0
    """Node that leads at the beginning, with position 0 decided; 0 if none: then nothing is promised."""
    standers: tuple[int, ...] = ()
    """Nodes that may stand; all if empty."""
    elections: int = 0
    batches: int = 0
    repeats: int = 0
    """Batches that are offered a second time, to any leader."""
    seals: int = 0
    tails: int = 0
    """Tails that a coordinator is asked for (Settle)."""
    checks: int = 0
    """Tail checks of all clients."""
    crashes: int = 0
    duplicates: int = 0
    """Requests that arrive a second time."""
    mends: int = 0
    """Catch-ups of a node that is not elected."""
    refills: int = 0
    """Attempts of a fill after its first."""
    rounds: int = 3
    """Rounds of a tail check before its client dies."""
    in_flight: int = 1
    queued_disk: bool = False
    """True if groups of writes are synced one by one, in steps of their own; else each is synced before the next step."""
    looks: bool = False
    """True if a catch-up asks for standings and copies; else no replica answers in time, and all is filled."""


@attrs.frozen
class StoredPosition:
    """Record of one position on a disk."""

    position: int
    promised: int
    performed: int
    value: str
    learned: bool


@attrs.frozen
class PaxosNodeView:
    """Part of a node that moves and checks look at."""

    node: int
    boot: int
    """Restarts so far."""
    stored_promise: int
    """Implicit promise on the disk."""
    stored: tuple[StoredPosition, ...]
    promised: int
    learned: tuple[tuple[int, str], ...]
    """Position and value of each decision that is known here."""
    state: str
    """State of the coordinator."""
    proposal: int
    serves: bool
    """True if the coordinator takes requests of clients."""
    election: int
    """Round of the election; 0 if there is none."""
    began: int
    """Round number below those of the term."""
    flight: int
    """Round of the write in flight; 0 if there is none."""
    accepted: frozenset[int]
    """Nodes that have accepted it."""
    question: int
    """Round of the leadership check; 0 if there is none."""
    confirmed: frozenset[int]
    """Nodes that have answered it."""
    unannounced: bool
    """True if something is decided that replicas have not been sent."""
    catch_up: tuple[int, ...]
    """Name of the catch-up that runs; empty if there is none."""
    attempt: tuple[int, ...]
    """Name of the fill's attempt, and its open rounds; empty if there is none."""
    filling: bool
    """True if a fill runs, so that its next attempt may begin."""
    looking: bool
    """True if a catch-up waits for standings."""
    source: int
    """Node that a catch-up reads from; 0 if there is none."""
    has_hole: bool
    """True if a position up to the end is not known to be decided here."""
    writing: bool
    """True if a group of changes is not synced."""
    owed: frozenset[tuple[int, Any]]
    """Callers and calls that wait for an answer."""
    parked: int

    def awaits(self, sender: int, call: tuple[Any, ...], is_refusal: bool) -> bool:
        """True if the answer to a call may change something here."""
        boot, kind, *name = call
        if boot != self.boot:
            return False
        match kind:
            case "promise":
                return self.election > 0
            case "write":
                return (is_refusal and self.began > 0) or (self.flight > 0 and sender not in self.accepted)
            case "standing":
                return self.question > 0 and sender not in self.confirmed
            case "fill":
                *attempt, number = name
                size = len(attempt)
                return tuple(attempt) == self.attempt[:size] and number in self.attempt[size:]
        return tuple(name) == self.catch_up and (kind == "look" or sender == self.source)


@attrs.frozen
class PaxosClientView:
    """Part of a client that moves and checks look at."""

    node: int
    operation: int
    """Number of the check that runs; 0 between two."""
    round: int
    waits: bool
    """True if replicas are asked to answer once they have learned what may have been acknowledged."""
    asked: frozenset[int]
    """Nodes whose answers in this round are missing."""

    @property
    def call(self) -> tuple[str, int, int]:
        return ("check", self.operation, self.round)


PaxosView: TypeAlias = PaxosNodeView | PaxosClientView

COUNTED: Final = {
    "stand": "elections", "append": "batches", "seal": "seals", "tail": "tails", "check": "checks", "crash": "crashes",
    "mend": "mends", "refill": "refills", "again": "repeats",
}  # fmt: skip
"""Count in the history for each kind of event that has one."""


@attrs.frozen
class Votes:
    """All nodes that have ever accepted a value at a position with a number."""

    position: int
    proposal: int
    value: str
    nodes: frozenset[int]


@attrs.frozen
class PaxosHistory:
    """Past of a run, as far as states alone do not show it. It never goes back."""

    votes: tuple[Votes, ...] = ()
    """Those of positions and values that are not chosen."""
    chosen: tuple[tuple[int, str, int], ...] = ()
    """Position, value and lowest number of all that a majority has accepted with one number, or that a node has learned."""
    acknowledged: tuple[tuple[int, int], ...] = ()
    """Offset and number of each batch that was acknowledged."""
    tail: int = 0
    """Offset below which all was acknowledged or lies below a tail that was answered."""
    open: int = 0
    """Highest open tail that was answered."""
    sealed: int = -1
    """Sealed tail that was answered; -1 if none was."""
    elections: int = 0
    batches: int = 0
    repeats: int = 0
    seals: int = 0
    tails: int = 0
    checks: int = 0
    crashes: int = 0
    duplicates: int = 0
    mends: int = 0
    refills: int = 0
