"""Evidence for `virtuallog explain`: the state of each source of a loglet at one moment.

A provider that offers `SupportsDiagnosis` gathers it by questions that change nothing: no seal, no
repair, no vote, no trim. Evidence may be old when an operator looks at it, and pieces of it may be
of different moments. `virtuallog_server.diagnosis` draws the conclusions, from facts of these
names:

| fact | meaning |
|---|---|
| `node` | number of the node that reports this, if a node does |
| `tail` | first offset that this source does not have |
| `known_tail` | offset below which everything is committed, as far as this source knows |
| `sealed` | True if this source takes no more appends |
| `trim` | offset below which this source has dropped everything |
| `full` | True if this source has no room for more |
| `release_at_ms` | another copy of the same entries is kept until then, in milliseconds since the epoch |

Offsets are those of the loglet that was asked for. A composite loglet translates the facts of its
parts and names the part in `source` ("stripe 1, node 3"). All other facts are shown as they are, so
they should be plain values with telling names.

The last piece of evidence has the source `COMBINED`: the other answers, combined by the arithmetic
of the kind. A loglet without a `tail` there counts as unreachable, unless its kind reports `spare`.

| fact of `COMBINED` | meaning |
|---|---|
| `tail` | everything below is written for good, as these answers show; None if too few answer |
| `undecided` | number of entries or waves that some source has at or behind that tail; each becomes part of the log, or not |
| `by` | list of the sources that establish the tail |
| `sealed` | True if enough are sealed that no append can be acknowledged; False if none is; None if some are, or too few answer |
| `trim` | everything below is dropped for good; None if they do not report it |
| `spare` | number of answering sources that could fail as well, and the loglet could still be sealed and read; below 0 if it cannot be now, as so many are missing |
| `orders` | `[{"node": 2, "boot": 7}, ...]`: each must live, in that start of its process (0: in any), or no append is ordered |
| `first hole` | the part that has the first unwritten place, if a loglet consists of parts |
| `leads` | the node that orders just now, if another one takes over by itself when it fails |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

COMBINED: Final = "together"
ANSWER_SECONDS: Final = 3.0
"""Timeout for each source. A live node answers in milliseconds, longer if it reads its store or the
chain first."""


@attrs.frozen
class Evidence:
    """Report of one source."""

    source: str
    """Name of the source, unique within a loglet: 'node 2', 'stripe 1, node 3', 'znode
    /logs/3.5fe7a0/seal', 'manifest'."""
    facts: Mapping[str, Any]
    """Facts by the names in the module docstring. A source that does not answer has `node` at most."""
    problem: str = ""
    """Reason why there is no answer, or a fault of this source, in a sentence. Empty if there is none."""
