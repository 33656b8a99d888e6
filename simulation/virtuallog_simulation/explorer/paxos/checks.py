"""Promises of the Paxos log that are checked in each state, and in each step.

A history keeps all votes: a value is chosen once a majority has accepted it with one number, not necessarily at one time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from virtuallog.contract.errors import SealedError
from virtuallog.contract.types import Open, Sealed
from virtuallog_loglets.paxos.messages import NOWHERE, PaxosWritten, Promised, Standing, Verdict
from virtuallog_loglets.paxos.offsets import offset_of, position_of
from virtuallog_simulation.explorer.local_states import Event
from virtuallog_simulation.explorer.paxos.state import (
    PaxosHistory,
    PaxosNodeView,
    PaxosView,
    StoredPosition,
    Votes,
)

# -- one step of one process ------------------------------------------------------------------------------------------


def compare(before: PaxosView, event: Event, after: PaxosView, told: tuple[Any, ...]) -> str | None:
    """Check one step of one process: what never goes back, also by a crash, and that an answer says no more than the disk."""
    if not isinstance(before, PaxosNodeView) or not isinstance(after, PaxosNodeView):
        return None
    node = after.node
    if after.stored_promise < before.stored_promise:
        return f"the promise of {node} goes back on its disk"
    if after.promised < (before.stored_promise if event[0] == "crash" else before.promised):
        return f"the promise of {node} goes back"
    stored = {each.position: each for each in after.stored}
    for former in before.stored:
        wrong = _compare_records(former, stored.get(former.position))
        if wrong is not None:
            return f"{node} {wrong} {former.position}"
    known = dict(after.learned)
    for position, value in before.learned:
        if known.get(position, value) != value:
            return f"{node} has learned {value} at {position}, and then {known[position]}"
        if event[0] != "crash" and position not in known:
            return f"{node} forgets the decision at {position}"
    return _check_answers(after, stored, told)


def _compare_records(former: StoredPosition, record: StoredPosition | None) -> str | None:
    if record is None:
        return "loses the record of"
    if former.learned:
        return None if record == former else "changes what is decided at"
    if record.learned:
        return None
    if record.promised < former.promised:
        return "takes a promise back at"
    if record.performed < former.performed:
        return "takes an acceptance back at"
    if record.performed == former.performed and record.value != former.value:
        return "accepts two values with one number at"
    return None


def _check_answers(node: PaxosNodeView, stored: dict[int, StoredPosition], told: tuple[Any, ...]) -> str | None:
    known = dict(node.learned)
    for _, span, outcome in (each for each in told if each[0] == "answer"):
        if isinstance(outcome, Standing) and outcome.promised > node.stored_promise:
            return f"{node.node} answers with a promise of {outcome.promised} that is not on its disk"
        if isinstance(outcome, Standing) or outcome.verdict is not Verdict.ACCEPT:
            continue
        number = outcome.proposal
        if isinstance(outcome, Promised) and span[0] == NOWHERE and node.stored_promise < number:
            return f"{node.node} answers that it promises {number} before that is on its disk"
        for position in range(*span):
            record = stored.get(position)
            if position in known or (record is not None and record.learned):
                continue
            is_write = isinstance(outcome, PaxosWritten)
            if record is None or (record.performed if is_write else record.promised) < number:
                verb = "accepts" if is_write else "promises"
                return f"{node.node} answers that it {verb} {number} at {position} before that is on its disk"
    return None


# -- votes and decisions ----------------------------------------------------------------------------------------------


def after_votes(history: PaxosHistory, node: PaxosNodeView, nodes: int) -> tuple[PaxosHistory, str | None]:
    """History after a step of a node, and the promise that is broken with it: one value for each position, for ever."""
    votes = {(each.position, each.proposal): each for each in history.votes}
    chosen = {position: (value, number) for position, value, number in history.chosen}
    for record in node.stored:
        if record.performed == NOWHERE or record.learned:
            continue
        key = record.position, record.performed
        value, number = chosen.get(record.position, (record.value, record.performed))
        if value == record.value and record.position in chosen and number <= record.performed:
            continue
        if value != record.value and record.performed >= number:
            return history, f"{node.node} accepts {record.value} at {key[0]} with {key[1]}, and {value} is chosen"
        former = votes.get(key, Votes(*key, record.value, frozenset()))
        if former.value != record.value:
            return history, f"the number {key[1]} has two values at {key[0]}"
        votes[key] = attrs.evolve(former, nodes=former.nodes | {node.node})
    for each in votes.values():
        if 2 * len(each.nodes) > nodes:
            value, number = chosen.get(each.position, (each.value, each.proposal))
            if value != each.value:
                return history, f"{each.value} and {value} are chosen at {each.position}"
            chosen[each.position] = value, min(number, each.proposal)
    kept = [
        each for each in votes.values()
        if each.position not in chosen or chosen[each.position][0] != each.value or each.proposal < chosen[each.position][1]
    ]  # fmt: skip
    history = attrs.evolve(
        history,
        votes=tuple(sorted(kept, key=lambda each: (each.position, each.proposal))),
        chosen=tuple((position, value, number) for position, (value, number) in sorted(chosen.items())),
    )
    batches = [batch for value, _ in chosen.values() for batch in value.split("+") if batch.isdigit()]
    if len(set(batches)) < len(batches):
        return history, f"a batch is in the log twice: {', '.join(batches)}"
    for position, value in node.learned:
        if position not in chosen or chosen[position][0] != value:
            return history, f"{node.node} has learned {value} at {position}, which no majority has accepted"
    return history, None


def check_numbers(nodes: Sequence[PaxosNodeView]) -> str | None:
    """Check that the number of a coordinator belongs to it alone, and that a majority has promised it."""
    elected = [node for node in nodes if node.state in ("catching up", "leading")]
    for node in elected:
        promises = sum(each.stored_promise >= node.proposal for each in nodes)
        if 2 * promises <= len(nodes):
            return f"{node.node} is elected with {node.proposal}, which {promises} of {len(nodes)} nodes have promised"
    if len({node.proposal for node in elected}) < len(elected):
        return "two coordinators are elected with one number"
    return None


# -- answers to clients -----------------------------------------------------------------------------------------------


def after_told(history: PaxosHistory, told: tuple[Any, ...]) -> tuple[PaxosHistory, str | None]:
    """History after answers to clients, and the promise that one breaks."""
    broken = None
    for ticket, outcome in (each for each in told if each[0] != "answer"):
        match ticket, outcome:
            case ("append", number), int(offset):
                broken = broken or _check_acknowledged(number, offset, history)
                acknowledged = tuple(sorted({*history.acknowledged, (offset, number)}))
                history = attrs.evolve(history, acknowledged=acknowledged, tail=max(history.tail, offset + 1))
            case ("append", number), SealedError(refused=True):
                if any(str(number) in value.split("+") for _, value, _ in history.chosen):
                    broken = broken or f"batch {number} is decided and is refused for good"
            case ("seal", least), int(position):
                broken = broken or _check_sealed(offset_of(position), least, history)
                history = _after_sealed(history, offset_of(position))
            case ("check", least, _), Sealed(tail):
                broken = broken or _check_sealed(tail, least, history)
                history = _after_sealed(history, tail)
            case ("tail", least, _), int(tail):
                if tail != history.sealed:
                    broken = broken or _check_tail(tail, least, is_sealed=False, history=history)
                    history = attrs.evolve(history, tail=max(history.tail, tail))
            case ("check", least, was_sealed), Open(tail):
                broken = broken or _check_tail(tail, least, is_sealed=was_sealed, history=history)
                history = attrs.evolve(history, open=max(history.open, tail), tail=max(history.tail, tail))
    return history, broken


def _after_sealed(history: PaxosHistory, tail: int) -> PaxosHistory:
    sealed = tail if history.sealed < 0 else history.sealed
    return attrs.evolve(history, sealed=sealed, tail=max(history.tail, tail))


def _check_acknowledged(number: int, offset: int, history: PaxosHistory) -> str | None:
    position = position_of(offset)
    values = {place: value for place, value, _ in history.chosen}
    batches = values.get(position, "").split("+")
    index = offset - offset_of(position)
    if index >= len(batches) or batches[index] != str(number):
        return f"batch {number} is acknowledged at {position}, where {values.get(position, 'nothing')} is decided"
    if any(value == "SEAL" and place < position for place, value in values.items()):
        return f"batch {number} is acknowledged at {position}, behind a SEAL"
    if 0 <= history.sealed <= offset:
        return f"batch {number} is acknowledged at {position}, and the log was sealed at {position_of(history.sealed)}"
    return None


def _check_tail(tail: int, least: int, *, is_sealed: bool, history: PaxosHistory) -> str | None:
    decided = {position for position, _, _ in history.chosen}
    if tail < least:
        return f"a tail of {position_of(tail)}, and {position_of(least)} was the least before the check began"
    if is_sealed:
        return f"an open tail of {position_of(tail)} from a check that began after a sealed one was answered"
    if 0 <= history.sealed < tail:
        return f"an open tail of {position_of(tail)}, and a sealed one of {position_of(history.sealed)} was answered"
    missing = [position for position in range(1, position_of(tail)) if position not in decided]
    return f"a tail of {position_of(tail)}, and {missing[0]} is not decided" if missing else None


def _check_sealed(tail: int, least: int, history: PaxosHistory) -> str | None:
    seals = [position for position, value, _ in history.chosen if value == "SEAL"]
    if not seals or offset_of(min(seals)) != tail:
        return f"a sealed tail of {position_of(tail)}, and the first SEAL is at {min(seals, default='no position')}"
    if 0 <= history.sealed != tail:
        return f"a sealed tail of {position_of(tail)}, and one of {position_of(history.sealed)} was answered"
    if tail < least or tail < history.open:
        return f"a sealed tail of {position_of(tail)}, and {position_of(max(least, history.open))} was answered before"
    return None
