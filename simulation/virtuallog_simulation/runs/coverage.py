"""Coverage demanded of a set of seeds, before it may be said to have tested anything.

A fault that never took effect, a crash point at which no process died, a shape of the workload that
never came about: each is a hole in the net, and as bad as a broken promise. The counters that a
scenario must show follow from the registries; exceptions are listed here, with their reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from virtuallog.contract.crash_points import CRASH_POINTS
from virtuallog.plugins import loglet_kinds
from virtuallog_loglets.paxos import provider  # noqa: F401  brings its crash points into the registry
from virtuallog_loglets.raft import provider as raft_provider  # noqa: F401  and those of raft
from virtuallog_server.node import node  # noqa: F401  and those of the rest of the product
from virtuallog_simulation.checks.cluster import archives, lag, rebuilt_copies, register_import
from virtuallog_simulation.checks.history import loglet
from virtuallog_simulation.checks.state import acceptors, log_servers, paxos_ledger, raft_ledger
from virtuallog_simulation.faults import streams
from virtuallog_simulation.faults.crash_points import AREAS, COUNTED
from virtuallog_simulation.faults.processes import LOST_DATABASE, LOST_STORE
from virtuallog_simulation.faults.registry import CLASSES, LOSING, NAMES
from virtuallog_simulation.runs import bounds
from virtuallog_simulation.scenarios.database import (
    access_control,
    append_guard,
    late_copies,
    leases,
    load,
    registrars,
    rights,
    server_restarts,
    tables,
)
from virtuallog_simulation.scenarios.loglet import session_retirement
from virtuallog_simulation.scenarios.operators import multiple_drains, replacement
from virtuallog_simulation.scenarios.paxos import stale_coordinator, truncation
from virtuallog_simulation.scenarios.raft import copies
from virtuallog_simulation.workload.required_shapes import (
    ARCHIVING,
    MANAGING,
    PREFIX,
    REGISTERING,
    SHAPES,
    STRIPING,
    SWAPPING,
)

_STORE: Final = ("store write error", "store sync error", "store read error", "store full", "store bit flipped")
"""Faults of the small store of the MetaStore."""
_FILES: Final = (
    "unsynced lost", "unsynced torn", "unsynced kept", "write error", "create error", "sync error", "read error",
    "disk full", "slow", "write stalled", "bit flipped",
)  # fmt: skip
"""Faults of the files that hold the WAL and the identity of a node."""
_BETWEEN_NODES: Final = (
    "clogged", "slowed", "cut by isolate", "cut by halves", "cut by bridge", "cut by one way",
)  # fmt: skip
_OVER_STREAMS: Final = (
    "rpc over streams", "segments", "cut", "sent again", "half-open", "reset by peer", "connect refused", "connect unanswered",
)  # fmt: skip
"""Faults of the seeds whose messages travel as bytes: see
`virtuallog/testing/sim/tcp_connection.py`."""


_ENSEMBLE: Final = (
    "zookeeper connection lost", "zookeeper lag", "zookeeper late request", "zookeeper unreachable",
)  # fmt: skip
_PLACE: Final = ("files refused", "file torn", "file damaged", "archive refused")
"""Faults of the service that holds archives."""


@attrs.frozen(kw_only=True)
class Demand:
    """Counters that a scenario must show."""

    without_classes: tuple[str, ...] = ()
    without_counters: tuple[str, ...] = ()
    crash_areas: tuple[str, ...] | None = ()
    """Areas of the crash points at which processes must have died; None for all."""
    without_points: tuple[str, ...] = ()
    """Crash points of these areas that it does not get to."""
    shapes: tuple[str, ...] = ()
    """Shapes that its workload must have brought about."""
    looks: tuple[str, ...] = ()
    """Comparisons that the inside checks must have made: a check that has nothing to look at finds
    nothing."""
    refused: tuple[str, ...] = ()
    """Bounds that are drawn small (`bounds.py`), and that must have refused a request."""
    over_streams: bool = False
    """True if some of its seeds must have run the whole RPC stack."""

    def counters(self) -> Iterator[str]:
        for fault in CLASSES:
            if fault.name not in self.without_classes:
                yield from (name for name in fault.counters if name not in self.without_counters)
        for point in CRASH_POINTS.values():
            reached = self.crash_areas is None or point.area in self.crash_areas
            if reached and point.name not in self.without_points:
                yield COUNTED + point.name
        yield from (PREFIX + shape for shape in self.shapes)
        yield from self.looks
        yield from (bounds.PREFIX + name for name in self.refused)
        yield from _OVER_STREAMS if self.over_streams else ()


_ELSEWHERE: Final = (
    *(kind for kind in loglet_kinds() if kind != "native"),
    "joining",
    "replacing",
    "draining",
    "revival",
)
"""Areas of crash points that other scenarios have."""
_CHUNK: Final = "zookeeper: one chunk more of a large batch is written, its slot is not"
_PIECE: Final = "raft: one piece more of a closed loglet is on a newcomer, the chain does not name it"
_RELEASED: Final = "zookeeper: a released loglet has its tombstone, nothing is deleted"
_OTHERS: Final = tuple(name for name in NAMES if name != LOST_STORE)

_STREAMS: Final = tuple(fault.name for fault in streams.CLASSES)

DEMANDS: Final[Mapping[str, Demand]] = {
    # No operator adds, drains or replaces nodes there: the two after it do. Nor are there paxos loglets.
    "cluster": Demand(
        without_classes=(LOST_STORE, LOST_DATABASE),
        crash_areas=tuple(area for area in AREAS if area not in _ELSEWHERE),
        shapes=SHAPES,
        looks=(*log_servers.LOOKED, *acceptors.LOOKED, loglet.AGAIN),
        refused=("batches of a session", "appends before a sequencer"),
        over_streams=True,
    ),
    # All kinds on one chain. What `cluster` demands is not demanded again.
    "mixed": Demand(
        without_classes=_OTHERS,
        crash_areas=("paxos",),
        shapes=SWAPPING,
        looks=(*paxos_ledger.LOOKED, paxos_ledger.RECOVERED, *archives.LOOKED),
        over_streams=True,
    ),
    # One kind beside native loglets each.
    "striped": Demand(without_classes=NAMES, crash_areas=("striped",), shapes=STRIPING, over_streams=True),
    "zookeeper": Demand(
        without_classes=NAMES, crash_areas=("zookeeper",), without_points=(_CHUNK,), looks=_ENSEMBLE, over_streams=True
    ),
    "archive": Demand(
        without_classes=NAMES,
        crash_areas=("archive",),
        shapes=ARCHIVING,
        looks=(*archives.LOOKED, *_PLACE),
    ),
    # What `cluster` and `mixed` demand is not demanded again.
    "zelos": Demand(
        without_classes=tuple(name for name in NAMES if name != LOST_DATABASE),
        looks=load.LOOKED,
    ),
    "registrars": Demand(
        without_classes=tuple(name for name in NAMES if name != LOST_DATABASE),
        looks=registrars.LOOKED,
    ),
    "tables": Demand(
        without_classes=tuple(name for name in NAMES if name != LOST_DATABASE),
        looks=tables.LOOKED,
    ),
    # It stages its faults: its own counters show what must have come about.
    "comeback": Demand(without_classes=NAMES, looks=server_restarts.LOOKED),
    "belated": Demand(without_classes=NAMES, looks=late_copies.LOOKED),
    "leased": Demand(without_classes=NAMES, looks=leases.LOOKED),
    # Doors only: no nodes, no network, no disks.
    "strangers": Demand(without_classes=NAMES, looks=access_control.LOOKED),
    # Nodes stand still and begin anew as the story says.
    "intruders": Demand(without_classes=NAMES, looks=append_guard.LOOKED),
    "rights": Demand(without_classes=NAMES, looks=rights.LOOKED),
    # Bare loglets of these kinds.
    "stripes": Demand(without_classes=(*LOSING, *_STREAMS, LOST_DATABASE), without_counters=(*_STORE, "create error")),
    "znodes": Demand(
        without_classes=NAMES,
        crash_areas=("zookeeper",),
        without_points=(_RELEASED,),
        looks=_ENSEMBLE,
        refused=("batches of a session of a znode log",),
    ),
    # They stage their dangers, but who dies at which step is drawn.
    "returned": Demand(without_classes=NAMES, crash_areas=("joining", "replacing")),
    "drained": Demand(without_classes=NAMES, crash_areas=("joining", "draining")),
    "revived": Demand(without_classes=NAMES, crash_areas=("revival",), looks=register_import.LOOKED),
    # The same, staged: no nodes fail in the first one, two do in the second one.
    "emptied": Demand(without_classes=NAMES, shapes=multiple_drains.SHAPES),
    "replaced": Demand(without_classes=NAMES, shapes=replacement.SHAPES),
    # What several operators do at once is drawn, and what they are refused.
    "operated": Demand(without_classes=NAMES, shapes=MANAGING, looks=(lag.LOOKED, rebuilt_copies.LOOKED)),
    # Calls only. One loglet that cannot be replaced: who lost data is dead for good. No MetaStore. No WAL has time to roll over.
    "native": Demand(
        without_classes=(*LOSING, *_STREAMS, LOST_DATABASE),
        without_counters=(*_STORE, "create error"),
        looks=(loglet.AGAIN,),
        refused=("refusals of a sequencer", "refusals that are remembered", "batches of a session"),
    ),
    # Small tables in every run.
    "retired": Demand(
        without_classes=NAMES, looks=session_retirement.LOOKED, refused=("idle sessions", "batches in a digest")
    ),
    # The same, with nothing in files.
    "paxos": Demand(
        without_classes=(*LOSING, *_STREAMS, LOST_DATABASE),
        without_counters=_FILES,
        looks=(*paxos_ledger.LOOKED, paxos_ledger.TOMBSTONES),
        refused=("requests before an election", "tails and refusals of a coordinator", "positions past the end"),
    ),
    # The same as of native, with elections. Copies are made in the second one, where clients and nodes die at crash points alone.
    "raft": Demand(
        without_classes=(*LOSING, *_STREAMS, LOST_DATABASE),
        without_counters=(*_STORE, "create error"),
        crash_areas=("raft",),
        without_points=(_PIECE,),
        looks=raft_ledger.LOOKED,
    ),
    "raft-copies": Demand(without_classes=NAMES, crash_areas=("raft",), looks=(copies.COPIED,)),
    "duel": Demand(
        without_classes=NAMES,
        looks=paxos_ledger.LOOKED,
        refused=(
            "requests before an election",
            "tails and refusals of a coordinator",
            "held offers",
            "batches of a session",
            "refusals that are remembered",
        ),
    ),
    "superseded": Demand(without_classes=NAMES, looks=stale_coordinator.LOOKED),
    "truncated": Demand(without_classes=NAMES, looks=truncation.LOOKED),
    "amnesia": Demand(
        without_classes=NAMES,
        looks=(*paxos_ledger.LOOKED, paxos_ledger.RECOVERED, paxos_ledger.TOMBSTONES),
        refused=("requests before an election", "requests before a replica"),
    ),
    # Acceptors do not talk to each other, and have no files. A register may be down to one member.
    "register": Demand(
        without_classes=(*LOSING, LOST_DATABASE),
        without_counters=(*_FILES, *_BETWEEN_NODES),
        crash_areas=("metastore",),
        shapes=REGISTERING,
        looks=acceptors.LOOKED,
        over_streams=True,
    ),
}
"""Demands on the scenarios that draw their faults. The others stage one danger each, and fail by
themselves if they miss it."""


def never_fired(scenario: str, counts: Mapping[str, int]) -> list[str]:
    """The counters that `scenario` must show, and `counts`, summed up over a set of seeds, does not.

    Ask it of some hundred seeds or more, that were not narrowed to some faults.
    """
    demand = DEMANDS.get(scenario)
    return [] if demand is None else [name for name in demand.counters() if not counts.get(name)]
