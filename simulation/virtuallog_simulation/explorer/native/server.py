"""One log server in an exploration: the product's core, and its disk as a queue of writes and what has been synced.

The disk is kept as `DurableLogs`, the fold with which a node replays its write-ahead log, fed with the encoded records. So a
crash begins with the state that a replay of that log ends in. Waves are read by their addresses, as from the log.
"""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import attrs

from virtuallog.contract.errors import DiskFullError, VirtualLogError
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.core.durable_state import DurableLogs
from virtuallog_loglets.native.core.log_server import WAIT_TICKS, LogServer
from virtuallog_loglets.native.core.log_server_effects import (
    DropBefore,
    Effect,
    NativeAnswer,
    NativeFail,
    NativePersist,
)
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import NativeReadWaves, NativeState, NativeStored, NativeWaves
from virtuallog_loglets.wal.core.record import Address
from virtuallog_simulation.explorer.batches import SEGMENT
from virtuallog_simulation.explorer.canonical_form import register_value
from virtuallog_simulation.explorer.local_states import Cell, Event, Sent
from virtuallog_simulation.explorer.messages import MessageInFlight
from virtuallog_simulation.explorer.native.state import ServerView

register_value(Wave, lambda wave: wave.blob)


@attrs.define(eq=False)
class ServerCell(Cell):
    """One log server."""

    NO_STATE: ClassVar[frozenset[str]] = frozenset({"is_eager"})

    node: int
    is_eager: bool
    """True if each write is synced before the next step."""
    core: LogServer = attrs.field(factory=lambda: LogServer(DurableLogs()))
    disk: DurableLogs = attrs.field(factory=DurableLogs)
    """Synced records."""
    blobs: dict[int, bytes] = attrs.field(factory=dict)
    """Waves on the disk, by address."""

    @property
    def name(self) -> int:
        return self.node

    # -- steps ----------------------------------------------------------------------------------------------------

    def take(self, event: Event) -> tuple[list[Sent], list[Any]]:
        sent: list[Sent] = []
        told: list[Any] = []
        match event:
            case ("take", MessageInFlight() as message):
                self._receive(message, sent, told)
            case ("sync",):
                self._sync(sent, told, 1)
            case ("refuse",):
                self._perform(self.core.failed(self.core._pending[0], DiskFullError("full")), sent, told)
            case ("crash",):
                self.core = LogServer(pickle.loads(pickle.dumps(self.disk, 5)))
            case ("tick",):
                for _ in range(WAIT_TICKS):
                    self._perform(self.core.tick(), sent, told)
            case _:
                raise TypeError(event)
        if self.is_eager:
            self._sync(sent, told)
        self.core._now, self.core.durable.newest_address = 0, Address(0)
        return sent, told

    def _receive(self, message: MessageInFlight, sent: list[Sent], told: list[Any]) -> None:
        ticket, body = (message.sender, message.call), message.body
        if isinstance(body, NativeReadWaves):
            found = tuple(self.blobs[address] for address in self.core.find(body))
            answer = NativeWaves(waves=found, state=self.core.state(SEGMENT))
            sent.append(Sent(message.sender, message.call, answer, f"{answer_text(answer)}{call_text(message.call)}"))
        else:
            self._perform(self.core.step(body, ticket), sent, told)

    def _perform(self, effects: list[Effect], sent: list[Sent], told: list[Any]) -> None:
        for effect in effects:
            match effect:
                case NativeAnswer((caller, call), outcome):
                    if isinstance(outcome, DiskFullError):
                        continue  # the caller asks again, as after a loss
                    if isinstance(outcome, VirtualLogError):
                        raise outcome  # no correct caller asks for what is refused
                    told.append(("answer", outcome))
                    sent.append(Sent(caller, call, outcome, f"{answer_text(outcome)}{call_text(call)}"))
                case NativeFail(error):
                    raise error
                case NativePersist() | DropBefore():
                    pass  # writes are found in the core by `_sync`; what is dropped lies below the trim
                case _:
                    raise TypeError(effect)

    def _sync(self, sent: list[Sent], told: list[Any], count: int = 1000) -> None:
        """Have the disk finish its oldest writes."""
        while self.core._pending and count:
            count -= 1
            write = self.core._pending[0]
            addresses = []
            for change, record in zip(write.changes, write.records, strict=True):
                address = Address(change.first + 1 if isinstance(change, Wave) else 0)
                addresses.append(address)
                self.disk.replay(address, record)
                if isinstance(change, Wave):
                    self.blobs[address] = record.payload
            self.disk.newest_address = Address(0)
            kept = {first + 1 for loglet in self.disk.loglets.values() for first, _, _ in loglet.waves}
            self.blobs = {address: blob for address, blob in self.blobs.items() if address in kept}
            self._perform(self.core.persisted(write, addresses), sent, told)

    # -- what is seen ---------------------------------------------------------------------------------------------

    def view(self) -> ServerView:
        """Part that moves and checks look at."""
        core, live = self.core, self.core._loglets.get(SEGMENT)
        durable = self.disk.loglets.get(SEGMENT)
        entries = [
            (place.start, wave.checksum, int(place.batch.payloads[0]))
            for wave in map(waves.parse_untrusted, self.blobs.values())
            for place in wave.placed()
        ]
        parked = [] if live is None else [waiter.ticket for waiter in live.waiters]
        questions = [question.ticket for write in core._pending for question in write.questions]
        return ServerView(
            self.node, 0 if durable is None else durable.tail, durable is not None and durable.sealed,
            0 if durable is None else durable.trim, tuple(sorted(entries)),
            0 if live is None else live.known_tail, len(core._pending), frozenset([*questions, *parked]), len(parked),
        )  # fmt: skip


def call_text(call: tuple[Any, ...]) -> str:
    """Call as text: the run of a sequencer, or operation and round of a client."""
    return " #" + ".".join(map(str, call[1:]))


def answer_text(answer: NativeState | NativeStored | NativeWaves | None) -> str:
    match answer:
        case NativeState(local_tail=tail, sealed=sealed, known_tail=known, trim=trim):
            return f"state {tail}{_sealed_text(sealed)}, known {known}, trim {trim}"
        case NativeStored(accepted=accepted, local_tail=tail, sealed=sealed, known_tail=known):
            return f"{'stored' if accepted else 'refused'} {tail}{_sealed_text(sealed)}, known {known}"
        case NativeWaves(waves=found, state=state):
            return f"waves {' '.join(map(wave_text, found)) or 'none'}, {answer_text(state)}"
    raise TypeError(answer)


def wave_text(blob: bytes) -> str:
    """Batches, first offset and known tail of a wave."""
    wave = waves.parse_untrusted(blob)
    batches = "+".join(place.batch.payloads[0].decode() for place in wave.placed())
    return f"[{batches} at {wave.first}, known {wave.known_tail}]"


def _sealed_text(sealed: bool) -> str:
    return " sealed" if sealed else ""
