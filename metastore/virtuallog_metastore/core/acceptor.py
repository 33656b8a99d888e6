"""The votes of one member. Every change of durable acceptor state is in this file.

Paxos Made Simple, sections 2.2 and 2.5, for a row of independent slots. An acceptor votes in one
slot only: the one after the newest decision it knows. Slots up to that are closed; a client that
asks about them gets the decision. For later slots it answers how far it is, and waits to be taught.
So its state never grows, it never votes on behalf of members that it does not know of, and every
member that has voted in slot k+1 durably knows the decision of slot k.

"Nothing accepted" is answered only about that one slot, from state that cannot have been lost short
of losing the disk. A lost disk does not come back: the voter in a slot is a *store*, the data
directory that the decision before the slot names for this member (`seat`,
docs/internals/protocols/metastore.md, "Seats"). So a new directory in the place of a lost one has no vote in
any slot in which the lost one had. A lost one that turns up again has none in later slots. Both
still show and learn decisions: these are true from any source.

Rule for the driver: perform all effects of one step, in order, before the next step. The state that
a step sees is then durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, TypeGuard, assert_never

import attrs

from virtuallog.contract.errors import CorruptionError, MalformedError, VirtualLogError, WrongRecipientError
from virtuallog_metastore.messages import (
    BALLOT_ZERO,
    Accept,
    Ask,
    Ballot,
    Decision,
    Learn,
    Learned,
    Prepare,
    Receipt,
    Standing,
    Vote,
)

Message: TypeAlias = Ask | Prepare | Accept | Learn
VoterCheck: TypeAlias = Callable[[int, bytes], bool]
"""Tells if a version of the register, with its value, names this very store for this member.

Raises WrongRecipientError for a value of another register altogether, MalformedError for one of no
register, or of another version.
"""


LEAP_MAX: Final = 1 << 32
"""Limit of rounds between a promise and the next ballot.

An outbid proposer goes one round further, so honest ballots differ by the number of times that
happened. To come near the last of 2^63 rounds takes more messages than time allows.
"""


def _open_seat(version: int, value: bytes) -> bool:
    return True


@attrs.frozen(kw_only=True)
class PersistBallots:
    """Persist the promised ballot and the accepted vote in `slot`, in place of those stored before."""

    slot: int
    promised: Ballot
    accepted: Vote | None


@attrs.frozen
class PersistDecision:
    """Persist the newest decision in place of the one before. Deletes all ballots in the same
    write: their slot is closed."""

    decision: Decision


@attrs.frozen
class Reply:
    outcome: Standing | Receipt | Learned | VirtualLogError


Effect: TypeAlias = PersistBallots | PersistDecision | Reply


@attrs.define
class Acceptor:
    """An acceptor. All of it is durable but `seat`. `promised` and `accepted` belong to slot `known
    + 1`."""

    decision: Decision | None = None
    promised: Ballot = BALLOT_ZERO
    """Highest promised ballot. Never goes back within a slot."""
    accepted: Vote | None = None
    seat: VoterCheck = attrs.field(default=_open_seat, eq=False, repr=False)
    """Not durable: follows from `decision` and the identity of the store."""
    _seated: bool = attrs.field(default=False, init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        self._seated = self.decision is not None and self._seat_after(self.decision)

    @property
    def known(self) -> int:
        """Newest decided version; -1 on a node that knows none."""
        return -1 if self.decision is None else self.decision.version

    def step(self, message: Message) -> list[Effect]:
        """Process one message, already checked (validation.py)."""
        if isinstance(message, Learn):
            return self._learn(message.decision)
        if self._is_out_of_place(message.slot):
            return [Reply(WrongRecipientError("seat", "the store that the register names", "another one"))]
        if self._contradicts(message):
            return [Reply(WrongRecipientError("history of the register", f"attempt {message.after:x}", str(self)))]
        if self._leaps(message):
            return [Reply(MalformedError(f"a ballot that leaps from round {self.promised.round}: {message.ballot}"))]
        match message:
            case Ask():
                return [Reply(self._standing(message.slot))]
            case Prepare():
                return [*self._promise(message), Reply(self._standing(message.slot))]
            case Accept():
                return [*self._accept(message), Reply(self._receipt(message.slot))]
        assert_never(message)

    def __str__(self) -> str:
        return "nothing" if self.decision is None else f"attempt {self.decision.proposal.attempt:x}"

    def _is_out_of_place(self, slot: int) -> bool:
        """True if another store than this one votes in the slot. False before it knows of any
        register."""
        return self.decision is not None and self._votes_in(slot) and not self._seated

    def _contradicts(self, message: Ask | Prepare | Accept) -> bool:
        """True if the client builds on another decision of the version before.

        One register has only one: then disks were lost, or first members were configured
        differently, and a vote could do harm.
        """
        decision = self.decision
        return decision is not None and self._votes_in(message.slot) and message.after != decision.proposal.attempt

    def _leaps(self, message: Ask | Prepare | Accept) -> TypeGuard[Prepare | Accept]:
        """True if the ballot is no attempt to outbid others, but one that could not be outbid."""
        if isinstance(message, Ask) or not self._votes_in(message.slot):
            return False
        return message.ballot.round > self.promised.round + LEAP_MAX

    def _promise(self, message: Prepare) -> list[Effect]:
        if not self._votes_in(message.slot) or message.ballot <= self.promised:
            return []
        self.promised = message.ballot
        # Durable before visible: after a promise that the disk forgets, a lower ballot could win beside this one.
        return [self._ballots()]

    def _accept(self, message: Accept) -> list[Effect]:
        if not self._votes_in(message.slot) or message.ballot < self.promised:
            return []
        if self.accepted is not None and self.accepted.ballot == message.ballot:
            return []  # the same request once more: each ballot has one owner
        self.promised = message.ballot
        self.accepted = Vote(ballot=message.ballot, proposal=message.proposal)
        # Durable before visible: the proposer counts this vote, and a later phase 1 must find it.
        return [self._ballots()]

    def _learn(self, decision: Decision) -> list[Effect]:
        if self.decision is not None and decision.version == self.known and decision.proposal != self.decision.proposal:
            return [Reply(CorruptionError(f"two values for version {decision.version} of the register"))]
        if decision.version <= self.known:
            return [Reply(Learned(known=self.known))]
        try:
            seated = self._seat_after(decision)
        except (MalformedError, WrongRecipientError) as error:
            return [Reply(error)]
        self.decision, self.promised, self.accepted, self._seated = decision, BALLOT_ZERO, None, seated
        return [PersistDecision(decision), Reply(Learned(known=self.known))]

    def _seat_after(self, decision: Decision) -> bool:
        return self.seat(decision.version, decision.proposal.value)

    def _votes_in(self, slot: int) -> bool:
        return slot == self.known + 1

    def _ballots(self) -> PersistBallots:
        assert self.accepted is None or self.accepted.ballot <= self.promised
        return PersistBallots(slot=self.known + 1, promised=self.promised, accepted=self.accepted)

    def _standing(self, slot: int) -> Standing:
        receipt, votes = self._receipt(slot), self._votes_in(slot)
        return Standing(
            known=receipt.known,
            decision=receipt.decision,
            promised=receipt.promised,
            accepted=self.accepted if votes else None,
        )

    def _receipt(self, slot: int) -> Receipt:
        return Receipt(
            known=self.known,
            decision=self.decision if slot <= self.known else None,
            promised=self.promised if self._votes_in(slot) else BALLOT_ZERO,
        )
