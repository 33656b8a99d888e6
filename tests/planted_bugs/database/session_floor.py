"""Bugs in how SessionOrderEngine applies each command once, though records are dropped and copies come late."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Done
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines import session_order
from virtuallog_database.engines.core import session_floor
from virtuallog_database.engines.core.enabled_engines import FLOOR, enabled_at
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.core.keys import section
from virtuallog_database.engines.core.pending_proposals import PendingProposals
from virtuallog_database.engines.session_order import SessionOrderEngine
from virtuallog_database.ports import StoreReader
from virtuallog_database.transaction import StoreTransaction
from virtuallog_simulation.scenarios.database.late_copies import ONCE, ORDER

CHECKS: Final = [ONCE, ORDER]
AUDIT: Final = "audit of 69fede5, suspected"
PAPER: Final = "SOSP'21, 4.3"

_KEY: Final = section(FLOOR)
applied_as_it_should = SessionOrderEngine.apply
abandoned_as_it_should = PendingProposals.abandon
stood_as_it_should = session_floor.floor


@mutant(session_floor.dropped, scenario="belated", found_by=CHECKS, published=AUDIT)
def what_a_dropped_record_said_is_forgotten(transaction: StoreTransaction, last: LogPosition) -> None:
    """The floor stays at the position of the switch."""


@mutant(session_floor.dropped, scenario="belated", found_by=CHECKS)
def the_floor_is_that_of_the_newest_drop(transaction: StoreTransaction, last: LogPosition) -> None:
    """The record of a member that leaves the view may be dropped after those of others who wrote later."""
    if enabled_at(transaction, FLOOR) is not None:
        transaction.put(_KEY, (last + 1).to_bytes(8, "big"))


@mutant(session_floor.dropped, scenario="belated", found_by=CHECKS)
def the_floor_is_one_too_low(transaction: StoreTransaction, last: LogPosition) -> None:
    """An entry that lands right at the cursor of its proposer is not covered."""
    if enabled_at(transaction, FLOOR) is not None and last > stood_as_it_should(transaction):
        transaction.put(_KEY, last.to_bytes(8, "big"))


@mutant(session_floor.floor, scenario="belated", found_by=CHECKS)
def the_switch_is_no_floor(state: StoreReader | StoreTransaction) -> LogPosition:
    """Records that were dropped before the rule began count for nothing."""
    return LogPosition(int.from_bytes(state.get(_KEY) or b"", "big"))


@mutant(session_floor.beginning_of, scenario="belated", found_by=CHECKS)
def entries_of_the_former_version_have_just_begun(entry: Entry) -> LogPosition:
    """One that does not say where its incarnation began is taken for new."""
    return LogPosition(int.from_bytes(entry.headers.get(FLOOR, b"\xff" * 7), "big"))


@mutant(SessionOrderEngine.apply, scenario="belated", found_by=CHECKS)
def the_floor_is_for_those_without_a_record(
    self: SessionOrderEngine, transaction: StoreTransaction, entry: Entry, position: LogPosition
) -> Any:
    """An incarnation that began below it is let up behind an earlier one, and its replica, which lags, has proposed the same anew."""
    stamp = session_order.Stamp.parse_untrusted(entry.headers[self.name])
    if transaction.get(section(self.name) + stamp.replica) is not None:
        entry = entry.with_header(FLOOR, b"\xff" * 8)
    return applied_as_it_should(self, transaction, entry, position)


@mutant(SessionOrderEngine._is_forgotten, scenario="belated", found_by=CHECKS)
def a_replica_without_a_record_is_sure_to_be_forgotten(self: SessionOrderEngine) -> bool:
    """A replica counts as forgotten even if its first entry is still on its way."""
    record = self.context.store.get(section(self.name) + self._replica)
    return bool(self._proposals.pending) and record is None


@mutant(PendingProposals.renew, scenario="belated", found_by=[*CHECKS, "progress"])
def what_is_proposed_anew_keeps_its_numbers(self: PendingProposals, incarnation: bytes) -> None:
    """The new incarnation does not begin with number 0."""
    self.incarnation, self.error = incarnation, None
    self._under_way, self._lost = 0, True


@mutant(session_order._expected, scenario="belated", found_by=CHECKS, published=PAPER)
def incarnations_that_have_ended_come_back(record: bytes | None, incarnation: bytes) -> tuple[bytes, int]:
    """Any other incarnation than the last one is taken for a newer one."""
    if record is None:
        return incarnation, 0
    newest, following, _ = session_order._RECORD.unpack(record)
    return incarnation, following if newest == incarnation else 0


@mutant(SessionOrderEngine.apply, scenario="belated", found_by=[*CHECKS, "no unexpected error"], published=PAPER)
def gaps_in_the_order_are_let_up(
    self: SessionOrderEngine, transaction: StoreTransaction, entry: Entry, position: LogPosition
) -> Any:
    """A number that is higher than the next one counts as it: what was lost before it comes later, or never."""
    stamp = session_order.Stamp.parse_untrusted(entry.headers[self.name])
    record = transaction.get(section(self.name) + stamp.replica)
    _, expected = session_order._expected(record, stamp.incarnation)
    if expected and stamp.sequence > expected:
        newest = session_order._RECORD.unpack(record or b"")[0]
        if newest == stamp.incarnation:
            key = section(self.name) + stamp.replica
            transaction.put(key, session_order._RECORD.pack(newest, stamp.sequence + 1, position))
            return self.apply_above(transaction, entry, position)
    return applied_as_it_should(self, transaction, entry, position)


@mutant(PendingProposals.abandon, scenario="belated", found_by=CHECKS, published=PAPER)
def who_gives_up_proposes_the_same_again(
    self: PendingProposals, incarnation: bytes, error: VirtualLogError
) -> list[tuple[Done, VirtualLogError]]:
    """An entry that was reported with an unknown outcome is proposed once more, as a part of the
    next incarnation."""
    kept = [attrs.evolve(each, sequence=number, done=lambda _: None) for number, each in enumerate(self.pending)]
    told = abandoned_as_it_should(self, incarnation, error)
    self.pending, self._next_sequence, self._lost = deque(kept), len(kept), bool(kept)
    return told


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
