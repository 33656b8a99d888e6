"""Result of one measurement of one system, and the names of the systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

FLOOR: Final = "floor"
LOGLET: Final = "native loglet"
VIRTUAL_LOG: Final = "VirtualLog"
PAXOS_LOGLET: Final = "paxos loglet"
PAXOS_LOG: Final = "VirtualLog on paxos"
RAFT_LOGLET: Final = "raft loglet"
RAFT_LOG: Final = "VirtualLog on raft"
STRIPED_LOGLET: Final = "striped loglet"
STRIPED_LOG: Final = "VirtualLog on striped"
PYSYNCOBJ: Final = "PySyncObj, never syncs"
NATIVE_SYSTEMS: Final = (FLOOR, LOGLET, VIRTUAL_LOG)
PAXOS_SYSTEMS: Final = (LOGLET, PAXOS_LOGLET, VIRTUAL_LOG, PAXOS_LOG, PYSYNCOBJ)
RAFT_SYSTEMS: Final = (LOGLET, PAXOS_LOGLET, RAFT_LOGLET, VIRTUAL_LOG, PAXOS_LOG, RAFT_LOG)
STRIPED_SYSTEMS: Final = (LOGLET, STRIPED_LOGLET, VIRTUAL_LOG, STRIPED_LOG)
SYSTEMS: Final = (
    FLOOR, LOGLET, PAXOS_LOGLET, RAFT_LOGLET, STRIPED_LOGLET, VIRTUAL_LOG, PAXOS_LOG, RAFT_LOG, STRIPED_LOG, PYSYNCOBJ,
)  # fmt: skip
"""Systems in the order in which they are measured and shown."""
OWN: Final = {
    "native": (LOGLET, VIRTUAL_LOG),
    "paxos": (PAXOS_LOGLET, PAXOS_LOG),
    "raft": (RAFT_LOGLET, RAFT_LOG),
    "striped": (STRIPED_LOGLET, STRIPED_LOG),
}
"""Systems by kind: the loglet by itself, and a log on it."""

PROCESSES: Final = ("client", "sequencer", "servers")
"""The process of the sequencer, or of the coordinator, stores entries too; the servers are the other two together."""


@attrs.frozen(kw_only=True)
class AppendSample:
    """One system with so many appends outstanding."""

    system: str
    outstanding: int
    bytes: int
    """Bytes of one entry."""
    ops_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: Mapping[str, float] = attrs.field(factory=dict)
    """CPU time per append, by `PROCESSES`; nothing, where processes do not divide like that."""

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)

    def line(self) -> str:
        """One line of text."""
        cpu = " ".join(f"{name} {self.cpu_us[name]:.1f}" for name in PROCESSES if name in self.cpu_us)
        return (
            f"{self.system:>22} {self.outstanding:>4} outstanding: {self.ops_per_s:>9,.0f}/s  "
            f"p50 {self.p50_ms:.2f} ms  p99 {self.p99_ms:.2f} ms  CPU us: {cpu or '-'}"
        )
