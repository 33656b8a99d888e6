"""Bugs in the time of a lease: in what its holder relies on, and in when others end it."""

from __future__ import annotations

from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.ports import Clock
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.core import lease_state
from virtuallog_database.engines.core.lease_state import Acquire, Confirm, Expire, Release, Renew
from virtuallog_database.engines.lease import LeaseEngine, _Reliance
from virtuallog_database.transaction import StoreTransaction

READS: Final = ["linearizable reads"]
ARGUMENT: Final = "SOSP'21, section 4"

applied_as_it_should = lease_state.apply
ticked_as_it_should = LeaseEngine.tick


@mutant(LeaseEngine._rely_after, scenario="leased", published=ARGUMENT, found_by=READS)
async def drift_of_the_holder_is_added(self: LeaseEngine, command: Acquire | Renew, milliseconds: int) -> None:
    """It relies on the lease for longer than was agreed, not for less."""
    monotonic, wall = self._clock.monotonic(), self._clock.wall()
    if await self.command(command) and self._grant is not None and self._is_ours:
        seconds = milliseconds / 1000 * (1 + self.settings.drift)
        self._reliance = _Reliance(self._grant.lease, monotonic + seconds, wall + seconds)


@mutant(LeaseEngine._rely_after, scenario="leased", published=ARGUMENT, found_by=READS)
async def lease_is_counted_from_the_answer(self: LeaseEngine, command: Acquire | Renew, milliseconds: int) -> None:
    """Others may have applied the renewal long before the holder hears of it."""
    if await self.command(command) and self._grant is not None and self._is_ours:
        seconds = milliseconds / 1000 * (1 - self.settings.drift)
        self._reliance = _Reliance(self._grant.lease, self._clock.monotonic() + seconds, self._clock.wall() + seconds)


@mutant(LeaseEngine.tick, scenario="leased", published=ARGUMENT, found_by=READS)
async def others_end_a_lease_early(self: LeaseEngine) -> None:
    """They take the drift off the duration, as the holder does."""
    grant = self._grant
    if grant is not None and not self._is_ours:
        if self._clock.monotonic() - self._renewed >= grant.milliseconds / 1000 * (1 - self.settings.drift):
            await self.command(Expire(grant.lease, grant.renewals))
    else:
        await ticked_as_it_should(self)


@mutant(LeaseEngine._look, scenario="leased", found_by=READS)
def others_count_from_the_first_grant(self: LeaseEngine) -> None:
    """A renewal does not begin the time anew, and is taken for known when the lease is ended."""
    grant, former = lease_state.current(self.context.store), self._grant
    if grant is not None and (former is None or former.lease != grant.lease):
        self._renewed = self._clock.monotonic()
    self._grant = grant


@mutant(lease_state.apply, scenario="leased", found_by=READS, used_in=lease_state)
def a_lease_is_ended_in_spite_of_a_renewal(
    transaction: StoreTransaction, command: Acquire | Renew | Confirm | Release | Expire, position: LogPosition
) -> bool:
    """The number of renewals that the proposer knew is not compared."""
    lease = lease_state.current(transaction)
    if isinstance(command, Expire) and lease is not None:
        command = attrs.evolve(command, renewals=lease.renewals)
    return applied_as_it_should(transaction, command, position)


@mutant(_Reliance.is_over, scenario="leased", found_by=READS)
def a_suspended_holder_trusts_its_monotonic_clock(self: _Reliance, clock: Clock) -> bool:
    """It has missed the time of the suspension."""
    return clock.monotonic() >= self.monotonic


@mutant(_Reliance.is_over, scenario="leased", found_by=READS)
def holder_trusts_a_wall_clock_that_is_set_back(self: _Reliance, clock: Clock) -> bool:
    """Until it shows that time again the lease is not over."""
    return clock.wall() >= self.wall


@mutant(LeaseEngine.tick, scenario="leased", found_by=READS)
async def reliance_ends_when_it_is_looked_at(self: LeaseEngine) -> None:
    """A holder that was cut off or stood still reads on until its next tick: what is over is found there, and not by a read."""
    reliance = self._reliance
    if reliance is not None and not isinstance(reliance, _Unlimited):
        self._reliance = _Unlimited(reliance.lease, reliance.monotonic, reliance.wall)
    await ticked_as_it_should(self)


@attrs.define
class _Unlimited(_Reliance):
    def is_over(self, clock: Clock) -> bool:
        return clock.monotonic() >= self.monotonic + 2.0


@mutant(LeaseEngine.confirm, scenario="leased", published=ARGUMENT, found_by=READS)
async def reads_beside_the_holder_do_not_wait_for_it(self: LeaseEngine) -> None:
    """The holder may not have applied the state that they show."""


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
