"""Small things the core tests are made of: waves of a few letters, and a LogServer with a WAL that syncs when told."""

from __future__ import annotations

from collections import deque
from typing import Any

import attrs

from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import DiskFullError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.native.config import NativeConfig
from virtuallog_loglets.native.core import wave as waves
from virtuallog_loglets.native.core.durable_state import DurableLogs
from virtuallog_loglets.native.core.log_server import LogServer
from virtuallog_loglets.native.core.log_server_effects import Effect, NativeAnswer, NativePersist
from virtuallog_loglets.native.core.wave import Wave
from virtuallog_loglets.native.messages import (
    NativeGetState,
    NativeRepair,
    NativeSeal,
    NativeState,
    NativeStore,
    NativeStored,
)
from virtuallog_loglets.wal import Address, WalRecord

SEGMENT = SegmentId(3, 77)
SESSION = SessionId(b"session.........")


def batch_of(count: int = 1, first_sequence: int = 0, session: bytes = SESSION, text: bytes = b"x") -> Batch:
    return Batch.build(SessionId(session), first_sequence, [text] * count)


def wave_of(first: int, count: int = 1, known_tail: int = 0, text: bytes = b"x", segment: SegmentId = SEGMENT) -> Wave:
    """One batch of `count` entries at offset `first`."""
    batches = [batch_of(count, first, text=text)]
    return waves.build(segment=segment, first=first, known_tail=known_tail, time_ms=5, batches=batches)


def config_of(servers: int = 3) -> NativeConfig:
    return NativeConfig(servers=tuple(NodeId(n + 1) for n in range(servers)), sequencer=NodeId(1), boot=1)


def state_of(local_tail: int, *, sealed: bool = False, known_tail: int = 0, trim: int = 0) -> NativeState:
    return NativeState(local_tail=local_tail, sealed=sealed, known_tail=known_tail, trim=trim)


def stored_of(local_tail: int, *, accepted: bool = True, sealed: bool = False, known_tail: int = 0) -> NativeStored:
    return NativeStored(accepted=accepted, sealed=sealed, local_tail=local_tail, known_tail=known_tail)


@attrs.define
class Server:
    """A LogServer core on a WAL whose syncs are under control: nothing is durable before `sync`."""

    written: list[tuple[Address, WalRecord]] = attrs.field(factory=list)
    """Records on the disk."""
    answers: dict[Any, Any] = attrs.field(factory=dict)
    other_effects: list[Effect] = attrs.field(factory=list)
    core: LogServer = attrs.field(init=False)
    queue: deque[NativePersist] = attrs.field(factory=deque)

    def __attrs_post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Lose what was not synced, replay the rest."""
        durable = DurableLogs()
        for address, record in self.written:
            durable.replay(address, record)
        self.core = LogServer(durable)
        self.queue.clear()

    def ask(self, ticket: str, request: Any, *, sync: bool = True) -> Any:
        """Hand a request in; returns its answer, if there is one by now."""
        self.run(self.core.step(request, ticket))
        if sync:
            self.sync()
        return self.answers.get(ticket)

    def store(self, wave: Wave, known_tail: int = 0, *, sync: bool = True, ticket: str = "") -> Any:
        ticket = ticket or f"store {len(self.answers)} {wave.first}"
        return self.ask(ticket, NativeStore(segment=wave.segment, wave=wave.blob, known_tail=known_tail), sync=sync)

    def repair(self, *repaired: Wave, known_tail: int = 0) -> Any:
        blobs = tuple(wave.blob for wave in repaired)
        return self.ask(
            f"repair {len(self.answers)}", NativeRepair(segment=SEGMENT, waves=blobs, known_tail=known_tail)
        )

    def seal(self, *, sync: bool = True, ticket: str = "seal") -> Any:
        return self.ask(ticket, NativeSeal(segment=SEGMENT), sync=sync)

    def state(self) -> NativeState:
        state = self.ask(f"state {len(self.answers)}", NativeGetState(segment=SEGMENT), sync=False)
        assert isinstance(state, NativeState)
        return state

    def sync(self, appends: int = 1 << 30) -> None:
        """Make the next few appends durable, in order."""
        while self.queue and appends:
            appends -= 1
            persist = self.queue.popleft()
            addresses = [Address(len(self.written) + n + 1) for n in range(len(persist.records))]
            self.written += zip(addresses, persist.records, strict=True)
            self.run(self.core.persisted(persist, addresses))

    def refuse(self) -> None:
        """The disk has no room for the next append."""
        self.run(self.core.failed(self.queue.popleft(), DiskFullError("full")))

    def run(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case NativeAnswer(ticket, outcome):
                    assert ticket not in self.answers, f"{ticket} was answered twice"
                    self.answers[ticket] = outcome
                case NativePersist():
                    self.queue.append(effect)
                case _:
                    self.other_effects.append(effect)
