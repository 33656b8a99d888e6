"""What a kind of loglets offers on top of `LogletProvider` so that `virtuallog explain` can say why a log is as it is.

Evidence is gathered at one moment, by questions that change nothing: no seal, no repair, no vote, no trim. It may be old
when it is looked at, and pieces of it may be of different moments. What follows from it is concluded elsewhere
(`virtuallog_server.diagnosis`), from facts whose names are these:

| fact | is |
|---|---|
| `node` | number of the node that says so, if a node does |
| `tail` | first offset that this source does not have |
| `known_tail` | offset below which everything is committed, as far as this source knows |
| `sealed` | whether this source takes appends no more |
| `trim` | offset below which this source has dropped everything |
| `full` | True: this source has no room for more |
| `release_at_ms` | another copy of the same entries is kept until then, in milliseconds since the epoch |

Offsets are those of the loglet that was asked for: a composite one translates what its parts say, and says in `source` which
part it was ("stripe 1, node 3"). All other facts are shown as they are, so they should be plain values with telling names.

The last piece of evidence has the source `COMBINED`: what the others say by the arithmetic of the kind. Without a `tail` the loglet
counts as one that cannot be reached, unless its kind says how many are to `spare`.

| fact of `COMBINED` | is |
|---|---|
| `tail` | everything below is written for good, as these answers show; None: too few answer |
| `undecided` | how much (entries or waves) some source has at and behind that tail: it becomes part of the log, or not |
| `by` | the sources that establish the tail, a list |
| `sealed` | True: enough are sealed that no append can be acknowledged; False: none is; None: some are, or too few answer |
| `trim` | everything below is dropped for good; None: they do not say |
| `spare` | how many of those that answer could fail as well, and the loglet could still be sealed and read; below 0: it cannot be now, as so many are missing |
| `orders` | `[{"node": 2, "boot": 7}, ...]`: each must live, in that start of its process (0: in any), or no append is ordered |
| `first hole` | the part that has the first place which is not written, where a loglet consists of parts |
| `leads` | the node that orders just now, where another one takes over by itself if it fails |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

COMBINED: Final = "together"
ANSWER_SECONDS: Final = 3.0
"""For each source: who lives answers in milliseconds, one that has to read its store or the chain first takes longer."""


@attrs.frozen
class Evidence:
    """What one source says."""

    source: str
    """'node 2', 'stripe 1, node 3', 'znode /logs/3.5fe7a0/seal', 'manifest'; unique within a loglet."""
    facts: Mapping[str, Any]
    """See above. Of a source that does not answer: `node` at most."""
    problem: str = ""
    """Why there is no answer, or what is wrong with this source, in a sentence; empty: nothing."""
