"""Watch over the stores of paxos replicas: reads each durable write as it happens, and keeps the
ledger of it (`checks/state/paxos_ledger.py`)."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.types import NodeId
from virtuallog_loglets.paxos.drivers import disk_format
from virtuallog_loglets.paxos.drivers.disk_format import Header
from virtuallog_loglets.paxos.drivers.store_incarnation import STORE
from virtuallog_loglets.paxos.messages import NOWHERE
from virtuallog_simulation.checks.state.paxos_ledger import Ledger
from virtuallog_simulation.world.world import World

_HEADER: Final = b"h"
_RECORD: Final = b"r"
_KEY: Final = struct.Struct(">QQ")
_POSITION: Final = struct.Struct(">Q")


@attrs.define(eq=False)
class PaxosWatch:
    """Puts what it finds wrong into `World.violations`, at once. Start it before the first machine."""

    world: World
    ledger: Ledger = attrs.field(init=False)
    _learned: dict[tuple[SegmentId, NodeId], int] = attrs.field(factory=dict, init=False)
    """Content of each header."""

    def __attrs_post_init__(self) -> None:
        self.ledger = Ledger(self.world.counts, self.world.violations)

    def start(self) -> None:
        """Watch from now on."""
        self.world.on_stored, self.world.on_lost = self._stored, self._lost

    def judge(self) -> None:
        """Compare what clients have heard with what was stored. Call it once, at the end."""
        self.world.violations.extend(self.ledger.judge(self.world.history))

    def _lost(self, node: NodeId, store: str) -> None:
        if store == STORE:
            self.ledger.lost(node)
            self._learned = {key: learned for key, learned in self._learned.items() if key[1] != node}

    def _stored(self, node: NodeId, store: str, changes: Mapping[bytes, bytes | None]) -> None:
        if store != STORE:
            return
        now, pairs = len(self.world.history.events), list(changes.items())
        parsed = [disk_format.parse_header(key, value) for key, value in pairs if value is not None]
        headers = [header for header in parsed if header is not None]
        for header in headers:
            if header.ensemble.members:
                self.ledger.members[header.segment] = header.ensemble.members
                self.ledger.quorums[header.segment] = header.ensemble.quorum
        for key, value in pairs:
            if value is None:
                self._deleted(node, key)
            elif (found := disk_format.parse_record(key, value)) is not None:
                self.ledger.wrote(found[0], node, found[1], now)
        for header in headers:
            self._kept(node, header, now)

    def _kept(self, node: NodeId, header: Header, now: int) -> None:
        segment, ledger = header.segment, self.ledger
        whole = header.seal != NOWHERE
        ledger.kept(segment, node, header.status, header.promised, header.begin, whole=whole)
        before = max(header.begin, self._learned.get((segment, node), 0))
        ledger.learned(segment, node, before, header.learned, now)
        self._learned[segment, node] = header.learned

    def _deleted(self, node: NodeId, key: bytes) -> None:
        if key[:1] not in {_HEADER, _RECORD}:
            return
        segment = SegmentId(*_KEY.unpack_from(key, 1))
        if key[:1] == _HEADER:
            self.ledger.forgot(segment, node)
            self._learned.pop((segment, node), None)
        else:
            self.ledger.dropped(segment, node, _POSITION.unpack_from(key, 1 + _KEY.size)[0])
