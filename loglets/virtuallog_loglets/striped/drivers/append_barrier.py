"""Barrier for appends: each waits until all lower slots are filled, and lagging stripes are filled
meanwhile.

For each stripe on which an append waits, one task of the client checks tails and fills, as
`core/fill_policy.py` says, until nothing is missing there. All waiting appends share it: at most
one tail check and one filler per stripe are under way.

The tasks run in the environment's nursery. A cancelled caller cancels nothing that others wait for.
It leaves a slot that is to be filled, which the next append needs as well. If the nursery itself
ends, waiting appends fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import trio

from virtuallog.contract.batch import Batch
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    ReconfigurationNeededError,
    SealedError,
    TailMismatchError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
)
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, Sealed
from virtuallog_loglets.striped.core.acknowledgement import StripeProgress
from virtuallog_loglets.striped.core.fill_policy import (
    FAILURES_MAX,
    AppendFillers,
    CheckStripeTail,
    FillPolicy,
    WaitForProgress,
)
from virtuallog_loglets.striped.drivers.filler_sessions import FillerSessions

_FILLING = CrashPoint("striped: a filler is about to be offered to a lagging stripe")


@attrs.define(eq=False)
class _Waiter:
    """An append that is durable and waits for lower slots."""

    woken: trio.Event = attrs.field(factory=trio.Event)
    error: VirtualLogError | None = None


@attrs.define(eq=False)
class AppendBarrier:
    """Append barrier of one client of one loglet."""

    progress: StripeProgress
    _stripes: Sequence[Loglet]
    _environment: Environment
    _places_max: int
    """Most places of one filler."""
    _fill_policies: list[FillPolicy] = attrs.field(init=False)
    _filler_sessions: list[FillerSessions] = attrs.field(init=False)
    _news: list[trio.Event] = attrs.field(init=False)
    """For each stripe: event that is set when the stripe is known to have grown."""
    _stripes_with_task: set[int] = attrs.field(factory=set, init=False)
    """Stripes that have a fill task."""

    def __attrs_post_init__(self) -> None:
        self._fill_policies = [FillPolicy(self._places_max) for _ in self._stripes]
        self._filler_sessions = [FillerSessions(self._environment.random) for _ in self._stripes]
        self._news = [trio.Event() for _ in self._stripes]

    def offered(self, stripe: int) -> None:
        """Record an append that has left for a stripe. Starts to fill the calm stripes in parallel."""
        self.progress.offer(stripe)
        self._fill_policies[stripe].used()
        self._start_fills()

    def answered(self, stripe: int) -> None:
        """Record that an append has been answered or cancelled. Call `learn` first, if there is
        something to learn."""
        self.progress.answered(stripe)
        self._tell_news(stripe)

    def placed(self, stripe: int, place: int) -> None:
        """Record an acknowledged append of this client at this place of its stripe."""
        if place >= self.progress.expected(stripe):
            self._fill_policies[stripe].shared()
        self.learn(stripe, place + 1)

    def learn(self, stripe: int, tail: int) -> None:
        """Record that places of a stripe below `tail` are filled; `core/acknowledgement.py` says what is
        evidence of that."""
        _wake(self.progress.learn(stripe, tail), None)
        self._tell_news(stripe)

    async def wait(self, slot: int) -> None:
        """Return once the slot and all lower ones are filled: the append in it may be acknowledged.

        Raises:
            SealedError, ReconfigurationNeededError, UnavailableError: a stripe takes no more, or does not answer. The
                append may be in the log.
        """
        waiter = _Waiter()
        if self.progress.wait(slot, waiter):
            return
        self._start_fills()
        await waiter.woken.wait()
        if waiter.error is not None:
            raise waiter.error

    def fail(self, stripe: int, error: VirtualLogError) -> None:
        """Fail all waiting appends: a stripe takes no more, or does not answer. Their outcome is unknown."""
        reason = f"stripe {stripe}: {error}"
        for waiter in self.progress.give_up():
            _wake([waiter], _for_a_waiter(error, reason))

    # -- one task for each stripe that lags -------------------------------------------------------------------------

    def _start_fills(self) -> None:
        for stripe in range(len(self._stripes)):
            if stripe not in self._stripes_with_task and self._lags(stripe):
                self._stripes_with_task.add(stripe)
                self._environment.nursery.start_soon(self._fill_up, stripe)

    def _lags(self, stripe: int) -> bool:
        """True if the stripe needs a fill task. A calm stripe is filled before an append waits; on
        others, other clients may fill it by then."""
        progress = self.progress
        return progress.missing(stripe) > 0 or (self._fill_policies[stripe].calm and progress.may_block(stripe))

    async def _fill_up(self, stripe: int) -> None:
        try:
            while self._lags(stripe):
                await self._take_step(stripe)
            self._fill_policies[stripe].done()
        except VirtualLogError as error:
            self.fail(stripe, error)
        except BaseException:  # cancelled, as the client ends
            self.fail(stripe, UnavailableError("the client of the stripes has ended"))
            raise
        finally:
            self._stripes_with_task.discard(stripe)

    async def _take_step(self, stripe: int) -> None:
        progress, policy = self.progress, self._fill_policies[stripe]
        match policy.step(progress.lacking(stripe)):
            case WaitForProgress(seconds):
                news = self._news[stripe]
                with self._environment.clock.timeout(seconds):
                    await news.wait()
            case CheckStripeTail():
                tail = await self._stripes[stripe].check_tail()
                if isinstance(tail, Sealed):
                    raise SealedError
                policy.looked(surprising=tail.tail > progress.expected(stripe))
                self.learn(stripe, tail.tail)
            case AppendFillers(count, conditional):
                _FILLING.reached()
                await self._fill(stripe, count, conditional)

    async def _fill(self, stripe: int, count: int, conditional: bool) -> None:
        """Offer one filler.

        Raises:
            SealedError, ReconfigurationNeededError: the stripe takes no more.
            UnavailableError: it has not answered several times.
        """
        policy, fillers = self._fill_policies[stripe], self._filler_sessions[stripe]
        batch, expected = fillers.batch(count), self.progress.expected(stripe)
        try:
            places = await self._offer(stripe, batch, expected if conditional else None)
        except TailMismatchError as error:
            policy.preceded()
            if error.found < error.expected:  # it came before its turn, and stays refused when that comes
                fillers.replace()
        except UnsupportedError:
            if not conditional:
                raise
            policy.conditions = False
        except SealedError:
            raise
        except VirtualLogError as error:
            is_new = fillers.opens
            fillers.replace()
            policy.unknown()
            if policy.failures >= FAILURES_MAX or (is_new and isinstance(error, ReconfigurationNeededError)):
                policy.gave_up()
                raise
        else:
            fillers.taken(batch)
            policy.filled(as_expected=places.start == expected)
            self.learn(stripe, places[-1] + 1)

    async def _offer(self, stripe: int, batch: Batch, expected: int | None) -> range:
        opens = self._filler_sessions[stripe].opens
        condition = None if expected is None else LogletOffset(expected)
        clock, policy = self._environment.clock, self._fill_policies[stripe]
        started = clock.monotonic()
        with clock.timeout(policy.patience_seconds):
            places = await self._stripes[stripe].append(batch, opens=opens, expected_tail=condition)
            policy.took(clock.monotonic() - started)
            return places
        raise UnavailableError("a filler was not acknowledged in time")

    def _tell_news(self, stripe: int) -> None:
        self._news[stripe].set()
        self._news[stripe] = trio.Event()


def _wake(waiters: Iterable[_Waiter], error: VirtualLogError | None) -> None:
    for waiter in waiters:
        waiter.error = error
        waiter.woken.set()


def _for_a_waiter(error: VirtualLogError, reason: str) -> VirtualLogError:
    """Error for an append that is durable in its own stripe: its outcome is unknown in any case."""
    if isinstance(error, SealedError):
        return SealedError(reason)
    if isinstance(error, ReconfigurationNeededError):
        return ReconfigurationNeededError(reason)
    return UnavailableError(reason)
