"""What operators ask a server of the database (`virtuallog database ...`), and nodes before they trim.              Pure."""

from __future__ import annotations

from typing import Final

import attrs

from virtuallog.contract.ports import Request

SERVING: Final = "serving"
"""The state of a replica that can be used."""


@attrs.frozen(kw_only=True)
class MemberStatus:
    """A replica in the view: the log is kept for it."""

    name: str
    durable: int
    """It has a durable snapshot of all below this position."""
    heard: int
    """Where in the log it last announced itself."""


@attrs.frozen(kw_only=True)
class HoldStatus:
    """A promise that the log stays from a position on."""

    name: str
    position: int
    milliseconds: int
    """Dropped if not renewed for so long; 0: never."""


@attrs.frozen(kw_only=True)
class DatabaseStatus:
    """One replica, as it is now, without asking anybody."""

    state: str
    """'opening', 'restoring', 'catching up', 'serving'."""
    waiting_for: str = ""
    """What keeps it from restoring a snapshot."""
    cursor: int = 0
    """First position that is not applied here."""
    known_tail: int = 0
    """The highest tail that this node has seen: what is between is what the replica lags behind."""
    zxid: int = 0
    snapshot: int = 0
    """Position of its newest durable snapshot; 0: none."""
    clients: int = 0
    """Connections of clients."""
    allowed: int = 0
    """What nobody needs any more, as far as is known here: the log may be trimmed up to this."""
    members: tuple[MemberStatus, ...] = ()
    holds: tuple[HoldStatus, ...] = ()
    engines: tuple[str, ...] = ()
    """The stack, from the base up."""
    disabled: tuple[str, ...] = ()
    """Those of them that were switched off."""


@attrs.frozen
class GetDatabaseStatus(Request[DatabaseStatus]):
    """Fails with UnavailableError while the role is not open."""


@attrs.frozen(kw_only=True)
class Allowed:
    """Up to where the log may be trimmed."""

    position: int
    reasons: tuple[str, ...]
    """Who needs what comes then: 'replica 2-ab12', 'hold backup'."""


@attrs.frozen
class FindAllowedTrim(Request[Allowed]):
    """As of a moment after the call: the replica reads the log up to its tail first. Fails with UnavailableError: not known."""


@attrs.frozen
class Done:
    """It is in the log, and applied here."""


@attrs.frozen(kw_only=True)
class PlaceHold(Request[Done]):
    """Keep the log from `position` on; a hold of this name is renewed. Fails with TrimmedError if some of it may be gone
    already: nothing was placed, and a hold of this name that is there stays."""

    name: str
    position: int
    milliseconds: int


@attrs.frozen
class ReleaseHold(Request[Done]):
    """Drop a hold; none of this name is no error."""

    name: str


@attrs.frozen
class EjectReplica(Request[Done]):
    """Take a replica out of the view: it does not come back. One that is not in the view is no error."""

    name: str


@attrs.frozen(kw_only=True)
class Compared:
    """Where in the log the states are compared."""

    position: int


@attrs.frozen
class CompareChecksums(Request[Compared]):
    """Let every replica compute a digest of its state at one position of the log, and tell it through the log. Answered at once:
    a replica whose state is not that of the majority stops, and says so in its status."""


@attrs.frozen(kw_only=True)
class RawWrite:
    """One pair of the local store; without a value it is deleted."""

    key: bytes
    value: bytes | None


@attrs.frozen(kw_only=True)
class WriteRaw(Request[Done]):
    """BrainDoctorEngine: write to the local store of every replica, past everything that gives it a meaning. For emergencies."""

    writes: tuple[RawWrite, ...]


@attrs.frozen(kw_only=True)
class SetEngine(Request[Done]):
    """Let an engine take effect from one position of the log on, on every replica, or no more. Refused with
    UnsupportedError as long as a replica of the view does not know it; to disable it, as long as none does."""

    name: str
    enabled: bool
