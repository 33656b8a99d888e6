"""Messages to a server of the database, from operators (`virtuallog database ...`) and from nodes
before they trim."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.ports import Request

SERVING: Final = "serving"
"""State of a replica that can be used."""


@attrs.frozen(kw_only=True)
class MemberStatus:
    """A replica in the view: the log is kept for it."""

    name: str
    durable: int
    """Everything below this position is in a durable snapshot of this replica."""
    heard: int
    """Log position of its last announcement."""


@attrs.frozen(kw_only=True)
class HoldStatus:
    """A promise that the log stays from a position on."""

    name: str
    position: int
    milliseconds: int
    """Lifetime without a renewal; 0 if unlimited."""


@attrs.frozen(kw_only=True)
class DatabaseStatus:
    """One replica as it is now, without asking another node."""

    state: str
    """'opening', 'restoring', 'catching up', 'serving'."""
    waiting_for: str = ""
    """The obstacle to restoring a snapshot; empty if there is none."""
    cursor: int = 0
    """First position that is not applied here."""
    known_tail: int = 0
    """Highest tail that this node has seen; minus `cursor` it is the lag of the replica."""
    zxid: int = 0
    snapshot: int = 0
    """Position of its newest durable snapshot; 0 if there is none."""
    clients: int = 0
    """Connections of clients."""
    allowed: int = 0
    """Position up to which the log may be trimmed, as far as this replica knows."""
    members: tuple[MemberStatus, ...] = ()
    holds: tuple[HoldStatus, ...] = ()
    engines: tuple[str, ...] = ()
    """Names of the stack's engines, from the base up."""
    disabled: tuple[str, ...] = ()
    """Names of the engines that are switched off."""
    enabled: tuple[str, ...] = ()
    """Names of the engines and rules that were switched on: a program that does not know one of them stops. Empty from a node of a former
    version."""


@attrs.frozen
class GetDatabaseStatus(Request[DatabaseStatus]):
    """Ask for the status of this replica. Fails with UnavailableError while the role is not open."""


@attrs.frozen(kw_only=True)
class Allowed:
    """Position up to which the log may be trimmed."""

    position: int
    reasons: tuple[str, ...]
    """Replicas and holds that need the log from there on: 'replica 2-ab12', 'hold backup'."""


@attrs.frozen
class FindAllowedTrim(Request[Allowed]):
    """Ask for the allowed trim position as of a moment after the call: the replica reads the log up
    to its tail first. Fails with UnavailableError if that is not known."""


@attrs.frozen
class Done:
    """The command is in the log, and applied here."""


@attrs.frozen(kw_only=True)
class PlaceHold(Request[Done]):
    """Keep the log from `position` on; an existing hold of this name is renewed. Fails with
    TrimmedError if some of it may be trimmed already: nothing was placed, and an existing hold of
    this name stays."""

    name: str
    position: int
    milliseconds: int


@attrs.frozen
class ReleaseHold(Request[Done]):
    """Drop a hold; a missing one is no error."""

    name: str


@attrs.frozen
class EjectReplica(Request[Done]):
    """Remove a replica from the view for good. One that is not in the view is no error."""

    name: str


@attrs.frozen(kw_only=True)
class Compared:
    """Log position at which the states are compared."""

    position: int


@attrs.frozen
class CompareChecksums(Request[Compared]):
    """Let every replica compute a digest of its state at one log position, and report it through
    the log. Replies at once. A replica whose state differs from the majority's stops, and says so
    in its status."""


@attrs.frozen(kw_only=True)
class RawWrite:
    """One pair of the local store; deleted if the value is None."""

    key: bytes
    value: bytes | None


@attrs.frozen(kw_only=True)
class WriteRaw(Request[Done]):
    """Write to the local store of every replica, past all interpretation (BrainDoctorEngine). For
    emergencies."""

    writes: tuple[RawWrite, ...]


@attrs.frozen(kw_only=True)
class SetEngine(Request[Done]):
    """Enable or disable an engine from one log position on, on every replica. Fails with
    UnsupportedError while a replica of the view does not know the engine; when disabling, while
    none knows it."""

    name: str
    enabled: bool
