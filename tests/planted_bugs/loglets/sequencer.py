"""Bugs of the sequencer of a NativeLoglet: what it orders, what it counts, when it stops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.batch import Batch
from virtuallog.contract.errors import ReconfigurationNeededError
from virtuallog.contract.ports import NodeEnvironment
from virtuallog.contract.types import NodeId
from virtuallog.exactly_once.session_table import OrderedBatch, SessionTable
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core import sequencer as sequencer_module
from virtuallog_loglets.native.core.quorum import committed_tail
from virtuallog_loglets.native.core.sequencer import Effect, Sequencer, Ticket
from virtuallog_loglets.native.drivers.sequencer_service import _check_incarnation
from virtuallog_loglets.native.messages import NativeStored
from virtuallog_simulation.world.options import Options


@mutant(
    committed_tail, used_in=sequencer_module, scenario="loaded", within=60, found_by=["acknowledged below the stop"]
)
def sequencer_counts_half_as_a_majority(tails: Sequence[int], servers: int) -> int:
    """Acknowledges what n/2 servers have."""
    return sorted(tails, reverse=True)[servers // 2 - 1]


@mutant(
    SessionTable.find,
    scenario="trimmed",
    within=60,
    found_by=["one batch per place", "entries in order and once", "acknowledged is readable"],
)
def batch_offered_again_is_placed_again(self: SessionTable, batch: Batch, *, opens: bool) -> OrderedBatch | None:
    """The sequencer does not remember what it has ordered."""
    return None


@mutant(
    SessionTable.find,
    scenario="native",
    within=60,
    found_by=["loglet keeps sessions in order", "entries in order and once"],
)
def batches_of_a_session_in_any_order(self: SessionTable, batch: Batch, *, opens: bool) -> OrderedBatch | None:
    """A batch is placed when it comes, whether or not those before it have come."""
    session = self._sessions.get(batch.session)
    for placement in session.placements if session is not None else ():
        if placement.sequence == batch.first_sequence:
            return placement
    return None


@mutant(Sequencer._mismatch, scenario="native", within=60, found_by=["loglet conditions hold", "conditions hold"])
def expected_tail_ignored(self: Sequencer, batch: Batch, expected_tail: int, now_ms: int) -> int | None:
    """A conditional append is placed wherever the tail is."""
    return None


@mutant(
    _check_incarnation,
    scenario="restart",
    published="Delos, OSDI'20; delos-lab",
    found_by=["acknowledged is readable", "one wave per offset"],
)
def sequencer_restarted_in_place(config: NativeConfig, environment: NodeEnvironment) -> None:
    """A restarted process goes on ordering, from the beginning; only the node is compared."""
    if config.sequencer != environment.node:
        raise ReconfigurationNeededError("this is another node")


stored_as_it_should = Sequencer.stored


@mutant(Sequencer.stored, scenario="overtaken", within=60, found_by=["acknowledged below the stop"])
def sealed_servers_tail_is_counted(self: Sequencer, server: NodeId, run: int, reply: NativeStored) -> list[Effect]:
    """The sequencer counts what a server has, whether or not it was sealed before it got it."""
    return stored_as_it_should(self, server, run, attrs.evolve(reply, accepted=reply.accepted or reply.sealed))


@mutant(Sequencer.stored, scenario="overtaken", within=60, found_by=["acknowledged below the stop"])
def known_tail_raised_by_hearsay(self: Sequencer, server: NodeId, run: int, reply: NativeStored) -> list[Effect]:
    """The sequencer takes a known tail that a server reports, which may come from a repair, for its own."""
    for progress in self._progress.values():
        progress.acked = max(progress.acked, min(reply.known_tail, self.tail))
    effects = stored_as_it_should(self, server, run, reply)
    return effects if self.stopped is not None else effects + self._commit()


@mutant(Sequencer._saw_seal, scenario="minority", found_by=["progress"])
def sequencer_does_not_stop_at_a_seal(self: Sequencer, server: NodeId) -> list[Effect]:
    """It goes on offering its waves to servers that are sealed, and keeps its callers waiting."""
    return self._back_off(server, self._progress[server].run)


offered_as_it_should = Sequencer.offer
ENTRIES_ORDERED: Final = 25
"""Enough for a log to begin well."""


@mutant(
    Sequencer.offer,
    scenario="cluster",
    options=Options(faults=()),
    found_by=["progress"],
)
def sequencer_falls_silent(
    self: Sequencer, batch: Batch, ticket: Ticket, now_ms: int, *, opens: bool, expected_tail: int
) -> list[Effect]:
    """The sequencer lives, but takes no entries after the first few, without an error: no fault excuses that."""
    if self.tail >= ENTRIES_ORDERED:
        return []
    return offered_as_it_should(self, batch, ticket, now_ms, opens=opens, expected_tail=expected_tail)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
