"""Promises about rights: they depend only on what a client has proved.

The model in `replay.py` decides what an ACL gives, from the identities that
`workload/database/authentication_model.py` computes. This module checks what comes before: which
client may go on with a session, what is refused at the door, and with which rights a command is in
the log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Check, Violation, proof
from virtuallog_database.tree.commands import SetData
from virtuallog_database.tree.paths import CONFIG
from virtuallog_simulation.checks.database.replay import answered, as_operation, committed, is_write, replay
from virtuallog_simulation.workload.database.authentication_model import REFUSALS, refusal, standings
from virtuallog_simulation.workload.database.requests import Asked, Close, Connect, Reconfig, Sync


def the_door_refuses_whom_it_must(history: History) -> Iterator[Violation]:
    """Requests are refused at the door without a required login, with a wrong password, and for a
    write in read-only mode; no others are."""
    known = standings(history)
    for told in answered(history):
        before, after = known[told.number]
        request = told.action.request
        writes = is_write(told, whatever_came=True) or isinstance(request, Sync | Reconfig)
        expected = refusal(request, before, after, is_write=writes and not isinstance(request, Close))
        found = told.result.error
        if (found != expected) if expected is not None else (found in REFUSALS):
            message = f"{request} was answered with error {found}; the rules say {expected}"
            yield Violation("the door refuses whom it must", message, proof(told))


def commands_have_the_rights_of_their_client(history: History) -> Iterator[Violation]:
    """The identities of a command in the log are those that a connection had proved when it asked for it."""
    asked: dict[tuple[int, object], set[frozenset[object]]] = {}
    known = standings(history)
    for told in history.operations(Asked):
        before, _ = known[told.number]
        operation = Reconfig if isinstance(told.action.request, Reconfig) else None
        if operation is not None or is_write(told):
            key = told.action.session, operation or as_operation(told)
            asked.setdefault(key, set()).add(frozenset(before.identities))
    for told in committed(history):
        command = told.action.command
        operation = command.operation
        is_config = isinstance(operation, SetData) and operation.path == CONFIG
        rights = asked.get((command.origin.session, Reconfig if is_config else operation))
        if rights is not None and frozenset(command.origin.identities) not in rights:
            message = f"{operation} is in the log with the rights of {command.origin.identities}"
            yield Violation("rights of commands", message, proof(told))


def sessions_go_on_with_their_password(history: History) -> Iterator[Violation]:
    """Sessions go on with their password on any server, also in read-only mode; only clients that
    asked for read-only mode are in it."""
    lives = replay(history).lives
    owners: dict[bytes, int] = {}
    for session, one in lives.items():
        if owners.setdefault(one.password, session) != session:
            message = (
                f"sessions {owners[one.password]:x} and {session:x} have one password: each client can go on with both"
            )
            yield Violation("passwords of sessions", message, proof(one.began))
    for told in history.operations(Connect):
        if not told.returned or not told.result.session:
            continue
        asked, granted = told.action, told.result
        life = lives.get(granted.session)
        if asked.session and (life is None or granted.session != asked.session or life.password != asked.password):
            message = f"session {granted.session:x} goes on at connection {asked.connection}, without its password"
            yield Violation("passwords of sessions", message, proof(told))
        if granted.read_only and (not asked.read_only or (not asked.session and life is not None)):
            yield Violation("read-only mode", "it was given to a client that did not ask for it", proof(told))


RIGHTS_CHECKS: Final[tuple[Check, ...]] = (
    the_door_refuses_whom_it_must,
    commands_have_the_rights_of_their_client,
    sessions_go_on_with_their_password,
)
