"""What the core of a replica asks its driver to do."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from virtuallog.errors import VirtualLogError
from virtuallog_loglets.paxos.messages import Promised, Record, Recovered, Standing, Written

Ticket: TypeAlias = Any
"""The driver's own: whom an answer is for."""


@attrs.frozen
class Persist:
    """Something has changed that an answer may rest on: write the replica's header, and this with it, behind all that was
    asked for earlier. What comes after in the list leaves once it is durable."""

    records: tuple[Record, ...] = ()
    drop_below: int = 0
    """Positions below this one are not needed any more."""


@attrs.frozen
class Answer:
    """Send this to whoever asked, once all that was asked for before is durable."""

    ticket: Ticket
    outcome: Promised | Written | Recovered | Standing | VirtualLogError | None


@attrs.frozen
class Quote:
    """The same, with learned records that lie on the disk added to `outcome.records`."""

    ticket: Ticket
    outcome: Promised | Written
    positions: tuple[int, ...]
    """What to read."""


@attrs.frozen
class Fail:
    """The replica cannot be trusted any more."""

    error: VirtualLogError


Effect: TypeAlias = Persist | Answer | Quote | Fail
