"""Runs of a session: adjacent sequence numbers, as they stand in some rows.                                        Pure.

Appenders take turns in a log, so their entries lie between each other's. Sorted by session, thousands of rows become a run for
each session, unless something is wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[Any]


def runs_of(session: pa.Array, sequence: Numbers, position: Numbers, size: Numbers) -> dict[str, Any]:
    """The columns of the observation `run`, for entries in the order of their rows; none of them is a gap."""
    encoded = session.dictionary_encode()
    codes = _narrow(encoded)
    by_session = np.argsort(codes, kind="stable")  # stable: each session's entries stay in the order of the log
    codes, sequence, position, size = codes[by_session], sequence[by_session], position[by_session], size[by_session]
    goes_on = (codes[1:] == codes[:-1]) & (sequence[1:] == sequence[:-1] + 1)
    begins = np.flatnonzero(np.concatenate(([len(codes) > 0], ~goes_on)))
    ends = np.append(begins[1:], len(codes))
    return {
        "session": encoded.dictionary.take(pa.array(codes[begins])),
        "first": sequence[begins],
        "count": ends - begins,
        "start": position[begins],
        "last": position[ends - 1],
        "bytes": np.add.reduceat(size, begins) if len(begins) else begins,
    }


def codes_of(column: pa.Array) -> Numbers:
    """A number for each value, the same for equal ones."""
    return _narrow(column.dictionary_encode())


def _narrow(encoded: pa.DictionaryArray) -> Numbers:
    """Numbers of 16 bits are sorted several times faster; a few thousand rows have no more values, as a rule. Null is -1."""
    codes: Numbers = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int16) if len(encoded.dictionary) < 1 << 15 else codes
