"""A log on a test bed, as its user sees it: what was replayed, what is appended, what every call back said."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Storage
from virtuallog_loglets.wal import Address, WalRecord, WalSettings, WriteAheadLog

SMALL = WalSettings(
    segment_bytes=8192,
    record_bytes_max=2048,
    group_bytes_max=4096,
    queue_bytes_max=64 << 10,
    headroom_bytes=1024,
    files_open_max=2,
)
"""Segments that fill up after some records."""

DATA, STATE = 1, 2


@attrs.define
class User:
    """A user of a log: its state is the number of its records that it knows to be durable."""

    wal: WriteAheadLog
    replayed: list[tuple[Address, WalRecord]]
    known: int
    snapshots: int = 0
    called_back: list[tuple[bytes, Sequence[Address] | VirtualLogError]] = attrs.Factory(list)
    progress: trio.Event = attrs.Factory(trio.Event)
    """Set at the next call back."""

    def snapshot(self) -> list[WalRecord]:
        self.snapshots += 1
        return [WalRecord(STATE, str(self.known).encode())]

    def append(self, *payloads: bytes, essential: bool = False, stream: object = None) -> None:
        """Queue one append; its outcome arrives in `called_back`, once for each payload."""

        def done(outcome: Sequence[Address] | VirtualLogError) -> None:
            if not isinstance(outcome, VirtualLogError):
                self.known += len(payloads)
            self.called_back.extend((payload, outcome) for payload in payloads)
            self.progress.set()
            self.progress = trio.Event()

        records = [WalRecord(DATA, payload) for payload in payloads]
        self.wal.append(records, done, essential=essential, stream=stream)

    @property
    def acknowledged(self) -> list[bytes]:
        return [payload for payload, outcome in self.called_back if not isinstance(outcome, VirtualLogError)]

    @property
    def refused(self) -> list[VirtualLogError]:
        return [outcome for _, outcome in self.called_back if isinstance(outcome, VirtualLogError)]

    @property
    def data(self) -> list[bytes]:
        """Payloads that were replayed, without the snapshots."""
        return [record.payload for _, record in self.replayed if record.kind == DATA]


async def opened(storage: Storage, settings: WalSettings = SMALL) -> User:
    """Recover a log; what it replays is checked against its snapshots as it arrives."""
    replayed: list[tuple[Address, WalRecord]] = []
    known = 0

    def replay(address: Address, record: WalRecord) -> None:
        nonlocal known
        if record.kind == STATE:
            state = int(record.payload)
            assert not replayed or state == known, "a snapshot is the state after everything before it"
            known = state
        else:
            known += 1
        replayed.append((address, record))

    wal = await WriteAheadLog.open(storage, settings, replay)
    addresses = [address for address, _ in replayed]
    assert addresses == sorted(set(addresses)), "addresses are ordered like the log"
    return User(wal, replayed, known)


@asynccontextmanager
async def running(storage: Storage, settings: WalSettings = SMALL) -> AsyncIterator[User]:
    """A recovered log and its appender."""
    user = await opened(storage, settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(user.wal.run, user.snapshot)
        yield user
        nursery.cancel_scope.cancel()


async def put(wal: WriteAheadLog, *records: WalRecord, essential: bool = False) -> Sequence[Address]:
    """Append and wait for the addresses."""
    outcomes: list[Sequence[Address] | VirtualLogError] = []
    ready = trio.Event()

    def done(outcome: Sequence[Address] | VirtualLogError) -> None:
        outcomes.append(outcome)
        ready.set()

    wal.append(records, done, essential=essential)
    await ready.wait()
    if isinstance(outcomes[0], VirtualLogError):
        raise outcomes[0]
    return outcomes[0]


async def put_data(user: User, *payloads: bytes, essential: bool = False) -> list[Address]:
    """One append for each payload, all queued at once; waits for the last."""
    before = len(user.called_back)
    for payload in payloads:
        user.append(payload, essential=essential)
    while len(user.called_back) < before + len(payloads):
        await user.progress.wait()
    addresses: list[Address] = []
    for _, outcome in user.called_back[before:]:
        if isinstance(outcome, VirtualLogError):
            raise outcome
        addresses += outcome
    return addresses


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until it holds. For what is sure to come and takes no simulated time (this never sleeps)."""
    while not condition():
        await trio.lowlevel.checkpoint()
