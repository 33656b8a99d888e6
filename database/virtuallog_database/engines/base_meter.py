"""What the base engine tells about itself. Figures are added per transaction.                                    Pure."""

from __future__ import annotations

import attrs

from virtuallog.instruments import COUNTS, Counter, Histogram
from virtuallog.metrics import Family, gauge


@attrs.define(eq=False)
class BaseMeter:
    """Counts for one replica."""

    transaction_entries: Histogram = attrs.field(
        factory=lambda: Histogram(
            "virtuallog_database_transaction_entries", "Log entries applied in one transaction of the store.", COUNTS
        )
    )
    strays: Counter = attrs.field(
        factory=lambda: Counter(
            "virtuallog_database_stray_entries_total", "Log entries passed over that are none of a database."
        )
    )
    entries: int = attrs.field(default=0, init=False)
    """Applied."""
    bytes: int = attrs.field(default=0, init=False)
    """Of their payloads."""

    def played(self, entries: int, size: int) -> None:
        """One transaction is in the store."""
        self.entries += entries
        self.bytes += size
        self.transaction_entries.observe(entries)

    def metrics(self, cursor: int, committed: int, waiting: int) -> list[Family]:
        """As of now."""
        return [
            self.transaction_entries.family(),
            self.strays.family(),
            gauge("virtuallog_database_cursor", "First position of the log that is not applied.", cursor),
            gauge("virtuallog_database_lag_positions", "Committed positions that are not applied.", committed - cursor),
            gauge("virtuallog_database_proposals_under_way", "Entries proposed here and not applied.", waiting),
        ]
