"""Check of closed segments: their loglets are asked for their ends, which must be those of the
chain.

The chain alone would not tell. A segment that it calls closed but that is not sealed takes appends
that no reader ever sees. And where it ends later than its loglet there is nothing to read. What a
loglet holds beyond the end is not in the log, and is fine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pyspark_virtuallog.audit.core.evidence import Ends
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.chain import Chain, Segment
from virtuallog.contract.errors import CorruptionError, MalformedError, SealedError, VirtualLogError
from virtuallog.contract.types import Sealed, Tail

DROPPED: Final = "has been dropped"


async def check_ends(log: VirtualLog, start: int, stop: int) -> Ends:
    """Ask the loglets of all closed segments that lie in [start, stop), one after the other.
    Nothing is changed."""
    chain = (await log.view.refresh()).chain
    wrong, silent, asked = [], [], 0
    for segment in _closed(chain, start, stop):
        asked += 1
        try:
            problem = problem_of(segment, await log.view.loglet(segment).check_tail())
        except SealedError:  # also the answer for a segment that was moved or trimmed in this moment
            problem = DROPPED if (await log.view.refresh()).chain.find(segment.id) else None
        except (CorruptionError, MalformedError) as error:
            problem = str(error)
        except VirtualLogError as error:
            silent.append(f"{_named(segment)}: {error}")
            continue
        if problem is not None:
            wrong.append(f"{_named(segment)} {problem}")
    return Ends(asked=asked, wrong=tuple(wrong), silent=tuple(silent))


def problem_of(segment: Segment, tail: Tail) -> str | None:
    """Fault of a closed segment by its loglet's tail. None if there is none."""
    assert segment.stop is not None
    reached = segment.position(tail.tail)
    if not isinstance(tail, Sealed):
        return f"is not sealed: it takes appends at {reached}, which no reader will see"
    if reached < segment.stop:
        return f"is sealed at {reached}: what the chain has behind that is not there"
    return None


def _closed(chain: Chain, start: int, stop: int) -> Iterator[Segment]:
    for segment in chain.segments:
        if segment.stop is not None and segment.start < stop and segment.stop > start:
            yield segment


def _named(segment: Segment) -> str:
    return f"{segment.id} ({segment.kind}) over [{segment.start}, {segment.stop})"
