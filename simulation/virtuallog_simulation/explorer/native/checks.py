"""Promises of the native loglet that are checked in each state, and in each step.

A history keeps what was answered: a promise is about all that follows an answer, whichever client gets to see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from virtuallog.contract.errors import SealedError
from virtuallog.contract.types import Open, Sealed
from virtuallog_loglets.native.messages import NativeAppended, NativeState, NativeStored
from virtuallog_simulation.explorer.local_states import Event
from virtuallog_simulation.explorer.native.state import (
    ClientView,
    NativeHistory,
    NativeView,
    SequencerView,
    ServerView,
)


def compare(before: NativeView, event: Event, after: NativeView, told: tuple[Any, ...]) -> str | None:
    """Check one step of one process: what never goes back, and that an answer says no more than the disk."""
    node = after.node
    if isinstance(before, ServerView) and isinstance(after, ServerView):
        return _compare_servers(before, event, after) or _check_answers(after, told)
    if after.known < before.known:
        return f"the known tail of {node} goes back"
    if isinstance(before, SequencerView) and isinstance(after, SequencerView) and after.tail < before.tail:
        return f"the sequencer takes the offset {after.tail} back"
    return None


def _compare_servers(before: ServerView, event: Event, after: ServerView) -> str | None:
    node = after.node
    if after.tail < before.tail:
        return f"the tail of {node} goes back"
    if before.sealed and not after.sealed:
        return f"{node} is not sealed any more"
    if after.trim < before.trim:
        return f"the trim of {node} goes back"
    if event[0] != "crash" and after.known < before.known:
        return f"the known tail of {node} goes back"
    kept = tuple(entry for entry in before.entries if entry[0] >= after.trim)
    if not set(kept) <= set(after.entries):
        return f"{node} loses an entry that is not trimmed"
    return None


def _check_answers(server: ServerView, told: tuple[Any, ...]) -> str | None:
    for _, outcome in told:
        if isinstance(outcome, NativeState | NativeStored):
            if outcome.local_tail > server.tail:
                return f"{server.node} answers with the tail {outcome.local_tail}, and has {server.tail} on its disk"
            if outcome.sealed and not server.sealed:
                return f"{server.node} answers that it is sealed before that is on its disk"
        if isinstance(outcome, NativeState) and outcome.trim > server.trim:
            return f"{server.node} answers with a trim that is not on its disk"
    return None


def check_servers(servers: Sequence[ServerView], history: NativeHistory) -> str | None:
    """Check all servers against each other and against what was answered."""
    placed: dict[int, tuple[int, int]] = {}
    for server in servers:
        for offset, checksum, number in server.entries:
            if placed.setdefault(offset, (checksum, number)) != (checksum, number):
                return f"two waves claim the offset {offset}"
        if server.trim > history.tail:
            return f"{server.node} is trimmed up to {server.trim}, and {history.tail} is committed"
    held = [{offset for offset, _, _ in server.entries} for server in servers]
    for offset in range(history.tail):
        holders = sum(offset in each or server.trim > offset for each, server in zip(held, servers, strict=True))
        if 2 * holders <= len(servers):
            return f"the entry at {offset} is committed and readable at {holders} of {len(servers)} servers"
    for offset, number in history.acknowledged:
        if offset in placed and placed[offset][1] != number:
            return f"batch {number} was acknowledged at {offset}, where batch {placed[offset][1]} is"
    return None


def check_known(views: Sequence[NativeView], history: NativeHistory) -> str | None:
    """Check that known tails are true: they count what was acknowledged or answered, and no more."""
    for view in views:
        if view.known > history.tail:
            kind = "sequencer" if isinstance(view, SequencerView) else "client" if isinstance(view, ClientView) else ""
            return f"{kind or 'server'} {view.node} knows the tail {view.known}, and {history.tail} is committed"
    return None


def after_told(history: NativeHistory, told: tuple[Any, ...]) -> tuple[NativeHistory, str | None]:
    """History after answers to clients, and the promise that one breaks."""
    broken = None
    for ticket, outcome in told:
        match ticket, outcome:
            case ("append", number), NativeAppended(first=first, known_tail=known):
                broken = broken or _check_acknowledged(number, first, known, history)
                acknowledged = tuple(sorted({*history.acknowledged, (first, number)}))
                history = attrs.evolve(history, acknowledged=acknowledged, tail=max(history.tail, known))
            case ("append", number), SealedError(refused=True):
                if any(number == each for _, each in history.acknowledged):
                    broken = broken or f"batch {number} was acknowledged and is refused for good"
            case (_, least, was_sealed), Open(tail):
                broken = broken or _check_open(tail, least, was_sealed, history)
                history = attrs.evolve(history, open=max(history.open, tail), tail=max(history.tail, tail))
            case (_, least, _), Sealed(tail):
                broken = broken or _check_sealed(tail, least, history)
                sealed = tail if history.sealed < 0 else min(history.sealed, tail)
                history = attrs.evolve(history, sealed=sealed, tail=max(history.tail, tail))
    return history, broken


def _check_acknowledged(number: int, first: int, known: int, history: NativeHistory) -> str | None:
    if known <= first:
        return f"batch {number} is acknowledged at {first} with the known tail {known}"
    if 0 <= history.sealed < first + 1:
        return f"batch {number} is acknowledged at {first}, and the loglet was sealed at {history.sealed}"
    if any(first == offset for offset, _ in history.acknowledged):
        return f"two batches are acknowledged at {first}"
    return None


def _check_open(tail: int, least: int, was_sealed: bool, history: NativeHistory) -> str | None:
    if tail < least:
        return f"an open tail of {tail}, and {least} was committed before the check began"
    if was_sealed:
        return f"an open tail of {tail} from a check that began after a sealed one was answered"
    if 0 <= history.sealed < tail:
        return f"an open tail of {tail}, and a sealed one of {history.sealed} was answered"
    return None


def _check_sealed(tail: int, least: int, history: NativeHistory) -> str | None:
    stop = max([offset + 1 for offset, _ in history.acknowledged], default=0)
    if tail < least:
        return f"a sealed tail of {tail}, and {least} was committed before the check began"
    if tail < stop:
        return f"a sealed tail of {tail}, and the append at {stop - 1} was acknowledged"
    if tail < history.open:
        return f"a sealed tail of {tail}, and an open one of {history.open} was answered"
    return None
