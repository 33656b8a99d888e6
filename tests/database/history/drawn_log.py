"""Logs of a database that are made of commands, without replicas, and what a replay of them comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs
import hypothesis.strategies as st

from tests.database.tree.test_tree_model import OPERATIONS
from virtuallog.contract.batch import Batch, SessionId, pack_ends
from virtuallog.contract.loglet import Placed
from virtuallog.contract.types import LogPosition, PlacedBatch
from virtuallog_database.engines import brain_doctor
from virtuallog_database.engines.batching import NAME as BATCHING
from virtuallog_database.engines.core.enabled_engines import BOUNDS, Enable
from virtuallog_database.engines.core.entry import PROPOSER, TOKEN_BYTES, Entry
from virtuallog_database.engines.rollout import RolloutEngine
from virtuallog_database.engines.stack import KNOWN
from virtuallog_database.engines.view_tracking import Announce, ViewTrackingEngine
from virtuallog_database.history.core.znode_state import ZnodeState, state_of
from virtuallog_database.replica.replay import Replay
from virtuallog_database.testing.memory_store import MemoryDisk, SortedPairs
from virtuallog_database.tree import command_codec, keys
from virtuallog_database.tree.commands import (
    Command,
    Create,
    CreateSession,
    ExpireSessions,
    Mode,
    Multi,
    Operation,
    Origin,
    SetData,
)

START_MS: Final = 1_700_000_000_000
MINUTE_MS: Final = 60_000
"""Time between two entries."""


@attrs.define
class DrawnLog:
    """A log that grows by one entry at a time."""

    items: list[Placed] = attrs.field(factory=list, repr=False)

    @property
    def tail(self) -> int:
        return self.items[-1].stop if self.items else 0

    def do(self, *operations: Operation, origin: Origin = Origin(), time_ms: int = 0) -> int:  # noqa: B008  # frozen
        """Append an entry with these commands; returns its position."""
        commands = [command_codec.encode(Command(each, origin, time_ms or self._now_ms)) for each in operations]
        headers = {BATCHING: pack_ends(commands)} if len(commands) > 1 else {}
        return self.entry(b"".join(commands), headers)

    def write_raw(self, writes: dict[bytes, bytes | None]) -> int:
        """Append an operator's raw writes."""
        return self.entry(b"", {"brain_doctor": brain_doctor.encode(writes)})

    def enable(self, engine: str) -> int:
        """Append the announcement of a replica that knows all engines, and then the switch."""
        announced = ViewTrackingEngine.vocabulary.encode(Announce("1-" + "31" * 8, LogPosition(0), KNOWN))
        self.entry(b"", {ViewTrackingEngine.name: announced})
        return self.entry(b"", {RolloutEngine.name: RolloutEngine.vocabulary.encode(Enable(engine))})

    def entry(self, payload: bytes, headers: dict[str, bytes]) -> int:
        position = self.tail
        blob = Entry(payload, {PROPOSER: bytes(TOKEN_BYTES), **headers}).encode()
        batch = Batch.build(SessionId(b"s" * 16), 0, [blob])
        self.items.append(PlacedBatch(range(position, position + 1), batch, time_ms=self._now_ms))
        return position

    def clipped(self, start: int, stop: int) -> list[Placed]:
        return [part for item in self.items if (part := item.clip(start, stop)) is not None]

    async def read(self, start: int, stop: int) -> Sequence[Placed]:
        """See `ReadableSegment`: one entry at a time."""
        return self.clipped(start, min(stop, start + 1))

    def store_at(self, position: int) -> MemoryDisk:
        """A disk with the state at a position."""
        disk = MemoryDisk()
        Replay(disk.open()).apply(self.clipped(0, position))
        return disk

    @property
    def _now_ms(self) -> int:
        return START_MS + MINUTE_MS * self.tail


def dumped(disk: MemoryDisk) -> dict[str, ZnodeState]:
    """Every znode of a state."""
    return dumped_pairs(disk.content)


def dumped_pairs(pairs: SortedPairs) -> dict[str, ZnodeState]:
    paths = [keys.decoded(key[1:]) for key, _ in pairs.scan((b"n", b"o"), 1 << 20)]
    states = {path: state_of(pairs, path) for path in paths}
    return {path: state for path, state in states.items() if state is not None}


LONG: Final = b"x" * 2000
"""Data with a record of its own, from the switch `bounds` on."""
QUOTA: Final = (
    Create("/zookeeper/quota/a", None),
    Create("/zookeeper/quota/a/zookeeper_limits", b"count=100,bytes=-1"),
    Create("/zookeeper/quota/a/zookeeper_stats", b"count=-1,bytes=-1"),
)
STEP: Final[st.SearchStrategy[Any]] = st.one_of(
    st.lists(st.tuples(OPERATIONS, st.integers(0, 2)), min_size=1, max_size=4),
    st.sampled_from(["switch", "raw", "expire", "long", "quota", "number"]),
)


@st.composite
def logs(draw: st.DrawFn) -> DrawnLog:
    """Commands of all kinds in groups, sessions that expire, quotas, raw writes, and the switch of an engine at some place."""
    log = DrawnLog()
    log.do(*(CreateSession(session, b"p" * 16, 4000) for session in (1, 2)), Create("/a", b"1"))
    for step in draw(st.lists(STEP, min_size=3, max_size=15)):
        match step:
            case "switch":
                log.enable(BOUNDS)
            case "raw":
                pairs = log.store_at(log.tail).content
                key, _ = pairs.scan((b"n/", b"n0"), 2)[-1]
                log.write_raw({each + key[1:] + b"-raw": pairs.get(each + key[1:]) for each in (b"n", b"a", b"d")})
            case "expire":
                log.do(ExpireSessions(tuple((session, touches) for session in (1, 2) for touches in range(4))))
            case "long":
                log.do(Create("/b", LONG), SetData("/a", LONG))
            case "quota":
                log.do(Multi(QUOTA))
            case "number":
                log.do(*[Create("/a/n", b"", mode=Mode.EPHEMERAL_SEQUENTIAL)] * 2, origin=Origin(1, 1))
            case list():
                for operation, session in step:
                    log.do(operation, origin=Origin(session, 1 if session else 0))
    return log
