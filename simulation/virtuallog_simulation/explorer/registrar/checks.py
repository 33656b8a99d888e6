"""Promises of the registrar that are checked with each step, and in each state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from virtuallog_database.registrar.core.batch import OperationResult
from virtuallog_database.registrar.core.machine import MachineState
from virtuallog_database.registrar.core.tables import split_key
from virtuallog_simulation.explorer.local_states import Event
from virtuallog_simulation.explorer.registrar.state import (
    ITEMS,
    OwnerView,
    RegistrarHistory,
    RegistrarView,
    StoredBatch,
    StoreView,
    Ticket,
    decode,
)


def compare(before: RegistrarView, event: Event, after: RegistrarView) -> str | None:
    """Check one step of one process."""
    if not isinstance(before, OwnerView) or not isinstance(after, OwnerView) or event[0] == "replace":
        return None
    if after.state is MachineState.ENDED and (after.waiting or after.call):
        return f"{after.owner} has ended, and {', '.join(map(str, after.waiting))} wait"
    if before.state is MachineState.ENDED and after.state is not MachineState.ENDED:
        return f"{after.owner} had ended, and goes on"
    return None


def after_store(history: RegistrarHistory, batch: StoredBatch) -> tuple[RegistrarHistory, str | None]:
    """History behind an update that took effect, and the promise that it breaks."""
    broken = None
    if not batch.is_fence and batch.writer != history.owner:
        broken = f"{batch.writer} stores {batch.version.decode()}, and {history.owner} has recovered since"
    double = [
        split_key(key) for key, value in batch.content if split_key(key)[0] == ITEMS.name and decode(value[8:]) > 1
    ]
    if double:
        broken = f"{double[0][1]} has happened twice"
    owner = batch.writer if batch.is_fence else history.owner
    history = attrs.evolve(history, batches=(*history.batches, batch), owner=owner)
    return history, broken or _check_answers(history)


def after_step(
    history: RegistrarHistory, before: OwnerView, after: OwnerView, told: Sequence[Any]
) -> tuple[RegistrarHistory, str | None]:
    """History behind a step of a registrar, and the promise that it breaks."""
    for name, *rest in told:
        if name == "recovered" and not any(b.is_fence and b.writer == after.owner for b in history.batches):
            history = attrs.evolve(history, owner=after.owner)
        if name == "answer":
            history, broken = _after_answer(history, *rest)
            if broken is not None:
                return history, broken
    if after.is_deposed and not before.is_deposed and history.owner == after.owner:
        return history, f"{after.owner} is deposed, and no other has recovered since"
    if after.state is MachineState.RUNNING and history.content_of(after.version) != after.content:
        return history, f"{after.owner} takes for {after.version.decode()} what was not stored as such"
    return history, _check_answers(history)


def _after_answer(
    history: RegistrarHistory, ticket: Ticket, outcome: OperationResult | Exception, is_doubtful: bool
) -> tuple[RegistrarHistory, str | None]:
    if not isinstance(outcome, OperationResult):
        if is_doubtful:
            return history, None
        return attrs.evolve(history, denied=history.denied | {ticket}), None
    content = history.content_of(outcome.version)
    if content is None:
        return history, f"{ticket} is answered with {outcome.version.decode()}, which is not stored"
    keys = {key for key, _ in content}
    if not outcome.is_permitted:
        others = [
            key
            for name, key in map(split_key, keys)
            if name == ITEMS.name and key[0].isupper() and key[0] != ticket.owner[0]
        ]
        if not others:
            return history, f"{ticket} is refused, and nothing of {outcome.version.decode()} forbids it"
        return attrs.evolve(history, denied=history.denied | {ticket}), None
    if ticket.stored_key not in keys:
        return history, f"{ticket} is answered with {outcome.version.decode()}, which does not have it"
    made = next(batch.version for batch in history.batches if batch.has(ticket))
    if outcome.is_changed != (made == outcome.version):
        return (
            history,
            f"{ticket} is answered with {outcome.version.decode()}, changed: {outcome.is_changed}, and {made.decode()} made it",
        )
    return attrs.evolve(history, kept=history.kept | {ticket}), None


def _check_answers(history: RegistrarHistory) -> str | None:
    """Check the store against all answers so far."""
    if not history.batches:
        return None
    last = history.batches[-1]
    for ticket in history.kept:
        if not last.has(ticket):
            return f"{ticket} was answered, and is not in the store"
    for ticket in history.denied:
        if ticket.kind != "ensure" and any(batch.has(ticket) for batch in history.batches):
            return f"{ticket} was answered as not done, and is in the store"
    return None


def check(views: Sequence[RegistrarView]) -> str | None:
    """Check a state as a whole."""
    (store,) = (view for view in views if isinstance(view, StoreView))
    present = [
        view
        for view in views
        if isinstance(view, OwnerView) and view.state is MachineState.RUNNING and view.version == store.version
    ]
    if len(present) > 1:
        return f"{' and '.join(view.owner for view in present)} own {store.version.decode()}"
    if present and present[0].content != store.content:
        return f"{present[0].owner} has another copy of {store.version.decode()} than the store"
    return None
