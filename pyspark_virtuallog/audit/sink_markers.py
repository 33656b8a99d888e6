"""Which sessions the markers of the sink name.                                                                     Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_virtuallog import markers
from pyspark_virtuallog.audit.observations import rows_of
from virtuallog.errors import MalformedError, UnsupportedError

NEWER_MARKER: Final = "marker of a newer version"


@attrs.frozen
class MarkerLook:
    """See `observing.Look`."""

    def entries(self, entries: pa.RecordBatch, buckets: npt.NDArray[Any]) -> Iterator[pa.RecordBatch]:
        """A row for each session that is named, and a remark for each marker that nobody here can read."""
        rows = np.flatnonzero(pc.starts_with(entries["payload"], markers.MAGIC).to_numpy(zero_copy_only=False))
        for row in rows.tolist():
            yield from _told(entries["position"][row].as_py(), entries["payload"][row].as_py())

    def finish(self) -> Iterator[pa.RecordBatch]:
        """Nothing is kept."""
        yield from ()


def _told(position: int, payload: bytes) -> Iterator[pa.RecordBatch]:
    try:
        marker = markers.parse_untrusted(payload)
    except MalformedError:
        return  # it only begins like one, and commits nothing
    except UnsupportedError as error:
        yield rows_of(
            "remark", [{"check": NEWER_MARKER, "count": 1, "position": position, "text": f"{position}: {error}"}]
        )
        return
    common = {"query": marker.query.hex(), "batch": marker.batch, "position": position}
    yield rows_of("marker", [
        {**common, "session": winner.session, "first": winner.first, "last": winner.last, "entries": winner.entries}
        for winner in marker.winners
    ])  # fmt: skip
