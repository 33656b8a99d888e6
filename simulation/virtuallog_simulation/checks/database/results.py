"""Promises of a database to its clients: one order of writes, results as in ZooKeeper, reads that
never go back.

The promises are those of docs/reference/promises.md. Watches are in `watches.py`, sessions in `sessions.py`,
the promises among replicas in `replicas.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.history import Operation as Told
from virtuallog.testing.checker.violation import Check, Violation, proof
from virtuallog_database.tree.commands import SetData
from virtuallog_database.tree.paths import CONFIG
from virtuallog_simulation.checks.database.replay import answered, as_operation, committed, is_write, replay
from virtuallog_simulation.workload.database.authentication_model import REFUSALS
from virtuallog_simulation.workload.database.requests import Asked, Auth, Connect, Login, Ping, Reconfig, Sync, WhoAmI


def results_are_those_of_the_model(history: History) -> Iterator[Violation]:
    """Commands are applied without gaps, each answer is that of a tree as simple as can be, and so is each read."""
    yield from replay(history).violations


def writes_keep_real_time(history: History) -> Iterator[Violation]:
    """A write that was answered before another one was requested has the lower zxid; so has the
    answer of any `sync` that began later."""
    newest: Told | None = None
    events = sorted(
        [(told.ended, 1, told) for told in answered(history) if is_write(told)]
        + [
            (told.invoked, 0, told)
            for told in answered(history)
            if is_write(told) or (isinstance(told.action.request, Sync) and told.result.error not in REFUSALS)
        ],
        key=lambda event: event[:2],
    )
    floors: dict[int, Told | None] = {}
    for _, ended, told in events:
        if not ended:
            floors[told.number] = newest
        elif newest is None or told.result.zxid > newest.result.zxid:
            newest = told
    for told in answered(history):
        floor = floors.get(told.number)
        if floor is not None and told.result.zxid < floor.result.zxid + is_write(told):
            what = "a write" if is_write(told) else "a sync"
            message = f"{what} was answered with zxid {told.result.zxid}, and {floor.result.zxid} was known before"
            yield Violation("writes keep real time", message, proof(floor, told))


def commands_are_asked_for_and_applied_once(history: History) -> Iterator[Violation]:
    """A command applied in the name of a session was requested by its client, and is applied at
    most as often; once if it was answered or refused at once."""
    asked: Counter[tuple[int, object]] = Counter(
        (told.action.session, as_operation(told)) for told in history.operations(Asked) if is_write(told)
    )
    for told in history.operations(Asked):
        if isinstance(told.action.request, Reconfig):
            asked[told.action.session, Reconfig] += 1
    known = {told.action.session for told in history.operations(Asked)}
    applied: Counter[tuple[int, object]] = Counter()
    for told in committed(history):
        command = told.action.command
        session = command.origin.session
        if session in known:
            is_config = isinstance(command.operation, SetData) and command.operation.path == CONFIG
            key = session, Reconfig if is_config else command.operation
            applied[key] += 1
            if applied[key] > asked[key]:
                message = f"{command.operation} of session {session:x}: applied {applied[key]} times, asked for {asked[key]} times"
                yield Violation("commands once", message, proof(told))


def sessions_never_go_back(history: History) -> Iterator[Violation]:
    """Answers of a session are as new as all its earlier ones, on whatever connection; a write of
    its own is newer, as reads are answered before the writes behind them are made. An answer
    that depends on no znode holds no write up, so it may show one behind it."""
    newest: dict[int, Told] = {}
    read: dict[int, Told] = {}
    for told in sorted(answered(history), key=lambda told: told.ended or 0):
        if told.result.zxid < 0 or isinstance(told.action.request, Ping | Auth | Login):
            continue
        session = told.action.session
        before = (read if is_write(told) else newest).get(session)
        if before is not None and told.result.zxid < before.result.zxid + is_write(told):
            message = f"session {session:x} was shown zxid {told.result.zxid} behind {before.result.zxid}"
            yield Violation("sessions never go back", message, proof(before, told))
        if session not in newest or told.result.zxid >= newest[session].result.zxid:
            newest[session] = told
        if not isinstance(told.action.request, Sync | WhoAmI) and told.result.error not in REFUSALS:
            read[session] = told


def answers_come_in_order(history: History) -> Iterator[Violation]:
    """Requests of one connection are answered in the order in which they were asked."""
    newest: dict[int, Told] = {}
    for told in answered(history):
        before = newest.get(told.action.connection)
        if before is not None and (told.ended or 0) < (before.ended or 0):
            yield Violation("answers come in order", "a later request was answered first", proof(before, told))
        newest[told.action.connection] = told


def handshakes_are_of_the_log(history: History) -> Iterator[Violation]:
    """A session that is refused has ended, and one that is granted has begun, and has not ended before it was asked for."""
    lives = replay(history).lives
    for told in history.operations(Connect):
        if not told.returned or told.result.read_only:
            continue
        granted = told.result.session
        life = lives.get(granted or told.action.session)
        if granted and (life is None or life.began.invoked > (told.ended or 0)):
            yield Violation(
                "handshakes are of the log", f"session {granted:x} was granted, and is not there", proof(told)
            )
        elif granted and life is not None and life.ended is not None and life.ended.invoked < told.invoked:
            yield Violation("handshakes are of the log", f"session {granted:x} was granted after its end", proof(told))
        elif (
            not granted
            and life is not None
            and life.password == told.action.password
            and (life.ended is None or life.ended.invoked > (told.ended or 0))
        ):
            message = f"session {told.action.session:x} was refused while it lived"
            yield Violation("handshakes are of the log", message, proof(told, life.heard))


DATABASE_CHECKS: Final[tuple[Check, ...]] = (
    results_are_those_of_the_model,
    writes_keep_real_time,
    commands_are_asked_for_and_applied_once,
    sessions_never_go_back,
    answers_come_in_order,
    handshakes_are_of_the_log,
)
