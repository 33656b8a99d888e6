"""What one measurement of one system gave, and the names of the systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

BARE: Final = "bare pipeline"
LOGLET: Final = "native loglet"
VIRTUAL_LOG: Final = "VirtualLog"
SYSTEMS: Final = (BARE, LOGLET, VIRTUAL_LOG)
"""In the order in which they are measured and shown."""

PROCESSES: Final = ("client", "sequencer", "servers")
"""The sequencer's process has a log server, too; the servers are the other two together."""


@attrs.frozen(kw_only=True)
class Sample:
    """One system with so many appends outstanding."""

    system: str
    outstanding: int
    bytes: int
    """Of one entry."""
    ops_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: Mapping[str, float]
    """CPU time per append, by `PROCESSES`."""

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)

    def line(self) -> str:
        """For people."""
        cpu = " ".join(f"{name} {self.cpu_us[name]:.1f}" for name in PROCESSES)
        return (
            f"{self.system:>14} {self.outstanding:>4} outstanding: {self.ops_per_s:>9,.0f}/s  "
            f"p50 {self.p50_ms:.2f} ms  p99 {self.p99_ms:.2f} ms  CPU us: {cpu}"
        )
