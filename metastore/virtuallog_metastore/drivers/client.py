"""Client of the register: `PaxosMetaStore` drives surveys and proposals, and remembers decisions.

Follows Delos, OSDI'20, section 4.1: one independent single-slot Paxos per version; the decision of
version k names the members that decide slot k+1. Departures: a read first surveys without a ballot;
a decision is taught to members, old and new, before a `put` returns; each decision carries the
attempts that decided the versions before it, so that a put in doubt can be settled long after its
slot is closed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import ChainConflictError, CorruptionError, ForbiddenError, UnavailableError
from virtuallog.contract.ports import Clock, Environment, NodeEnvironment, Services
from virtuallog.contract.types import NodeId
from virtuallog_metastore.core.dissemination import Dissemination
from virtuallog_metastore.core.proposer import Proposer
from virtuallog_metastore.core.rounds import (
    Chosen,
    Found,
    HalfAccepted,
    Known,
    Outcome,
    Preempted,
    Round,
    Unreachable,
    Vacant,
)
from virtuallog_metastore.core.survey import Survey
from virtuallog_metastore.core.validation import check_proposal
from virtuallog_metastore.drivers.round_driver import run_round
from virtuallog_metastore.messages import BALLOT_ZERO, Ballot, Decision, Proposal

GIVE_UP_SECONDS: Final = 5.0
"""Time until an operation gives up: several rounds with unanswered requests. Callers have their own
timeouts and retry."""

PAUSE_SECONDS_MIN: Final = 0.02
"""Shortest pause: about two rounds over a local network with synced writes, so that the other
proposer can finish."""

LOOK_SECONDS: Final = 0.0005
"""Half of the mean pause before the second look of a read at a half-accepted version; doubles with each look.

