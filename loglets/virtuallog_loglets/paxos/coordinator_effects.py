"""What a coordinator asks its driver to do. They run in list order."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from virtuallog.errors import VirtualLogError
from virtuallog.types import NodeId
from virtuallog_loglets.paxos.agenda import Ticket
from virtuallog_loglets.paxos.messages import Decided, GetStanding, Learn, Promise, Write


@attrs.frozen
class Send:
    """To each of these; then call `promised`, `written`, `confirmed`, or `unanswered`, with the round."""

    nodes: tuple[NodeId, ...]
    request: Promise | Write | GetStanding
    round: int


@attrs.frozen
class CatchUp:
    """Have the local replica learn everything below `stop`, filling with `proposal`; then call `caught_up`."""

    stop: int
    proposal: int


@attrs.frozen
class LearnHere:
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
class Resolve:
    """Tell whoever asked: the offset of a batch, the tail, or else the position."""

    ticket: Ticket
    outcome: int | VirtualLogError


Effect: TypeAlias = Send | CatchUp | LearnHere | Announce | Resolve
