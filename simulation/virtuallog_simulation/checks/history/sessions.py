"""Promises to sessions: exactly once and in order, across all loglets that a session has met; and
refusal of entries that fit into none.

The chain defines which places of which loglets are in the log. So everything that a loglet
acknowledged or showed is mapped to its position: a session that was reordered by a reconfiguration
is found even if no client has read it through the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import TooLargeError
from virtuallog.contract.types import PlacedBatch
from virtuallog.testing.checker.actions import LogAppend, LogletAppend, LogletRead
from virtuallog.testing.checker.history import History, Operation
from virtuallog.testing.checker.violation import Check, Violation, proof
from virtuallog_simulation.checks.history.facts import chains, content

_Found: TypeAlias = dict[int, tuple[bytes, int, Operation]]
"""Session and sequence number of an entry, and the client that knows it, by position."""


def entries_in_order_and_once(history: History) -> Iterator[Violation]:
    """Entries of a session are in the log in order, and none is in it twice, whatever was
    reconfigured.

    Every loglet that serves a position, now or after a change, has the same entry there.
    """
    found: _Found = {
        position: (data.session, data.sequence, read) for position, (data, read, _) in content(history).records.items()
    }
    yield from _add_segments(found, history)
    newest: dict[bytes, tuple[int, int, Operation]] = {}
    for position in sorted(found):
        session, sequence, operation = found[position]
        earlier = newest.get(session)
        if earlier is not None and sequence <= earlier[0]:
            message = f"session {session.hex()[:8]}: entry {earlier[0]} at {earlier[1]}, {sequence} at {position}"
            yield Violation("entries in order and once", message, proof(earlier[2], operation))
        newest[session] = sequence, position, operation


def too_large_is_refused_at_the_door(history: History) -> Iterator[Violation]:
    """An entry that cannot fit is refused when it is offered: no loglet ever receives it, so no
    client retries it for ever."""
    offers = history.operations(LogletAppend)
    for offer in offers:
        if isinstance(offer.error, TooLargeError):
            yield Violation("too large is refused at the door", f"a loglet was offered {offer.error}", proof(offer))
    for append in history.operations(LogAppend):
        if isinstance(append.error, TooLargeError):
            for offer in offers:
                if any(payload in offer.action.batch.blob for payload in append.action.payloads if payload):
                    message = "it was refused as too large, and offered to a loglet"
                    yield Violation("too large is refused at the door", message, proof(append, offer))


SESSION_CHECKS: Final[tuple[Check, ...]] = (entries_in_order_and_once, too_large_is_refused_at_the_door)


def _add_segments(found: _Found, history: History) -> Iterator[Violation]:
    """All that loglets acknowledged or showed and that lies within the log."""
    # A later chain knows more: where the segment ends.
    segments = {segment.id: segment for known in chains(history).values() for segment in known.chain.segments}
    for segment_id, places, session, first, operation in _in_loglets(history):
        segment = segments.get(segment_id)
        if segment is None:
            continue  # it never got into the chain, as far as any client knows
        for sequence, place in enumerate(places, start=first):
            position = segment.position(place)
            if position < segment.start or (segment.stop is not None and position >= segment.stop):
                continue
            known = found.setdefault(position, (session, sequence, operation))
            if known[1] != sequence or known[0] != session:
                mine, theirs = (f"{number} of {who.hex()[:8]}" for who, number in ((session, sequence), known[:2]))
                message = f"position {position}: entry {mine} in loglet {segment.id}, and {theirs}"
                yield Violation("one entry per position", message, proof(known[2], operation))


def _in_loglets(history: History) -> Iterator[tuple[SegmentId, range, bytes, int, Operation]]:
    """(loglet, places, session, first sequence number, how it is known)."""
    for append in history.operations(LogletAppend):
        if append.returned:
            batch = append.action.batch
            yield append.action.segment, append.result, batch.session, batch.first_sequence, append
    for read in history.operations(LogletRead):
        for item in read.result if read.returned else ():
            if isinstance(item, PlacedBatch):
                batch = item.batch
                yield read.action.segment, item.places, batch.session, batch.first_sequence + item.first, read
