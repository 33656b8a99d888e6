"""States of the native loglet as moves and checks see them, and the bounds of a configuration."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import attrs


@attrs.frozen(kw_only=True)
class NativeBounds:
    """Limits of one configuration."""

    servers: int = 3
    clients: int = 0
    """Clients that check the tail, seal and trim, one operation after the other."""
    batches: int = 0
    checks: int = 0
    """Tail checks of all clients."""
    seals: int = 0
    """Tail checks of all clients that begin with a seal."""
    trims: int = 0
    """Trims of the first entry."""
    crashes: int = 0
    resends: int = 0
    """Times that the sequencer takes waves for lost that are under way, or their answers, and sends them again."""
    timeouts: int = 0
    """Reads and stores of repairs that a client takes for lost."""
    duplicates: int = 0
    """Requests that arrive a second time."""
    refusals: int = 0
    """Writes that a disk refuses; needs `queued_disk`."""
    rounds: int = 8
    """Rounds of a tail check before its client dies."""
    in_flight: int = 2
    queued_disk: bool = False
    """True if writes are synced one by one, in steps of their own; else each is synced before the next step."""


@attrs.frozen
class ServerView:
    """Part of a log server that moves and checks look at. All but the last four is what its disk has."""

    node: int
    tail: int
    sealed: bool
    trim: int
    entries: tuple[tuple[int, int, int], ...]
    """Offset, checksum of the wave and number of the batch, of each entry that is here."""
    known: int
    """Known tail in memory."""
    writing: int
    """Writes that are not synced."""
    owed: frozenset[tuple[int, Any]]
    """Callers and calls that wait for an answer."""
    parked: int


@attrs.frozen
class SequencerView:
    """Part of the sequencer that moves and checks look at."""

    node: int
    known: int
    """Committed tail."""
    tail: int
    stopped: bool
    silent: frozenset[int]
    """Servers that have not accepted all that was sent, or are paused."""


@attrs.frozen
class ClientView:
    """Part of a client that moves and checks look at."""

    node: int
    known: int
    operation: int
    """Number of the running operation; 0 between two."""
    round: int
    waits: bool
    """True if the check waits for the sequencer."""
    asked: frozenset[int]
    """Servers whose answers in this round are missing."""
    readers: frozenset[int]
    """Servers that a repair reads from."""
    completing: frozenset[int]
    """Servers that a repair stores to."""

    @property
    def call(self) -> tuple[str, int, int]:
        return ("client", self.operation, self.round)


NativeView: TypeAlias = ServerView | SequencerView | ClientView

COUNTED: Final = {
    "append": "batches", "check": "checks", "seal": "seals", "trim": "trims", "crash": "crashes", "early": "resends",
    "unanswered": "timeouts", "refuse": "refusals",
}  # fmt: skip
"""Count in the history for each kind of event that has one."""


@attrs.frozen
class NativeHistory:
    """Past of a run, as far as states alone do not show it. It never goes back."""

    tail: int = 0
    """Offset below which all was acknowledged or lies below a tail that was answered."""
    acknowledged: tuple[tuple[int, int], ...] = ()
    """Offset and number of each batch that was acknowledged."""
    open: int = 0
    """Highest open tail that was answered."""
    sealed: int = -1
    """Lowest sealed tail that was answered; -1 if none was."""
    batches: int = 0
    checks: int = 0
    seals: int = 0
    trims: int = 0
    crashes: int = 0
    resends: int = 0
    timeouts: int = 0
    duplicates: int = 0
    refusals: int = 0
