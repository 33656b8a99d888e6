"""What the core of a replica asks its driver to do."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core.proposal_queue import ClientTicket
from virtuallog_loglets.paxos.messages import (
    Decided,
    GetStanding,
    Learn,
    PaxosRecord,
    PaxosRecovered,
    PaxosWrite,
    PaxosWritten,
    Promise,
    Promised,
    Standing,
)

# FOLDED from virtuallog_loglets.paxos.coordinator_effects: What a coordinator asks its driver to do. They run in list order.


@attrs.frozen
class PaxosSend:
    """To each of these; then call `promised`, `written`, `confirmed`, or `unanswered`, with the round."""

    nodes: tuple[NodeId, ...]
    request: Promise | PaxosWrite | GetStanding
    round: int


@attrs.frozen
class CatchUp:
    """Have the local replica learn everything below `stop`, filling with `proposal`; then call `caught_up`."""

    stop: int
    proposal: int


@attrs.frozen
class LearnLocally:
    """A position is decided: tell the local replica, before anything that follows."""

    decided: Decided
    size: int
    """Bytes of its value."""


@attrs.frozen
class Announce:
    """Tell these what is decided, and who leads; no answer is wanted."""

    nodes: tuple[NodeId, ...]
    request: Learn


@attrs.frozen
class PaxosResolve:
    """Tell whoever asked: the offset of a batch, the tail, or else the position."""

    ticket: ClientTicket
    outcome: int | VirtualLogError


CoordinatorEffect: TypeAlias = PaxosSend | CatchUp | LearnLocally | Announce | PaxosResolve


ReplicaTicket: TypeAlias = Any
"""The driver's own: whom an answer is for."""


@attrs.frozen
class PaxosPersist:
    """Something has changed that an answer may rest on: write the replica's header, and this with it, behind all that was
    asked for earlier. What comes after in the list leaves once it is durable."""

    records: tuple[PaxosRecord, ...] = ()
    drop_below: int = 0
    """Positions below this one are not needed any more."""


@attrs.frozen
class PaxosAnswer:
    """Send this to whoever asked, once all that was asked for before is durable."""

    ticket: ReplicaTicket
    outcome: Promised | PaxosWritten | PaxosRecovered | Standing | VirtualLogError | None


@attrs.frozen
class AnswerFromDisk:
    """The same, with learned records that lie on the disk added to `outcome.records`."""

    ticket: ReplicaTicket
    outcome: Promised | PaxosWritten
    positions: tuple[int, ...]
    """What to read."""


@attrs.frozen
class PaxosFail:
    """The replica cannot be trusted any more."""

    error: VirtualLogError


ReplicaEffect: TypeAlias = PaxosPersist | PaxosAnswer | AnswerFromDisk | PaxosFail


def persist_records(records: tuple[PaxosRecord, ...]) -> list[ReplicaEffect]:
    """The effect that stores `records`; no effect if there are none."""
    return [PaxosPersist(records)] if records else []
