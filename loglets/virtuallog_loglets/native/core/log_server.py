"""Core of a log server: all loglets of one store. Delos, OSDI'20, section 4.2.1.

Rules:
* Durable before visible: an answer that depends on a write is made once that write is durable, from
  the state at its position in the WAL. The record of a seal lies behind all stores accepted before
  it, so its answer covers them: a store in flight cannot slip past a seal. Tail and seal bit of an
  answer are of the same moment.
* The local-commit rule, `LiveLoglet.may_follow`.
* A sealed loglet accepts repairs only. A server that does not know a loglet creates it on a seal,
  so that a store which comes later is refused.
* The known tail is volatile, but a gap that rests on it is written together with it.
* A server on a data directory that replaces a lost one does not speak for the lost one. About a
  loglet that is older than the directory it says nothing until a whole copy is here: an empty or
  half state would be a false answer that could make a majority. The seal says that the copy is
  whole: it is written last, and holds once it is durable.

Departure from the paper, whose servers log single entries: the unit is a wave, and answers are
cumulative.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from functools import reduce
from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    CorruptionError,
    MalformedError,
    OverloadedError,
    SealedError,
    UnavailableError,
    VirtualLogError,
)
from virtuallog.contract.types import POSITION_MAX
from virtuallog_loglets.native.core.durable_state import Change, DurableLogs, LogletSealed, LogletTrimmed, encode
from virtuallog_loglets.native.core.live_loglet import LiveLoglet, TailWaiter
from virtuallog_loglets.native.core.log_server_effects import (
    DropBefore,
    Effect,
    NativeAnswer,
    NativeFail,
    NativePersist,
    PendingAnswer,
    Ticket,
)
from virtuallog_loglets.native.messages import (
    NativeGetState,
    NativeReadWaves,
    NativeRepair,
    NativeSeal,
    NativeState,
    NativeStore,
    NativeStored,
    NativeTrim,
    NativeWaitTail,
)
from virtuallog_loglets.tombstones import LiveLogletSet, Tombstones, VersionFloor, tombstones_after
from virtuallog_loglets.wal.core.record import Address

WAITERS_MAX: Final = 4096
"""Most parked `NativeWaitTail`s of all clients: a few hundred bytes each."""
LOGLETS_MAX: Final = 4096
"""Most loglets of which anything is known. A register of 64 KiB names some hundred; more come from
a client that makes up names. All of them must fit into the snapshot at the head of a WAL segment:
400 KB."""
WAIT_TICKS: Final = 4
"""Ticks after which a parked `NativeWaitTail` is answered in any case: its client may have gone or
look elsewhere."""
READ_WAVES_MAX: Final = 1024
"""Most waves in one answer: asking again for small ones is cheaper than to delay an answer."""

_DROPPING: Final = (LogletTrimmed, VersionFloor, LiveLogletSet)
"""Changes after which the WAL may drop records. Each is the only one of its write."""
_UNKNOWN: Final = NativeState(local_tail=0, sealed=False, known_tail=0, trim=0)


@attrs.define(eq=False)
class LogServer:
    """Core of one log server. Takes requests and results of the WAL; returns effects."""

    durable: DurableLogs
    joined: int = 0
    """Chain version at which this store joined; see `NodeEnvironment.joined`."""
    waiting: int = attrs.field(default=0, init=False)
    """Number of parked `NativeWaitTail`s."""
    _loglets: dict[SegmentId, LiveLoglet] = attrs.field(factory=dict, init=False)
    _pending: deque[NativePersist] = attrs.field(factory=deque, init=False)
    """Writes handed to the WAL and not called back, in WAL order."""
    _tombstones: Tombstones = attrs.field(factory=Tombstones, init=False)
    """Tombstones in force: from the moment a drop is requested."""
    _now: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._tombstones = self.durable.tombstones

    # -- for who looks inside -------------------------------------------------------------------------------------

    @property
    def loglets(self) -> int:
        """Number of loglets with state here."""
        return len(self.durable.loglets)

    @property
    def newest_state(self) -> NativeState:
        """State of the loglet with the highest version."""
        newest = max(self.durable.loglets, default=None, key=lambda segment: segment.version)
        return _UNKNOWN if newest is None else self.state(newest)

    # -- events ---------------------------------------------------------------------------------------------------

    def step(
        self,
        request: NativeStore | NativeSeal | NativeGetState | NativeWaitTail | NativeRepair | NativeTrim,
        ticket: Ticket,
    ) -> list[Effect]:
        """Handle a request."""
        segment = request.segment
        if self._tombstones.is_dropped(segment):
            return [NativeAnswer(ticket, _dropped(segment))]
        if self._may_have_lost(segment) and not _rebuilds(request):
            return [NativeAnswer(ticket, UnavailableError(f"loglet {segment} is older than this data directory"))]
        if isinstance(request, NativeGetState):
            return [NativeAnswer(ticket, self.state(segment))]
        if (refusal := _refusal_untrusted(request)) is not None:
            return [NativeAnswer(ticket, refusal)]
        loglet = self._loglets.get(segment)
        if loglet is None:
            if segment not in self.durable.loglets and len(self.durable.loglets) >= LOGLETS_MAX:
                return self._step_crowded(request, ticket)
            loglet = self._loglet(segment)
        return self._step(loglet, request, ticket)

    def _step(
        self,
        loglet: LiveLoglet,
        request: NativeStore | NativeSeal | NativeWaitTail | NativeRepair | NativeTrim,
        ticket: Ticket,
    ) -> list[Effect]:
        match request:
            case NativeStore():
                return self._store(loglet, (request.wave,), request.known_tail, ticket, repairs=False)
            case NativeWaitTail():
                return self._wait(loglet, request, ticket)
            case NativeRepair():
                return self._store(loglet, request.waves, request.known_tail, ticket, repairs=True)
            case NativeSeal() if self._may_have_lost(loglet.segment) and not request.whole:
                return self._after_pending(PendingAnswer(ticket=ticket, loglet=loglet))
            case NativeSeal():
                return self._seal(loglet, PendingAnswer(ticket=ticket, loglet=loglet, seals=True))
            case NativeTrim():
                return self._trim(loglet, request, PendingAnswer(ticket=ticket, loglet=loglet))

    def forget(self, lowest_live_version: int, ticket: Ticket) -> list[Effect]:
        """Drop every loglet of an earlier version and never create one again. Answered with None
        once durable."""
        return self._drop(self._tombstones.raised(lowest_live_version), VersionFloor(lowest_live_version), ticket)

    def sweep_loglets(self, horizon: int, live: Collection[SegmentId], ticket: Ticket) -> list[Effect]:
        """Drop every loglet of a version up to `horizon` that is not in `live`. Answered with None
        once durable.

        `horizon` is a version of the chain, `live` the loglets that it names. Nothing is written if
        nothing is dropped: a server that never heard of a loglet has nothing to remember about it.
        """
        tombstones = self._tombstones.seen(horizon, live)
        held = self.durable.loglets.keys() | self._loglets.keys()
        if not any(tombstones.is_dropped(segment) for segment in held):
            tombstones = self._tombstones
        return self._drop(tombstones, LiveLogletSet(horizon, tuple(sorted(tombstones.live))), ticket)

    def _drop(self, tombstones: Tombstones, change: Change, ticket: Ticket) -> list[Effect]:
        question = PendingAnswer(ticket=ticket, loglet=None)
        if tombstones == self._tombstones:
            return self._after_pending(question)
        self._tombstones = tombstones
        return self._persist((change,), question, essential=True)

    def persisted(self, write: NativePersist, addresses: Sequence[Address]) -> list[Effect]:
        """Answer what rests on `write`: its records, and all before it, are durable."""
        assert write is self._pending[0], "the WAL calls back in order"
        self._pending.popleft()
        for change, address in zip(write.changes, addresses, strict=True):
            self.durable.apply(change, address)
        loglet = write.loglet
        if loglet is not None:
            loglet.settle(write.changes)
        effects: list[Effect] = [*map(self._answer, write.questions)]
        if isinstance(write.changes[0], _DROPPING):
            effects += [*self._drop_loglets(), DropBefore(self.durable.lowest_address_needed())]
        elif loglet is not None and loglet.waiters:
            effects += self._wake(loglet)
        return effects

    def failed(self, write: NativePersist, error: VirtualLogError) -> list[Effect]:
        """Take back `write`, which the WAL refused or lost, and answer with `error`."""
        self._pending.remove(write)
        loglet = write.loglet
        if loglet is not None:
            sealed = LogletSealed(loglet.segment)
            loglet.roll_back(sealing=any(sealed in other.changes for other in self._pending))
        else:
            asked = [change for other in self._pending for change in other.changes]
            self._tombstones = reduce(
                tombstones_after, asked, self.durable.tombstones
            )  # what others wait for stays in force
        return [NativeAnswer(question.ticket, error) for question in write.questions]

    def tick(self) -> list[Effect]:
        """Answer the waiters whose time is up."""
        self._now += 1
        return [effect for loglet in self._loglets.values() for effect in self._wake(loglet)]

    # -- reading --------------------------------------------------------------------------------------------------

    def state(self, segment: SegmentId) -> NativeState:
        """Durable state of a loglet, also of one that this server has never heard of."""
        known = segment in self._loglets or segment in self.durable.loglets
        return self._loglet(segment).state if known else _UNKNOWN

    def find(self, request: NativeReadWaves) -> list[Address]:
        """Addresses of the requested waves, as far as they are durable and consecutive here.

        Raises:
            SealedError: the loglet has been dropped.
        """
        if self._tombstones.is_dropped(request.segment):
            raise _dropped(request.segment)
        durable = self.durable.loglets.get(request.segment)
        if durable is None:
            return []
        return durable.waves.find(max(request.start, durable.trim), request.stop, READ_WAVES_MAX)

    # -- bounds ---------------------------------------------------------------------------------------------------

    def _step_crowded(
        self, request: NativeStore | NativeSeal | NativeWaitTail | NativeRepair | NativeTrim, ticket: Ticket
    ) -> list[Effect]:
        """Handle a request for one loglet too many.

        Any client may ask for waits, and they must not keep seals and stores out. So they create no
        loglet, and loglets that exist only for waits are dropped to make room.
        """
        if isinstance(request, NativeWaitTail):
            return [NativeAnswer(ticket, _UNKNOWN)]
        effects = self._forget_blank()
        if len(self.durable.loglets) >= LOGLETS_MAX:
            return [*effects, NativeAnswer(ticket, OverloadedError(f"{LOGLETS_MAX} loglets are known here"))]
        return effects + self._step(self._loglet(request.segment), request, ticket)

    def _forget_blank(self) -> list[Effect]:
        """Drop the loglets without state. Their waiters are answered as if their time were up."""
        pending = {question.loglet for write in self._pending for question in write.questions}
        blank = [s for s, loglet in self._loglets.items() if loglet.is_blank and loglet not in pending]
        effects: list[Effect] = []
        for segment in blank:
            del self.durable.loglets[segment]
            effects += self._dismiss(self._loglets.pop(segment), _UNKNOWN)
        return effects

    # -- requests -------------------------------------------------------------------------------------------------

    def _store(
        self, loglet: LiveLoglet, blobs: Sequence[bytes], known_tail: int, ticket: Ticket, *, repairs: bool
    ) -> list[Effect]:
        try:
            offered = loglet.parse_untrusted(blobs)
        except VirtualLogError as error:
            return [NativeAnswer(ticket, error)]
        effects = self._learn(loglet, known_tail)
        for wave in offered:
            if loglet.conflicts(wave):
                broken = CorruptionError(f"two different waves of loglet {loglet.segment} claim the same offsets")
                return [*effects, NativeAnswer(ticket, broken), NativeFail(broken)]
        question = PendingAnswer(ticket=ticket, loglet=loglet, stop=offered[-1].stop, repairs=repairs)
        changes = () if loglet.sealing and not repairs else loglet.reserve(offered)
        if not changes:
            return effects + self._after_pending(question)
        return effects + self._persist(changes, question, essential=repairs)

    def _seal(self, loglet: LiveLoglet, question: PendingAnswer) -> list[Effect]:
        """Refuse stores from now on. The record goes behind the stores accepted before, and so does
        the answer.

        So the answer covers every accepted store.
        """
        if loglet.sealing:
            return self._after_pending(question)
        loglet.sealing = True
        return self._persist((LogletSealed(loglet.segment),), question, essential=True)

    def _trim(self, loglet: LiveLoglet, request: NativeTrim, question: PendingAnswer) -> list[Effect]:
        """Trim to `offset`, clamped to the known tail, which may be more than what is stored here."""
        effects = self._learn(loglet, request.known_tail)
        offset = min(request.offset, loglet.known_tail)
        if offset <= loglet.durable.trim:
            return effects + self._after_pending(question)
        return effects + self._persist((LogletTrimmed(loglet.segment, offset),), question, essential=True)

    def _wait(self, loglet: LiveLoglet, request: NativeWaitTail, ticket: Ticket) -> list[Effect]:
        effects = self._learn(loglet, request.known_tail)
        if loglet.reached(request.past):
            return [*effects, NativeAnswer(ticket, loglet.state)]
        if self.waiting >= WAITERS_MAX:  # as if the time were up: the client goes on asking, at its own pace
            return [*effects, NativeAnswer(ticket, loglet.state)]
        loglet.waiters.append(TailWaiter(request.past, ticket, self._now + WAIT_TICKS))
        self.waiting += 1
        return effects

    # -- answers --------------------------------------------------------------------------------------------------

    def _persist(self, changes: tuple[Change, ...], question: PendingAnswer, *, essential: bool) -> list[Effect]:
        """Write changes; the question is answered at this position in the WAL, once it is synced
        (durable before visible)."""
        write = NativePersist(question.loglet, changes, tuple(map(encode, changes)), [question], essential)
        self._pending.append(write)
        return [write]

    def _after_pending(self, question: PendingAnswer) -> list[Effect]:
        """Answer without a write, but not before the writes on which the answer rests."""
        if self._pending:
            self._pending[-1].questions.append(question)
            return []
        return [self._answer(question)]

    def _answer(self, question: PendingAnswer) -> NativeAnswer:
        loglet = question.loglet
        if loglet is None:
            return NativeAnswer(question.ticket, None)
        if self._tombstones.is_dropped(loglet.segment):
            return NativeAnswer(question.ticket, _dropped(loglet.segment))
        # an earlier seal, which this one had joined, was not written
        if question.seals and not loglet.durable.sealed:
            return NativeAnswer(question.ticket, UnavailableError("the seal could not be written"))
        return NativeAnswer(question.ticket, _stored(loglet, question) if question.stop else loglet.state)

    # -- loglets --------------------------------------------------------------------------------------------------

    def _may_have_lost(self, segment: SegmentId) -> bool:
        """True if a former disk may have held state of the loglet that this one does not have, or not yet."""
        if segment.version > self.joined:
            return False
        copy = self.durable.loglets.get(segment)
        return copy is None or not copy.sealed

    def _loglet(self, segment: SegmentId) -> LiveLoglet:
        loglet = self._loglets.get(segment)
        if loglet is None:
            loglet = self._loglets[segment] = LiveLoglet.over(segment, self.durable.loglet(segment))
        return loglet

    def _learn(self, loglet: LiveLoglet, known_tail: int) -> list[Effect]:
        if known_tail <= loglet.known_tail:
            return []
        loglet.known_tail = known_tail
        return self._wake(loglet)

    def _wake(self, loglet: LiveLoglet) -> list[Effect]:
        if not loglet.waiters:
            return []
        ready = loglet.take_ready(self._now)
        self.waiting -= len(ready)
        return [NativeAnswer(waiter.ticket, loglet.state) for waiter in ready]

    def _drop_loglets(self) -> list[Effect]:
        """Forget loglets that are durably dropped. Clients that wait for their tails get SealedError."""
        effects: list[Effect] = []
        for segment in [s for s in self._loglets if self.durable.tombstones.is_dropped(s)]:
            effects += self._dismiss(self._loglets.pop(segment), _dropped(segment))
        return effects

    def _dismiss(self, loglet: LiveLoglet, outcome: NativeState | VirtualLogError) -> list[Effect]:
        """Answer all who wait for the tail of a forgotten loglet."""
        waiters, loglet.waiters = loglet.waiters, []
        self.waiting -= len(waiters)
        return [NativeAnswer(waiter.ticket, outcome) for waiter in waiters]


def _refusal_untrusted(
    request: NativeStore | NativeSeal | NativeWaitTail | NativeRepair | NativeTrim,
) -> MalformedError | None:
    """Error for a request with an impossible offset; None if it is valid. Such an offset must not
    become durable."""
    match request:
        case NativeSeal():
            return None
        case NativeTrim():
            highest = max(request.known_tail, request.offset)
        case _:
            highest = request.known_tail
    return MalformedError(f"no such offset: {highest}") if highest > POSITION_MAX else None


def _rebuilds(request: NativeStore | NativeSeal | NativeGetState | NativeWaitTail | NativeRepair | NativeTrim) -> bool:
    return isinstance(request, NativeSeal | NativeRepair) and request.rebuilds


def _stored(loglet: LiveLoglet, question: PendingAnswer) -> NativeStored:
    """Answer to a store. Accepted means: durable, and not sealed when its turn came."""
    durable = loglet.durable
    here = question.stop <= durable.tail or question.stop <= durable.trim
    return NativeStored(
        accepted=here and (question.repairs or not durable.sealed),
        sealed=durable.sealed,
        local_tail=durable.tail,
        known_tail=loglet.known_tail,
    )


def _dropped(segment: SegmentId) -> SealedError:
    return SealedError(f"loglet {segment} has been dropped")
