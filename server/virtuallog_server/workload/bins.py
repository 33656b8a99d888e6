"""A workload's latencies in stretches of time, as pictures show them.                                             Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from virtuallog_server.bench.appends import percentile
from virtuallog_server.workload.writers import Told

BIN_SECONDS: Final = 0.1


@attrs.frozen
class Bins:
    """One for each tenth of a second, from the start to the last acknowledgement."""

    latencies: Sequence[Sequence[float]]
    """In seconds, in order of size, of the appends that ended then; may be empty."""

    @classmethod
    def of(cls, told: Iterable[Told]) -> Bins:
        samples = [sample for writer in told for sample in zip(writer.began, writer.ended, strict=True)]
        last = max((ended for _, ended in samples), default=0.0)
        bins: list[list[float]] = [[] for _ in range(int(last / BIN_SECONDS) + 1)]
        for began, ended in samples:
            bins[int(ended / BIN_SECONDS)].append(ended - began)
        for latencies in bins:
            latencies.sort()
        return cls(bins)

    @property
    def seconds(self) -> float:
        """When the last bin ends."""
        return len(self.latencies) * BIN_SECONDS

    def rates(self) -> list[tuple[float, float]]:
        """Where each bin begins, and appends per second in it."""
        return [(index * BIN_SECONDS, len(found) / BIN_SECONDS) for index, found in enumerate(self.latencies)]

    def milliseconds(self, share: float) -> list[tuple[float, float | None]]:
        """The middle of each bin, and a percentile of its latencies; None where nothing ended."""
        return [
            ((index + 0.5) * BIN_SECONDS, 1000 * percentile(found, share) if found else None)
            for index, found in enumerate(self.latencies)
        ]
