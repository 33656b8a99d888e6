"""A bench for the core of a replica: one request in, its answer out."""

from __future__ import annotations

from typing import Any, Final

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.core import values
from virtuallog_loglets.paxos.core.effects import AnswerFromDisk, PaxosAnswer, PaxosFail, PaxosPersist
from virtuallog_loglets.paxos.core.replica import Replica
from virtuallog_loglets.paxos.messages import (
    NOWHERE,
    Decided,
    Learn,
    PaxosRecord,
    PaxosWrite,
    PaxosWritten,
    Promise,
    Promised,
    Standing,
    Status,
)

LOG: Final = SegmentId(1, 7)
NODE, K, N = NodeId(1), NodeId(2), NodeId(3)
"""A replica, and two coordinators."""


def voting() -> Replica:
    return Replica(LOG, NODE, 5, Status.VOTING)


def written_to(stop: int, number: int = 1) -> Replica:
    """A replica that has accepted `a` at each position below `stop`."""
    replica = voting()
    write(replica, number, 0, *[b"a"] * stop)
    return replica


def promise(replica: Replica, number: int, first: int = NOWHERE, stop: int = NOWHERE) -> Promised:
    reply = step(replica, Promise(segment=LOG, proposal=number, coordinator=K, first=first, stop=stop))
    assert isinstance(reply, Promised)
    return reply


def write(replica: Replica, number: int, first: int, *payloads: bytes, coordinator: NodeId = K) -> PaxosWritten:
    made = tuple(values.append(payload, 1) for payload in payloads)
    reply = step(replica, PaxosWrite(segment=LOG, proposal=number, coordinator=coordinator, first=first, values=made))
    assert isinstance(reply, PaxosWritten)
    return reply


def decide(replica: Replica, number: int, first: int, stop: int) -> Standing:
    reply = step(replica, Learn(segment=LOG, decided=Decided(proposal=number, first=first, stop=stop)))
    assert isinstance(reply, Standing)
    return reply


def learn(replica: Replica, position: int, value: bytes, number: int = 1) -> Standing:
    record = PaxosRecord(position=position, promised=number, performed=number, value=value, learned=True)
    reply = step(replica, Learn(segment=LOG, records=(record,)))
    assert isinstance(reply, Standing)
    return reply


def step(replica: Replica, request: Any) -> Any:
    """Performs `request` and returns the answer. All changes for it come before it in the effects."""
    effects = replica.step(request, "asker")
    assert isinstance(effects[-1], PaxosAnswer | AnswerFromDisk)
    assert effects[-1].ticket == "asker"
    assert all(isinstance(effect, PaxosPersist | PaxosAnswer | PaxosFail) for effect in effects[:-1])
    return effects[-1].outcome


def persists(replica: Replica, request: Any) -> list[PaxosPersist]:
    return [effect for effect in replica.step(request, "asker") if isinstance(effect, PaxosPersist)]


def payload(replica: Replica, position: int) -> bytes | None:
    record = replica.slots.open_record(position)
    return values.payload_of(record.value) if record is not None and record.value else None