The votes of a proposer that lives are some hundred microseconds apart, and a client whose appends wait for
the successor of a sealed loglet reads the register.
"""

LOOKS: Final = 5
"""Looks at a half-accepted version before a read finishes it: about 30 ms, as long as a writer pauses."""

PAUSE_SECONDS_MAX: Final = 1.0
"""Longest pause between attempts, in seconds, up to half more by chance. Pauses double up to it."""


@attrs.define(eq=False)
class Backoff:
    """Jittered, doubling pauses of one operation, up to a deadline.

    Two proposers that keep preempting each other (Paxos Made Simple, section 2.4) draw different
    pauses; sooner or later one of them is alone for two rounds.
    """

    _clock: Clock
    _random: random.Random
    _give_up_at: float = attrs.field(init=False)
    _pause_seconds: float = attrs.field(default=PAUSE_SECONDS_MIN, init=False)

    def __attrs_post_init__(self) -> None:
        self._give_up_at = self._clock.monotonic() + GIVE_UP_SECONDS

    async def pause(self, reason: str) -> None:
        """Wait before the next attempt.

        Raises:
            UnavailableError: the deadline has passed; `reason` gives the problem of the last
                attempt.
        """
        seconds = self._pause_seconds * self._random.uniform(0.5, 1.5)
        self._pause_seconds = min(self._pause_seconds * 2, PAUSE_SECONDS_MAX)
        if self._clock.monotonic() + seconds > self._give_up_at:
            raise UnavailableError(f"MetaStore: {reason}")
        await self._clock.sleep(seconds)


_PREPARED = CrashPoint("metastore: a majority has promised, the value is not known")
_CHOSEN = CrashPoint("metastore: a majority has accepted, nobody knows that it is decided")
_MOVED = CrashPoint("metastore: new members are decided, they do not know it", rare=True)
_WON = CrashPoint("metastore: a put has won, its caller has not been told")


@attrs.define(eq=False, kw_only=True)
class PaxosMetaStore:
    """A `MetaStore`. Any number of tasks may use one object; every method may be cancelled at any await.

    Cancelling leaves nothing half done in here: the only state is the newest decision, and
    decisions are true for ever. The value of a cancelled `put` may still be decided.
    """

    _seeds: tuple[NodeId, ...]
    _services: Services
    _clock: Clock
    _random: random.Random
    _node: int
    _boot: int
    _learned: Callable[[bytes], None]
    _known: Decision | None = attrs.field(default=None, init=False)
    """The newest decision seen; its version never goes back. None before the first."""
    _former: tuple[NodeId, ...] = attrs.field(default=(), init=False)
    """Members of the decision known before that one."""
    _established: int = attrs.field(default=-1, init=False)
    """Newest version that a majority of its own members is known to know."""
    _promised: tuple[Decision, Ballot] | None = attrs.field(default=None, init=False)
    """A decision, and a ballot that a majority has promised for the slot after it, not used yet. None if there is none."""
    _tried: tuple[Decision, int] | None = attrs.field(default=None, init=False)
    """A decision, and the highest round for the slot after it that was used here or has refused one. None before any."""

    @classmethod
    def open(cls, members: Sequence[NodeId], environment: Environment) -> PaxosMetaStore:
        """Return a client, as `PaxosProvider.open`."""
        node, boot = (environment.node, environment.boot) if isinstance(environment, NodeEnvironment) else (0, 0)
        return cls(
            seeds=tuple(sorted(set(members))),
            services=environment.services,
            clock=environment.clock,
            random=environment.random,
            node=node,
            boot=boot,
            learned=environment.learned,
        )

    async def get(self) -> tuple[int, bytes]:
        """Read the register as `MetaStore.get`. One round trip if this object knows the newest
        version and no client writes."""
        decision = await self._refresh()
        return decision.version, decision.proposal.value

    async def get_newer(self, than: int) -> tuple[int, bytes]:
        """Read the register as `SupportsNewerVersion.get_newer`: the first answer of a member that knows more is enough."""
        decision = await self._refresh(enough=than + 1)
        return decision.version, decision.proposal.value

    async def put(
        self, value: bytes, expected_version: int, attempt: int, members: Sequence[NodeId] | None = None
    ) -> int:
        """Decide a version as `MetaStore.put`.

        An attempt that won more than `EARLIER_MAX` versions ago can no longer be told from a lost
        one, and raises `ChainConflictError`.

        Raises:
            MalformedError: `members` is empty or too long.
            CorruptionError: two values were decided for one version: some acceptor has forgotten a
                vote.
        """
        voters = None if members is None else tuple(sorted(set(members)))
        check_proposal(
            Proposal(value=value, members=self._seeds if voters is None else voters, attempt=attempt, earlier=())
        )
        backoff = Backoff(self._clock, self._random)
        while True:
            known = self._known
            if known is None or known.version < expected_version:
                known = await self._refresh()
            if known.version < expected_version:
                raise ChainConflictError(expected=expected_version, found=known.version)
            if known.version > expected_version:
                return await self._settle(known, expected_version, attempt, backoff)
            proposal, ballot = known.next(value, voters, attempt), self._take_promised(known)
            if ballot is None:
                outcome = await self._propose(known, proposal, self._next_round(known))
            else:
                outcome = await run_round(self._services, Proposer.second_phase(known, ballot, proposal))
            if isinstance(outcome, Preempted):
                self._note_round(known, outcome.promised.round)
            await self._take(outcome, backoff)

    async def prepare_put(self, expected_version: int) -> None:
        """Run phase 1 of the next slot, as `SupportsPreparedPut.prepare_put`.

        The promises disturb no reader, and a competing proposer as much as those of a put.
        """
        backoff = Backoff(self._clock, self._random)
        while (known := self._known) is not None and known.version == expected_version:
            if self._promised is not None and self._promised[0] is known:
                return
            ballot = self._ballot(self._next_round(known))
            self._note_round(known, ballot.round)
            outcome = await run_round(self._services, Proposer(known, ballot, None))
            if isinstance(outcome, Vacant):
                self._promised = known, ballot
                _PREPARED.reached()
                return
            if isinstance(outcome, Preempted):  # another proposer is at work: the put outbids it, if it still has to
                self._note_round(known, outcome.promised.round)
                return
            await self._take(outcome, backoff)

    def _take_promised(self, known: Decision) -> Ballot | None:
        """The promised ballot for the slot after `known`, which is used up by this; None if there is none."""
        promised, self._promised = self._promised, None
        return promised[1] if promised is not None and promised[0] is known else None

    def _next_round(self, known: Decision) -> int:
        """The lowest round that is worth a ballot for the slot after `known`: above all that were tried here. A
        ballot of the same round is below our own former one half of the time."""
        return 1 + (self._tried[1] if self._tried is not None and self._tried[0] is known else 0)

    def _note_round(self, known: Decision, round_: int) -> None:
        self._tried = known, max(round_, self._next_round(known) - 1)

    async def _settle(self, known: Decision, expected_version: int, attempt: int, backoff: Backoff) -> int:
        """Find the winner of a decided slot.

        A win is reported only once the next voters know of it, so that the old ones may be shut
        down.
        """
        version = expected_version + 1
        if known.winner(version) != attempt:
            raise ChainConflictError(expected=expected_version, found=known.version)
        while self._established < version:
            outcome = await self._disseminate()
            if isinstance(outcome, Unreachable):
                await backoff.pause(f"version {version} is decided, but its members do not answer: {outcome.reason}")
        _WON.reached()
        return version

    async def _refresh(self, enough: int | None = None) -> Decision:
        """Return the newest decision, at least as new as any put that returned before the call.

        A decision of version `enough` or later is returned without asking for one that is newer still; None: none is.
        """
        backoff, looks = Backoff(self._clock, self._random), 0
        while True:
            known = self._known
            if enough is not None and known is not None and known.version >= enough:
                return known
            outcome = await self._survey(known)
            if isinstance(outcome, Chosen) and known is not None and outcome.decision.members == known.members:
                return self._read_chosen(outcome.decision)
            if isinstance(outcome, HalfAccepted) and known is not None:
                looks += 1
                if looks <= LOOKS:
                    await self._clock.sleep(LOOK_SECONDS * 2**looks * self._random.uniform(0.5, 1.5))
                    continue
                # Its proposer has had time and may be dead. Without finishing it a later read could
                # miss what an earlier one saw.
                outcome, looks = await self._finish(known, outcome.promised.round + 1), 0
            if isinstance(outcome, Vacant) and known is not None:
                self._established = max(self._established, known.version)
                if known is self._known:
                    return known
            else:
                await self._take(outcome, backoff)

    def _read_chosen(self, decision: Decision) -> Decision:
        """Take a decision whose votes were counted by a read, without a further round; returns the newest one.

        It is new enough. If a put of a later version had returned before this read, a majority of the same members
        had voted for that, and knew this decision (invariant M1): one of them would have shown it, and no vote.
        A later read cannot miss it: it meets one of the votes. It is not taught here. Its proposer does that; if it is dead, the next read does, as it asks about the next slot.
        """
        _CHOSEN.reached()
        self._adopt(decision)
        assert self._known is not None
        return self._known

    async def _take(self, outcome: Outcome, backoff: Backoff) -> None:
        """Continue with the outcome of a round, or pause."""
        match outcome:
            case Found():
                self._adopt(outcome.decision)
            case Chosen():
                _CHOSEN.reached()
                self._adopt(outcome.decision)
                if self._former and self._former != outcome.decision.members:
                    _MOVED.reached()
                await self._disseminate()
            case Unreachable():
                elsewhere = await self._ask_seeds()
                if isinstance(elsewhere, Found):
                    self._adopt(elsewhere.decision)
                else:
                    await backoff.pause(f"no majority answered: {outcome.reason}")
            case Vacant():
                await backoff.pause("no node that answers has been told of any version")
            case _:
                await backoff.pause("others are writing")

    def _adopt(self, decision: Decision) -> None:
        """Remember a decision, if it is newer."""
        check_proposal(decision.proposal)
        known = self._known
        if known is not None and known.version == decision.version and known.proposal != decision.proposal:
            raise CorruptionError(f"two values for version {decision.version} of the register")
        if known is None or decision.version > known.version:
            self._former = () if known is None else known.members
            self._known = decision
            if decision.version > 0:
                self._learned(decision.proposal.value)

    async def _survey(self, known: Decision | None) -> Outcome:
        members = self._seeds if known is None else known.members
        return await self._read(Survey(known, members))

    async def _ask_seeds(self) -> Outcome:
        """Ask the seeds for a newer decision: the newest known members may have been replaced long
        ago."""
        known = self._known
        if known is None:
            return Unreachable()  # they were asked
        others = tuple(node for node in self._seeds if node not in known.members)
        return await self._read(Survey(known, (), others)) if others else Unreachable()

    async def _finish(self, known: Decision, round_: int) -> Outcome:
        """Finish a half-accepted version on behalf of a read."""
        self._note_round(known, round_)
        return await self._read(Proposer(known, self._ballot(round_), None))

    async def _read(self, round_: Round) -> Outcome:
        """Run a round of a read. A client that may not teach or finish what it meets leaves that to others, and looks again: nodes
        read the register about once a second."""
        try:
            return await run_round(self._services, round_)
        except ForbiddenError as error:
            return Unreachable(f"left to the nodes: {error}")

    async def _propose(self, known: Decision, own: Proposal, round_: int) -> Outcome:
        self._note_round(known, round_)
        return await run_round(self._services, Proposer(known, self._ballot(round_), own))

    def _ballot(self, round_: int) -> Ballot:
        """A new ballot."""
        ballot = Ballot(round=round_, node=self._node, boot=self._boot, nonce=self._random.getrandbits(63))
        assert ballot > BALLOT_ZERO
        return ballot

    async def _disseminate(self) -> Outcome:
        """Make the newest decision known to the members that made it and those that decide next."""
        decision = self._known
        assert decision is not None
        outcome = await self._read(Dissemination(decision, self._former))
        if isinstance(outcome, Known):
            self._established = max(self._established, decision.version)
        return outcome
