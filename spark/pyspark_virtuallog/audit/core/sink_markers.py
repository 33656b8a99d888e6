"""Observer of the sink's markers and the sessions that they name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_virtuallog.audit.core.anomalies import Anomalies
from pyspark_virtuallog.audit.core.observations import rows_of
from pyspark_virtuallog.markers import marker as markers
from virtuallog.contract.errors import MalformedError, UnsupportedError

NEWER_MARKER: Final = "marker of a newer version"
MARKED: Final = "marker"


@attrs.frozen
class MarkerObserver:
    """See `row_observer.PayloadObserver`."""

    def entries(
        self, entries: pa.RecordBatch, buckets: npt.NDArray[Any], remarks: Anomalies
    ) -> Iterator[pa.RecordBatch]:
        """A row for each session that is named, and a remark for each marker."""
        rows = np.flatnonzero(pc.starts_with(entries["payload"], markers.MAGIC).to_numpy(zero_copy_only=False))
        for row in rows.tolist():
            position, payload = entries["position"][row].as_py(), entries["payload"][row].as_py()
            try:
                marker = markers.parse_untrusted(payload)
            except MalformedError:
                continue  # it only begins like one, and commits nothing
            except UnsupportedError as error:
                remarks.add(NEWER_MARKER, position, f"{position}: {error}")
                continue
            remarks.add(MARKED, position, f"at {position}")
            yield _told(position, marker)

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Nothing is held back."""
        yield from ()


def _told(position: int, marker: markers.Marker) -> pa.RecordBatch:
    common = {"query": marker.query.hex(), "batch": marker.batch, "position": position}
    return rows_of("marker", [
        {**common, "session": winner.session, "first": winner.first, "last": winner.last, "entries": winner.entries}
        for winner in marker.winners
    ])  # fmt: skip
