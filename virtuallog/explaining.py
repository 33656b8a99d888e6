"""What a kind of loglets offers on top of `LogletProvider` so that `virtuallog explain` can say why a log is as it is.

Evidence is gathered at one moment, by questions that change nothing: no seal, no repair, no vote, no trim. It may be old
when it is looked at, and pieces of it may be of different moments. What follows from it is concluded elsewhere
(`server.explaining`), from facts whose names are these:

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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable

import attrs

from virtuallog.chain import SegmentId
from virtuallog.ports import Environment
from virtuallog.types import NodeId

TOGETHER: Final = "together"
"""`source` of what the others say together, by the arithmetic of the kind: comes last. Its facts:

    tail        where the loglet ends: every append that was acknowledged lies below. None: they do not say
    sealed      True: enough are sealed that no append can be acknowledged; False: none is; None: some are, or too few answer
    by          the sources that establish it
    lacking     the sources without which it could not be established; they are also in `by`. Empty: one could be missing
    trim        everything below is dropped for good, as enough of them say so; None: they do not say
    in_flight   entries beyond the tail that some source has: they become part of the log, or not
"""


@attrs.frozen
class Evidence:
    """What one source says."""

    source: str
    """'node 2', 'stripe 1, node 3', 'znode /logs/3.5fe7a0/seal', 'manifest'; unique within a loglet."""
    facts: Mapping[str, Any]
    """See above. Empty if there is no answer."""
    problem: str = ""
    """Why there is no answer, or what is wrong with this source, in a sentence; empty: nothing."""


@runtime_checkable
class ExplainsLoglets(Protocol):
    """A `LogletProvider` that can say what its loglets rest on at this moment."""

    async def explain(self, segment: SegmentId, config: bytes, environment: Environment) -> Sequence[Evidence]:
        """What each source says of a loglet, in a fixed order; who does not answer in about a second is told as a `problem`.

        Changes nothing, needs no more than the role CLIENT, and is bounded in time.

        Raises:
            MalformedError: not a config of this kind.
        """
        ...


@runtime_checkable
class ExplainsRegister(Protocol):
    """A `MetaStoreProvider` that can say how far its members are."""

    async def explain_register(
        self, members: Sequence[NodeId], version: int, environment: Environment
    ) -> Sequence[Evidence]:
        """What each member says of `version`, decided by them, and of the one behind it. As `ExplainsLoglets.explain`. Facts:

        node        the member
        version     the newest that it knows to be decided
        accepted    whether something is accepted, though not known to be decided, in the version behind that
        """
        ...
