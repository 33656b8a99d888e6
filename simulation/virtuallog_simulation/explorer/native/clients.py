"""The sequencer and the clients of a native loglet in an exploration.

A client runs one operation after the other over one known tail, as `NativeLoglet` does. A repair reads from the holder with the
lowest number; here it asks all holders, and each may be the first to answer, so that no rule depends on a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs

from virtuallog.contract.types import NodeId
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core import tail_check
from virtuallog_loglets.native.core.sequencer import AskState, Effect, NativeResolve, NativeSend, Resume, Sequencer
from virtuallog_loglets.native.core.suffix_repair import Complete, Fetch
from virtuallog_loglets.native.core.tail_check import GiveUp, NativeAsk, NativeFinish, NativeQuestion, NativeTailCheck
from virtuallog_loglets.native.drivers.tail_check_driver import whole_waves_untrusted
from virtuallog_loglets.native.messages import (
    NO_EXPECTATION,
    NativeGetState,
    NativeReadWaves,
    NativeRepair,
    NativeSeal,
    NativeState,
    NativeStore,
    NativeStored,
    NativeTrim,
    NativeWaitTail,
    NativeWaves,
)
from virtuallog_simulation.explorer.batches import SEGMENT, batch_of
from virtuallog_simulation.explorer.local_states import Cell, Event, Sent
from virtuallog_simulation.explorer.messages import MessageInFlight
from virtuallog_simulation.explorer.native.server import call_text, wave_text
from virtuallog_simulation.explorer.native.state import ClientView, SequencerView


@attrs.define(eq=False)
class SequencerCell(Cell):
    """The sequencer. It never restarts."""

    node: int
    core: Sequencer

    @property
    def name(self) -> int:
        return self.node

    def take(self, event: Event) -> tuple[list[Sent], list[Any]]:
        sent: list[Sent] = []
        told: list[Any] = []
        self._perform(self._effects(event), sent, told)
        while self.core.has_work:
            self._perform(self.core.turn(0), sent, told)
        return sent, told

    def _effects(self, event: Event) -> list[Effect]:
        core = self.core
        match event:
            case ("take", MessageInFlight(body=NativeStored() as reply) as message):
                return core.stored(NodeId(message.sender), message.call[1], reply)
            case ("take", MessageInFlight(body=NativeState() as state) as message):
                return core.heard(NodeId(message.sender), state)
            case ("append", number):
                return core.offer(batch_of(number), event, 0, opens=True, expected_tail=NO_EXPECTATION)
            case ("again" | "early" as kind, server):
                progress = core._progress[server]
                effects = core.unreachable(server, progress.run)
                if kind == "again":
                    progress.run = -1  # nothing of a former run is under way: their numbers are free
                return effects + core.resume(server)
        raise TypeError(event)

    def _perform(self, effects: list[Effect], sent: list[Sent], told: list[Any]) -> None:
        for effect in effects:
            match effect:
                case NativeSend(wave, known_tail, receivers):
                    store = NativeStore(segment=SEGMENT, wave=wave.blob, known_tail=known_tail)
                    text = f"store {wave_text(wave.blob)}, known {known_tail}"
                    for server, run in receivers:
                        call = ("run", run)
                        sent.append(Sent(server, call, store, f"{text}{call_text(call)}"))
                case AskState(server):
                    sent.append(Sent(server, ("run", 0), NativeGetState(segment=SEGMENT), "state?"))
                case NativeResolve(ticket, outcome):
                    told.append((ticket, outcome))
                case Resume():
                    pass  # the server is paused until `again`

    def view(self) -> SequencerView:
        """Part that moves and checks look at."""
        core = self.core
        silent = [
            server
            for server, progress in core._progress.items()
            if not progress.sealed and (progress.paused or progress.next > progress.acked)
        ]
        waits = core.stopped is None and core.waves_in_flight > 0
        return SequencerView(
            self.node, core.committed, core.tail, core.stopped is not None, frozenset(silent if waits else [])
        )


@attrs.define(eq=False)
class ClientCell(Cell):
    """One client: the known tail of its loglet, and the check that runs, if any."""

    NO_STATE: ClassVar[frozenset[str]] = frozenset({"config"})

    node: int
    config: NativeConfig
    known: int = 0
    operations: int = 0
    check: NativeTailCheck | None = None
    ticket: Event = ()
    """Event that began the check."""
    ask: NativeAsk | None = None
    """Question of the present round."""
    asked: set[int] = attrs.field(factory=set)
    readers: set[int] = attrs.field(factory=set)
    completing: set[int] = attrs.field(factory=set)

    @property
    def name(self) -> int:
        return self.node

    # -- steps ----------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> tuple[list[Sent], list[Any]]:
        sent: list[Sent] = []
        told: list[Any] = []
        match event:
            case ("check" | "seal" as kind, _, _):
                self.operations += 1
                self.ticket, self.check = event, NativeTailCheck(self.config, self.known)
                self._perform(self.check.begin() if kind == "check" else self.check.begin_sealing(), sent, told)
            case ("trim", offset):
                self.operations += 1
                trim = NativeTrim(segment=SEGMENT, offset=offset, known_tail=self.known)
                sent += [
                    self._sent(server, trim, f"trim {offset}, known {self.known}") for server in self.config.servers
                ]
            case ("repeat", server):
                assert self.ask is not None
                self._ask(attrs.evolve(self.ask, servers=(server,)), sent)
            case ("give up",):
                assert self.check is not None
                self._perform(self.check.waited_long(), sent, told)
            case ("unanswered", server):
                self._miss(NodeId(server), sent, told)
            case ("take", MessageInFlight() as message):
                self._receive(message, sent, told)
            case _:
                raise TypeError(event)
        return sent, told

    def _receive(self, message: MessageInFlight, sent: list[Sent], told: list[Any]) -> None:
        server, check = NodeId(message.sender), self.check
        _, operation, number = message.call
        if check is None or operation != self.operations:
            if isinstance(message.body, NativeState):  # the answer to a trim
                self.known = max(self.known, message.body.known_tail)
            return
        match message.body:
            case NativeState() as state:
                if number == check.round:
                    self.asked.discard(server)
                self._perform(check.answer(number, server, state), sent, told)
            case NativeWaves() as reply if number == check.round and server in self.readers:
                self.readers.clear()
                self._perform(check.fetched(server, whole_waves_untrusted(SEGMENT, reply)), sent, told)
            case NativeStored() as stored if number == check.round and server in self.completing:
                self.completing.discard(server)
                self._perform(check.completed(server, stored), sent, told)

    def _miss(self, server: NodeId, sent: list[Sent], told: list[Any]) -> None:
        """Take what a repair has asked of a server for lost."""
        assert self.check is not None
        if server in self.readers:
            self.readers.clear()
            self._perform(self.check.fetched(server, []), sent, told)
        else:
            self.completing.discard(server)
            self._perform(self.check.completed(server, None), sent, told)

    # -- effects --------------------------------------------------------------------------------------------------

    def _perform(self, effects: Sequence[tail_check.Effect], sent: list[Sent], told: list[Any]) -> None:
        check = self.check
        assert check is not None
        for effect in effects:
            match effect:
                case NativeAsk():
                    self._ask(effect, sent)
                case Fetch(_, start, stop):
                    read = NativeReadWaves(segment=SEGMENT, start=start, stop=stop, max_bytes=1 << 20)
                    self.readers = _holders(check)
                    sent += [self._sent(server, read, f"read {start} to {stop}") for server in sorted(self.readers)]
                case Complete(target, repaired, known_tail):
                    blobs = tuple(wave.blob for wave in repaired)
                    repair = NativeRepair(segment=SEGMENT, waves=blobs, known_tail=known_tail)
                    text = f"repair {' '.join(map(wave_text, blobs))}, known {known_tail}"
                    sent.append(self._sent(target, repair, text))
                    self.completing.add(target)
                case NativeFinish(tail):
                    self._end(told, tail)
                case GiveUp(error):
                    self._end(told, error)

    def _end(self, told: list[Any], outcome: Any) -> None:
        assert self.check is not None
        told.append((self.ticket, outcome))
        self.known = max(self.known, self.check.known_tail)
        self.check, self.ask, self.ticket = None, None, ()
        self.asked, self.readers, self.completing = set(), set(), set()

    def _ask(self, ask: NativeAsk, sent: list[Sent]) -> None:
        assert self.check is not None
        if self.ask is None or self.ask.round != ask.round:
            self.asked = set()
        self.ask = attrs.evolve(ask, servers=self.config.servers, pause=False)
        self.asked.update(ask.servers)
        match ask.question:
            case NativeQuestion.STATE:
                request: Any = NativeGetState(segment=SEGMENT)
                text = "state?"
            case NativeQuestion.SEAL:
                request, text = NativeSeal(segment=SEGMENT), "seal"
            case NativeQuestion.WAIT:
                known = self.check.known_tail
                request = NativeWaitTail(segment=SEGMENT, past=ask.past, known_tail=known)
                text = f"wait past {ask.past}, known {known}"
        sent += [self._sent(server, request, text) for server in ask.servers]

    def _sent(self, server: int, request: Any, text: str) -> Sent:
        call = ("client", self.operations, 0 if self.check is None else self.check.round)
        return Sent(server, call, request, f"{text}{call_text(call)}")

    def view(self) -> ClientView:
        """Part that moves and checks look at."""
        check = self.check
        return ClientView(
            self.node, self.known if check is None else max(self.known, check.known_tail),
            0 if check is None else self.operations, 0 if check is None else check.round,
            check is not None and check.phase.value == "waiting", frozenset(self.asked), frozenset(self.readers),
            frozenset(self.completing),
        )  # fmt: skip


def _holders(check: NativeTailCheck) -> set[int]:
    """Servers that a repair may read from next."""
    repair = check._repair
    assert repair is not None
    return {node for node, tail in repair._tails.items() if tail > repair._at and node not in repair._failed}
