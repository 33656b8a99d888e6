"""Bounds of the product, drawn small in a share of the runs, so that queues fill and tables forget.

Each bound of docs/concepts/bounds.md that a run can reach without it being small is left alone. A small value may refuse more than usual, and nothing else:
every promise holds whatever the bounds are, so no check knows of them. Bounds of bytes that must hold one value of the largest size, such as
`OPEN_BYTES_MAX` of a replica of paxos loglets and what a server of RPCs may have unsent, stay as they are. The reason of a refusal tells which bound it was (`Bound.says`), and
the runner counts it: `virtuallog_simulation.runs.coverage` demands these counters.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from virtuallog.contract.errors import OverloadedError, ReconfigurationNeededError

SHARE: Final = 0.3
"""Share of the runs in which bounds may be small."""
SMALL: Final = 0.4
"""Share of the bounds that are small in such a run."""
PREFIX: Final = "refused: "
DRAWN: Final = "bounds drawn small"
"""Counted once for a run."""


@attrs.frozen
class Bound:
    """One bound, or several that guard queues of one kind."""

    name: str
    targets: tuple[str, ...]
    """Constants, "module:NAME"; also copies of one that other modules have imported."""
    small: tuple[int, ...]
    """Small values, of which one is drawn; large enough that a lone, patient client succeeds."""
    says: str = ""
    """Part of the reason of its refusals; empty if it refuses nothing, as it forgets."""
    scenarios: tuple[str, ...] = ()
    """Scenarios in which it may be small, if a batch of the others would never fit; empty for all."""

    @property
    def counter(self) -> str:
        """Counts those whom it refuses."""
        return PREFIX + self.name


BOUNDS: Final = (
    Bound("appends before a sequencer", ("virtuallog_loglets.native.drivers.sequencer_service:EARLY_MAX",), (1, 3), "sequencer is not ready"),
    Bound(
        "refusals of a sequencer",
        ("virtuallog_loglets.native.core.sequencer:MISMATCHES_MAX",),
        (1, 2),
        "refusals wait until what they lost",
    ),
    Bound(
        "reads of a node",
        (
            "virtuallog_loglets.native.drivers.log_server_service:READS_MAX",
            "virtuallog_loglets.paxos.drivers.replica_service:READS_MAX",
            "virtuallog_loglets.raft.drivers.replica_service:READS_MAX",
        ),
        (1, 2),
        "reads are waiting here",
    ),
    Bound("waiters of a log server", ("virtuallog_loglets.native.core.log_server:WAITERS_MAX",), (0, 1)),
    Bound("requests before an election", ("virtuallog_loglets.paxos.drivers.coordinator_requests:EARLY_MAX",), (1, 3), "no coordinator leads yet"),
    Bound("requests before a coordinator", ("virtuallog_loglets.paxos.drivers.coordinator_service:EARLY_MAX",), (1, 3), "coordinator is not ready"),
    Bound(
        "requests before a replica",
        ("virtuallog_loglets.paxos.drivers.replica_service:EARLY_MAX", "virtuallog_loglets.raft.drivers.replica_service:EARLY_MAX"),
        (1, 3),
        "replica is not ready",
    ),
    Bound(
        "tails and refusals of a coordinator",
        ("virtuallog_loglets.paxos.core.read_index:PENDING_MAX", "virtuallog_loglets.paxos.core.leader_term:PENDING_MAX"),
        (1, 2, 4),
        "wait for what is being decided",
    ),
    Bound("held offers", ("virtuallog_loglets.paxos.core.read_index:HELD_BYTES_MAX",), (200, 9000), "until a quorum has confirmed"),
    Bound("positions past the end", ("virtuallog_loglets.paxos.core.replica:LEAP_MAX",), (2, 8), "the last one known here"),
    Bound("tickets of a batch", ("virtuallog_loglets.paxos.core.leader_term:TICKETS_MAX", "virtuallog_loglets.native.core.sequencer:TICKETS_MAX"), (1,)),
    Bound("refusals that are remembered", ("virtuallog.exactly_once.rejected_conditions:REJECTED_MAX",), (1, 2), "expect a tail that is still ahead"),
    Bound("batches of a session", ("virtuallog.exactly_once.session_table:BATCHES_MAX",), (1, 2), "batches of this session are not committed"),
    Bound("idle sessions", ("virtuallog.exactly_once.session_table:IDLE_MAX",), (0, 1, 3), "forgotten this session"),
    Bound("time that a session is kept", ("virtuallog.exactly_once.session_table:SESSION_KEEP_MS",), (30_000,)),
    Bound("batches in a digest", ("virtuallog.exactly_once.session_digest:BATCHES_MAX",), (1, 2), "forgotten where this batch is"),
    Bound("batches of a session of a znode log", ("virtuallog_loglets.zookeeper.core.writer:WAITING_MAX",), (1, 3), "batches of this session wait"),
    Bound("conditional batches of a client", ("virtuallog.client.leader_client:OFFERS_MAX",), (1, 2)),
    Bound("places ahead of a stripe", ("virtuallog_loglets.striped.core.fill_policy:AHEAD_MAX",), (1, 4)),
    Bound(
        "questions to a node",
        ("virtuallog.rpc.protocol.questions:QUESTIONS_MAX", "virtuallog.rpc.local_link:QUESTIONS_MAX"),
        (16, 64),
        "are without an answer",
    ),
    Bound("bytes for a node", ("virtuallog.rpc.session:UNSENT_BYTES_MAX",), (4 << 10, 32 << 10), "bytes wait for it"),
    Bound(
        "bytes before their order",
        ("virtuallog_loglets.native.core.sequencer:QUEUE_BYTES_MAX", "virtuallog_loglets.paxos.core.proposal_queue:QUEUE_BYTES_MAX"),
        (300, 1000),
        "bytes wait to be ordered",
        scenarios=("native", "paxos", "duel", "amnesia"),
    ),
    Bound("bytes of raft records in memory", ("virtuallog_loglets.raft.core.log:KEPT_BYTES_MAX",), (0, 3000)),
    Bound("raft records in a message", ("virtuallog_loglets.raft.core.replication:MESSAGE_RECORDS",), (1, 3)),
    Bound("raft messages in flight", ("virtuallog_loglets.raft.core.replication:WINDOW",), (1, 2)),
    Bound("raft records in flight", ("virtuallog_loglets.raft.core.leader_term:RECORDS_MAX",), (1, 2)),
    Bound("reads of a raft leader", ("virtuallog_loglets.raft.core.read_index:WAITING_MAX",), (1, 2), "until a majority confirms the leader"),
    Bound("callers of a raft seal", ("virtuallog_loglets.raft.core.leader_term:WAITING_MAX",), (1,), "wait for the same record"),
    Bound("callers of a raft election", ("virtuallog_loglets.raft.core.voter:SEALERS_MAX",), (1,), "have this replica stand already"),
    Bound("waiters of a raft replica", ("virtuallog_loglets.raft.drivers.replica_driver:WAITERS_MAX",), (0, 1)),
)  # fmt: skip


def drawn(seed: int, scenario: str) -> Mapping[str, int]:
    """The bounds that are small in the run of a seed, for `virtuallog_simulation.world.planted_bug`; those of most seeds are as usual."""
    source = random.Random(f"bounds {seed}")
    if source.random() >= SHARE:
        return {}
    found: dict[str, int] = {}
    for bound in BOUNDS:
        is_small, value = source.random() < SMALL, source.choice(bound.small)
        if is_small and (not bound.scenarios or scenario in bound.scenarios):
            found |= dict.fromkeys(bound.targets, value)
    return found


def counting(counts: Counter[str]) -> Mapping[str, Any]:
    """Patches that count refusals by bound. A refusal that travels over a network of bytes counts
    on both sides."""
    return {
        f"virtuallog.contract.errors:{error.__name__}.__init__": _counting(error.__init__, counts)
        for error in (OverloadedError, ReconfigurationNeededError)
    }


def _counting(init: Callable[[Any, str], None], counts: Counter[str]) -> Callable[[Any, str], None]:
    def count(self: Any, reason: str) -> None:
        init(self, reason)
        for bound in BOUNDS:
            if bound.says and bound.says in reason:
                counts[bound.counter] += 1

    return count
