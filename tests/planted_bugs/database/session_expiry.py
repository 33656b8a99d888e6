"""Bugs of the expiry of sessions: by their own servers, by others, and in what servers answer meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.ports import Outcome
from virtuallog_database.replica.database import Database
from virtuallog_database.replica.session_expiry import PATIENCE_SECONDS, Ended, SessionExpiry
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import apply
from virtuallog_database.tree.commands import Command, ExpireSessions, Touch
from virtuallog_database.tree.execution import find_session
from virtuallog_database.tree.results import Result
from virtuallog_simulation.world.options import Options

CALM: Final = Options(faults=())
"""These need no faults, and are found sooner without."""
EARLY: Final = ["sessions end in time"]
applied_as_it_should = apply.apply
attached_as_it_should = SessionExpiry.attach
settled_as_it_should = Database._settled
other_expiries_as_they_should = SessionExpiry._due_other_expiries


@mutant(SessionExpiry._due_own_expiries, scenario="zelos", options=CALM, found_by=EARLY)
def sessions_are_given_half_their_time(self: SessionExpiry, now: float) -> list[int]:
    """A timeout in seconds is taken for twice what it is."""
    due = []
    for session, own in self._own.items():
        if now - own.heard >= own.timeout / 2:
            own.heard = now - own.timeout / 2 + PATIENCE_SECONDS
            own.doomed = own.asked = now
            due.append(session)
    return due


@mutant(SessionExpiry.heard, scenario="zelos", options=CALM, found_by=EARLY)
def pings_are_told_to_nobody(self: SessionExpiry, session: int, now: float) -> None:
    """The time of a session counts from its connection."""


@mutant(SessionExpiry.attach, scenario="expiring", found_by=EARLY)
def a_handshake_is_a_sign_of_life(
    self: SessionExpiry, session: int, generation: int, ended: Ended, *, proposed: float, now: float
) -> None:
    """Its client has gone elsewhere, and is answered there. The new server expires the session a timeout later."""
    attached_as_it_should(self, session, generation, ended, proposed=proposed, now=now)
    if session in self._own:
        self._own[session].heard = now


@mutant(SessionExpiry._due_other_expiries, scenario="expiring", found_by=["sessions do not live on"])
def sessions_of_others_are_left_to_them(self: SessionExpiry, now: float) -> list[int]:
    """A server looks after its own sessions. Those whose server has begun anew live for ever."""
    return []


@mutant(SessionExpiry.detach, scenario="zelos", options=CALM, found_by=["sessions end soon"])
def a_session_without_a_connection_is_left_to_all(self: SessionExpiry, session: int, generation: int) -> None:
    """Its own server forgets it with its connection, and waits like others."""
    if session in self._own and self._own[session].generation == generation:
        del self._own[session]


@mutant(SessionExpiry.admits, scenario="expiring", found_by=EARLY)
def servers_answer_without_a_report(self: SessionExpiry, session: int, now: float, resume: Callable[[], None]) -> bool:
    """A server that is cut off from the log answers pings, while others expire the session."""
    return True


@mutant(Database._settled, scenario="expiring", within=60, found_by=EARLY)
def reports_count_from_their_answer(
    self: Database, command: Touch | ExpireSessions, proposed: float, outcome: Outcome[Result]
) -> None:
    """The log was slow: others have dated the touch long before its server hears of it."""
    settled_as_it_should(self, command, self.clock.monotonic(), outcome)


@mutant(SessionExpiry._due_other_expiries, scenario="expiring", found_by=EARLY)
def others_wait_for_the_timeout_alone(self: SessionExpiry, now: float) -> list[int]:
    """What a server has heard since its last touch, and not reported yet, is not allowed for."""
    for noted in self._noted.values():
        noted.since -= noted.timeout / 2
    due = other_expiries_as_they_should(self, now)
    for noted in self._noted.values():
        noted.since += noted.timeout / 2
    return due


@mutant(
    apply.apply,
    scenario="expiring",
    found_by=["results as the model has them", "reads as the model has them"],
    used_in=apply,
)
def stale_reports_end_sessions(transaction: StoreTransaction, command: Command) -> Result:
    """An expiry takes effect in spite of touches that came since it was decided."""
    if isinstance(command.operation, ExpireSessions):
        known = ((id_, find_session(transaction, id_)) for id_, _ in command.operation.sessions)
        command = attrs.evolve(
            command, operation=ExpireSessions(tuple((id_, each.touches) for id_, each in known if each))
        )
    return applied_as_it_should(transaction, command)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
