"""Bugs of a sequenced, sealable log, planted in the cores of the native loglet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from tests.simulation.explorer.mutant import ExploredMutant, explored
from virtuallog.contract.batch import Batch
from virtuallog.contract.types import LogletOffset, NodeId, Open
from virtuallog_loglets.native.core import sequencer, suffix_repair, tail_check
from virtuallog_loglets.native.core.durable_state import (
    Change,
    DurableLoglet,
    DurableLogs,
    LogletSealed,
    LogletTrimmed,
    decode_untrusted,
    encode,
)
from virtuallog_loglets.native.core.live_loglet import LiveLoglet
from virtuallog_loglets.native.core.log_server import LogServer
from virtuallog_loglets.native.core.log_server_effects import Effect, NativeAnswer, NativePersist, PendingAnswer, Ticket
from virtuallog_loglets.native.core.quorum import committed_tail, tail_to_cover
from virtuallog_loglets.native.core.sequencer import Effect as SequencerEffect
from virtuallog_loglets.native.core.sequencer import Sequencer
from virtuallog_loglets.native.core.suffix_repair import Complete, Repaired, SuffixRepair
from virtuallog_loglets.native.core.tail_check import Effect as CheckEffect
from virtuallog_loglets.native.core.tail_check import NativeTailCheck
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import NativeState, NativeStored, NativeTrim
from virtuallog_loglets.wal.core.record import Address, WalRecord

answered = NativeTailCheck.answer
fetched = SuffixRepair.fetched
ordered = Sequencer._order
passed_on = LogServer._after_pending
replayed = DurableLogs.replay
reserved = LiveLoglet.reserve
sealed = LogServer._seal
stored = Sequencer.stored
stored_waves = LogServer._store


@explored(LogServer._seal, configuration="native-disk", says="before that is on its disk")
def a_seal_is_answered_before_it_is_durable(
    self: LogServer, loglet: LiveLoglet, question: PendingAnswer
) -> list[Effect]:
    """The record of a seal is on its way to the disk when the client is answered."""
    loglet.sealing = True
    write = NativePersist(loglet, (change := LogletSealed(loglet.segment),), (encode(change),), [], essential=True)
    self._pending.append(write)
    return [write, NativeAnswer(question.ticket, attrs.evolve(loglet.state, sealed=True))]


@explored(LogServer._seal, configuration="native-disk", says="was acknowledged")
def the_tail_is_read_before_the_seal(self: LogServer, loglet: LiveLoglet, question: PendingAnswer) -> list[Effect]:
    """The answer to a seal has the tail of its arrival, without the stores that were accepted before and are not synced."""
    effects = sealed(self, loglet, question)
    question.loglet = LiveLoglet.over(loglet.segment, DurableLoglet(tail=loglet.durable.tail, sealed=True))
    return effects


@explored(LogServer._store, configuration="native-seal", says="a sealed tail of 0")
def stores_are_taken_behind_a_seal(
    self: LogServer, loglet: LiveLoglet, blobs: Sequence[bytes], known_tail: int, ticket: Ticket, *, repairs: bool
) -> list[Effect]:
    """A sealed server takes the waves of the sequencer like those of a repair."""
    return stored_waves(self, loglet, blobs, known_tail, ticket, repairs=True)


@explored(LogServer._after_pending, configuration="native-duplicate", says="on its disk")
def a_second_copy_is_answered_at_once(self: LogServer, question: PendingAnswer) -> list[Effect]:
    """A store that came before is answered from what is reserved, not from what is synced."""
    loglet = question.loglet
    if loglet is None or not question.stop or loglet.sealing:
        return passed_on(self, question)
    tail = loglet.reserved
    return [NativeAnswer(question.ticket, NativeStored(accepted=True, sealed=False, local_tail=tail, known_tail=0))]


@explored(LiveLoglet.reserve, configuration="native-append", says="knows the tail")
def what_precedes_a_wave_is_taken_for_committed(self: LiveLoglet, offered: Sequence[Wave]) -> tuple[Change, ...]:
    """A server takes a wave whose predecessors it lacks, committed or not, and its tail covers them."""
    self.known_tail = max(self.known_tail, offered[0].first)
    return reserved(self, offered)


@explored(DurableLogs.replay, configuration="native-disk", says="sealed before that is on its disk")
def a_replay_passes_over_seals(self: DurableLogs, address: Address, record: WalRecord) -> None:
    """A restart begins without the seals that were answered."""
    if not isinstance(decode_untrusted(record), LogletSealed):
        replayed(self, address, record)


@explored(LogServer._trim, configuration="native-trim", says="is trimmed up to")
def a_trim_is_not_bounded_by_the_known_tail(
    self: LogServer, loglet: LiveLoglet, request: NativeTrim, question: PendingAnswer
) -> list[Effect]:
    """A trim drops what is not committed."""
    return self._persist((LogletTrimmed(loglet.segment, request.offset),), question, essential=True)


@explored(committed_tail, used_in=sequencer, configuration="native-append", says="readable at 1 of 3")
def a_minority_commits(tails: Sequence[int], servers: int) -> int:
    """The sequencer acknowledges what one server has."""
    return max(tails, default=0)


@explored(committed_tail, used_in=tail_check, configuration="native-check", says="readable at 1 of 3")
def a_check_takes_a_minority_for_committed(tails: Sequence[int], servers: int) -> int:
    """An open tail is answered when one server has all below it."""
    return max(tails, default=0)


@explored(tail_to_cover, used_in=tail_check, configuration="native-check", says="committed before the check began")
def a_check_covers_what_all_have(tails: Sequence[int], servers: int) -> int:
    """The tail is the lowest that was reported."""
    return min(tails)


@explored(Sequencer._order, configuration="native-append", says="two batches are acknowledged at 0")
def an_offset_is_assigned_twice(self: Sequencer, batch: Batch, ticket: Ticket, now_ms: int) -> None:
    """A batch gets the place behind what is committed, and not behind what was ordered."""
    tail, self.tail = self.tail, self.committed
    ordered(self, batch, ticket, now_ms)
    self.tail = max(self.tail, tail)


@explored(
    Sequencer.stored,
    configuration="native-known-tail",
    says="the loglet was sealed at",
    schedule="native-known-tail",
)
def a_reported_known_tail_acknowledges(
    self: Sequencer, server: NodeId, run: int, reply: NativeStored
) -> list[SequencerEffect]:
    """The sequencer counts a known tail that may come from a repair behind a seal."""
    if self.stopped is None and reply.known_tail > self.committed:
        for progress in self._progress.values():
            progress.acked = max(progress.acked, reply.known_tail)
        return self._commit()
    return stored(self, server, run, reply)


@explored(SuffixRepair.fetched, configuration="native-seal-2", says="knows the tail")
def a_repair_skips_a_wave(self: SuffixRepair, holder: NodeId, waves: Sequence[Wave]) -> list[suffix_repair.Effect]:
    """A repair stores the last wave below the stop alone, and calls all before it committed."""
    return [
        attrs.evolve(step, waves=step.waves[-1:], known_tail=step.waves[-1].first)
        if isinstance(step, Complete)
        else step
        for step in fetched(self, holder, waves)
    ]


@explored(SuffixRepair._next, configuration="native-seal", says="readable at")
def a_repair_ends_before_it_is_stored(self: SuffixRepair) -> list[suffix_repair.Effect]:
    """A sealed tail is answered as soon as one server has all below it."""
    return [Repaired()]


@explored(NativeTailCheck.answer, configuration="native-check-seal", says="a Seal is answered by", is_long=True)
def an_answer_of_an_earlier_round_counts(
    self: NativeTailCheck, round_number: int, server: NodeId, state: NativeState
) -> list[CheckEffect]:
    """A check takes an answer for one of the present round."""
    return answered(self, self.round, server, state)


@explored(
    NativeTailCheck._check_unsealed_again,
    configuration="native-confirm",
    says="an open tail of 1, and a sealed one of 0",
    schedule="native-confirm",
)
def a_known_tail_is_not_confirmed(self: NativeTailCheck) -> list[CheckEffect]:
    """A check ends as soon as a known tail has reached its target, as published: tail last, seal bits first."""
    return self._finish(Open(LogletOffset(self._target)))


MUTANTS: Final = tuple(value for value in list(globals().values()) if isinstance(value, ExploredMutant))
