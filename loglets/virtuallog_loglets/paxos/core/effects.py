"""Effects of the coordinator core and the replica core. Drivers carry them out in list order."""

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

# -- effects of a coordinator -----------------------------------------------------------------------------------------


@attrs.frozen
class PaxosSend:
    """Send `request` to each of `nodes`; then call `promised`, `written`, `confirmed` or `unanswered` with the round."""

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
    """Have the local replica learn a decided position, before any later effect."""

    decided: Decided
    size: int
    """Bytes of the value of that position."""


@attrs.frozen
class Announce:
    """Send `nodes` what is decided and who leads; answers are ignored."""

    nodes: tuple[NodeId, ...]
    request: Learn


@attrs.frozen
class PaxosResolve:
    """Answer a client: the offset of a batch, the tail, or else the position; or an error."""

    ticket: ClientTicket
    outcome: int | VirtualLogError


CoordinatorEffect: TypeAlias = PaxosSend | CatchUp | LearnLocally | Announce | PaxosResolve

# -- effects of a replica ---------------------------------------------------------------------------------------------

ReplicaTicket: TypeAlias = Any
"""Opaque object of the driver that names the receiver of an answer."""


@attrs.frozen
class PaxosPersist:
    """Write the replica's header and these changes, after all earlier writes.

    Answers may rest on them: later effects in the list are carried out once this is durable.
    """

    records: tuple[PaxosRecord, ...] = ()
    drop_below: int = 0
    """Positions below this one may be deleted; 0 if none."""


@attrs.frozen
class PaxosAnswer:
    """Send `outcome` to the caller once all earlier writes are durable."""

    ticket: ReplicaTicket
    outcome: Promised | PaxosWritten | PaxosRecovered | Standing | VirtualLogError | None


@attrs.frozen
class AnswerFromDisk:
    """Send `outcome` like `PaxosAnswer`, with learned records from the disk added to `outcome.records`."""

    ticket: ReplicaTicket
    outcome: Promised | PaxosWritten
    positions: tuple[int, ...]
    """Positions to read from the disk."""


@attrs.frozen
class PaxosFail:
    """Stop the replica: its state cannot be trusted any more."""

    error: VirtualLogError


ReplicaEffect: TypeAlias = PaxosPersist | PaxosAnswer | AnswerFromDisk | PaxosFail


def persist_records(records: tuple[PaxosRecord, ...]) -> list[ReplicaEffect]:
    """The effect that stores `records`; no effect if there are none."""
    return [PaxosPersist(records)] if records else []
