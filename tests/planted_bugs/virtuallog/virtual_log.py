"""Bugs above the loglets: changes of the chain, sessions, the appender, the address space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import trio

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.client.address_space import AddressSpace
from virtuallog.client.append_queue import pending_appends_of
from virtuallog.client.batch_sender import BatchSender
from virtuallog.client.settlement import Settlement
from virtuallog.contract.chain import Chain, Segment
from virtuallog.contract.errors import ChainConflictError, UnavailableError
from virtuallog.contract.loglet import Placed
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogletOffset, Open, PlacedBatch, Sealed, Tail
from virtuallog.exactly_once.append_session import InFlightBatch
from virtuallog.reconfiguration.chain_writer import ChainWriter
from virtuallog.reconfiguration.core import chain_change
from virtuallog.reconfiguration.core.chain_change import Effect, Event, Reconfiguration
from virtuallog_simulation.world.options import Options

QUIET: Final = Options(faults=(), seconds=4.0)
"""Found without faults: the workload alone brings about what it takes, and a seed is cheap."""


@mutant(
    ChainWriter._ask_loglet,
    scenario="cluster",
    published="Delos, OSDI'20, section 3.2",
    options=QUIET,
    found_by=["boundaries come from sealed tails", "acknowledged below the stop"],
)
async def reconfigurer_that_skips_the_seal(
    self: ChainWriter, effect: chain_change.SealSegment | chain_change.CheckSegmentTail, segment: Segment
) -> Event:
    """The tail of the open loglet becomes its stop."""
    if isinstance(effect, chain_change.CheckSegmentTail):
        return Sealed((await self._view.loglet(segment).check_tail()).tail)
    return chain_change.SealReturned()


stepped = Reconfiguration.step


@mutant(
    Reconfiguration.step,
    scenario="cluster",
    published="Relos",
    options=QUIET,
    found_by=["boundaries come from sealed tails"],
)
def roll_forward_with_another_stop_than_the_sealed_tail(self: Reconfiguration, event: Event) -> Effect:
    """The stop is a little below the sealed tail: what the last wave held is cut off."""
    if isinstance(event, Sealed):
        event = Sealed(LogletOffset(max(0, event.tail - 1)))
    return stepped(self, event)


@mutant(
    Reconfiguration._rebase,
    scenario="cluster",
    options=QUIET,
    found_by=["chain is gapless", "boundaries come from sealed tails", "no unexpected error"],
)
def loser_builds_on_the_winner_without_a_seal(self: Reconfiguration, found: Register) -> Effect:
    """The loser of the race puts its change on top of the winner's, with the stop that it had read
    before."""
    self.register = found
    self._stop = found.chain.last.start
    return self._propose()


@mutant(
    ChainWriter._put,
    scenario="cluster",
    published="CorfuDB 408, 832",
    options=QUIET,
    found_by=["chain is gapless", "boundaries come from sealed tails"],
)
async def chain_put_without_an_expected_version(
    self: ChainWriter, value: bytes, proposed: Register, expected_version: int, attempt: int
) -> Event:
    """The register is put as the successor of any newest version, under the next number."""
    while True:
        value = proposed.with_chain(attrs.evolve(proposed.chain, version=expected_version + 1)).encode()
        try:
            await self._view.metastore.put(value, expected_version, attempt, proposed.members)
        except ChainConflictError as error:
            expected_version = error.found
        except UnavailableError:
            return chain_change.PutUnknown()
        else:
            return chain_change.PutWon()


@mutant(
    Settlement._search,
    scenario="cluster",
    published="Restate 4810",
    options=QUIET,
    found_by=["entries in order and once"],
)
async def appended_again_without_looking(self: Settlement, left: Segment, chain: Chain) -> list[PlacedBatch]:
    """Batches in flight when the loglet was sealed are sent to the successor, without a search of the sealed range."""
    return []


sent_for_all = BatchSender.start


@mutant(BatchSender.start, scenario="cancelled", found_by=["progress"], published="Relos")
def cancelled_append_leaves_a_hole(
    self: BatchSender, nursery: trio.Nursery, flight: InFlightBatch, segment: Segment
) -> None:
    """A batch whose callers have all given up is not sent any more; its sequence numbers stay used."""
    if any(offer.task is not None for offer in pending_appends_of(flight)):
        sent_for_all(self, nursery, flight, segment)
    else:
        self._state.session.flights.remove(flight)
        self._state.work.set()


@mutant(
    AddressSpace._read_segment,
    scenario="cluster",
    published="Delos, OSDI'20, section 3.2",
    options=QUIET,
    found_by=["no append passes a known stop", "one entry per position"],
)
async def read_not_clamped_to_the_stop(
    self: AddressSpace, segment: Segment, start: int, stop: int, max_bytes: int
) -> Sequence[Placed]:
    """A loglet is asked for more than its segment holds; what a zombie wrote there comes, too."""
    found = await self.view.loglet(segment).read(segment.offset(start), segment.offset(stop), max_bytes)
    return [item.shift(segment.shift) for item in found]


@mutant(
    AddressSpace.check_tail,
    scenario="cluster",
    options=QUIET,
    found_by=["tails move forward"],
)
async def sealed_tail_taken_for_the_tail(self: AddressSpace) -> Tail:
    """The tail of a sealed loglet is the tail of the log: no look at the chain for a successor."""
    segment = (await self.view.current()).chain.last
    tail = await self.view.loglet(segment).check_tail()
    return Open(self.view.saw_tail(segment.position(tail.tail)))


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
