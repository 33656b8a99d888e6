"""Recorded events of one process, and the file in which it leaves them."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs


class EventKind(enum.StrEnum):
    """Kinds of events. The values are what tables say."""

    TURN = "turn begins"
    TURN_END = "turn ends"
    WOKEN = "task is woken"
    STEP = "task runs"
    RECEIVED = "received from"
    READ_IN_VAIN = "nothing to read from"
    SENT = "sends to"
    BUILT = "message built"
    PARSED = "message parsed"
    HANDED_OVER = "job handed to a thread"
    TAKEN = "job taken by the thread"
    WRITE = "write begins"
    WRITTEN = "write ends"
    SYNC = "sync begins"
    SYNCED = "sync ends"
    POSTED = "call posted to the loop"
    CALLED = "posted call runs"
    REACHED = "reaches"


SOCKET_KINDS: Final = frozenset({EventKind.RECEIVED, EventKind.READ_IN_VAIN, EventKind.SENT})
"""Kinds whose detail is a descriptor in a process, and in a report the process at the other end."""


@attrs.frozen
class TraceEvent:
    """One event."""

    at: float
    """Seconds of the monotonic clock, which all processes of a machine share."""
    kind: EventKind
    detail: str = ""
    """Name of a task or function, or the descriptor of a socket."""
    in_loop: bool = True
    """False in any other thread than that of the event loop."""


@attrs.frozen
class ProcessTrace:
    """Events of one process, in order, while a trace ran."""

    events: Sequence[TraceEvent]
    ports: Mapping[str, tuple[int, int]]
    """Own port and port of the peer, by descriptor; TCP sockets only."""

    def write(self, path: Path) -> None:
        """Write the file, in one step."""
        plain = {
            "events": [[event.at, event.kind, event.detail, event.in_loop] for event in self.events],
            "ports": self.ports,
        }
        new = path.with_suffix(".new")
        new.write_text(json.dumps(plain))
        new.replace(path)

    @classmethod
    def take(cls, path: Path) -> ProcessTrace | None:
        """Read the file and remove it; None if it has not been written yet."""
        if not path.exists():
            return None
        plain = json.loads(path.read_text())
        path.unlink()
        events = [TraceEvent(at, EventKind(kind), detail, in_loop) for at, kind, detail, in_loop in plain["events"]]
        return cls(events, {descriptor: (own, peer) for descriptor, (own, peer) in plain["ports"].items()})


def name_peers(traces: Mapping[str, ProcessTrace]) -> dict[str, Sequence[TraceEvent]]:
    """The events of each process, with the name of the other process in place of the descriptor of a socket.

    It is 'itself' for the socket by which threads wake the loop of their own process, and 'another' for a process that was not traced.
    """
    owners = {ports: name for name, trace in traces.items() for ports in trace.ports.values()}

    def named(name: str, event: TraceEvent) -> TraceEvent:
        if event.kind not in SOCKET_KINDS:
            return event
        if event.detail not in traces[name].ports:
            return attrs.evolve(event, detail="itself")
        own, peer = traces[name].ports[event.detail]
        return attrs.evolve(event, detail=owners.get((peer, own), "another"))

    return {name: [named(name, event) for event in trace.events] for name, trace in traces.items()}
