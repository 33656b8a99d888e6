"""Watch over raft replicas: looks into the processes at the crash points of the kind, and into their disks now and then.

Nearly every step of a replica comes to such a point, with the step done and its effects not carried out yet. What is found
wrong goes into `World.violations` (`checks/state/raft_ledger.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.crash_points import CRASH_POINTS, CrashPoint
from virtuallog.contract.errors import CorruptionError, MalformedError
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.violation import Violation
from virtuallog.testing.sim.disk import Disk
from virtuallog.testing.sim.process import Process
from virtuallog_loglets.raft.core.replica_state import ReplicaState
from virtuallog_loglets.raft.core.wal_records import DurableReplicas
from virtuallog_loglets.raft.drivers.replica_service import STORAGE, RaftService
from virtuallog_loglets.wal.core.segment_format import sequence_in
from virtuallog_loglets.wal.core.tail_scan import has_begun_untrusted, scan_closed_untrusted, scan_last_untrusted
from virtuallog_simulation.checks.state.raft_ledger import FORGETS, RaftLedger
from virtuallog_simulation.world.machine import Machine
from virtuallog_simulation.world.stop_reasons import ROT
from virtuallog_simulation.world.world import World

AREA: Final = "raft"
COMMITTED: Final = CRASH_POINTS["raft: records are committed, no client has an answer"]
_SHARE: Final = 0.1
"""Share of the commits after which the disks are read, besides the first ones."""
_TIMES: Final = 8
"""The disks are read no more often after commits, as each time takes some milliseconds."""
_MOMENTS: Final = 4
_SECONDS: Final = 6.0
"""The random moments are drawn from so many seconds."""


@attrs.define(eq=False)
class RaftWatch:
    """Looks at the raft replicas of these machines. Start it after the nemesis is made, and before the first machine."""

    world: World
    machines: Mapping[NodeId, Machine]
    services: Callable[[], Mapping[NodeId, RaftService | None]]
    """The replicas of the present life of each node, or of its last one."""
    ledgers: dict[SegmentId, RaftLedger] = attrs.field(factory=dict, init=False)
    _random: random.Random = attrs.field(init=False)
    _left: int = attrs.field(default=_TIMES, init=False)

    def __attrs_post_init__(self) -> None:
        self._random = self.world.random("raft watch")

    def start(self) -> None:
        """Watch from now on."""
        for _ in range(_MOMENTS):
            self.world.timeline.schedule(self._random.uniform(0.0, _SECONDS), self.look)
        before = self.world.on_crash_point

        def reached(process: Process, point: CrashPoint) -> None:
            if point.area == AREA and process.node in self.machines:
                self._reached(process.node, point)
            before(process, point)

        self.world.on_crash_point = reached

    def look(self) -> None:
        """Compare everything, in memory and on the disks."""
        for node in self.machines:
            self._look_at(node)
        self._compare_disks()

    def _reached(self, node: NodeId, point: CrashPoint) -> None:
        self._look_at(node)
        if point is COMMITTED and self._left and self._random.random() < _SHARE:
            self._left -= 1
            self._compare_disks()

    def _look_at(self, node: NodeId) -> None:
        service = self._living().get(node)
        if service is None:
            return
        living = self._living()
        for segment, driver in service.drivers.items():
            ledger = self._ledger(segment)
            ledger.look(node, driver.replica)
            peers = {
                other: found.drivers[segment].replica for other, found in living.items() if segment in found.drivers
            }
            ledger.peers_have(driver.replica, peers)

    def _ledger(self, segment: SegmentId) -> RaftLedger:
        return self.ledgers.setdefault(segment, RaftLedger(segment, self.world.counts, self.world.violations))

    def _living(self) -> Mapping[NodeId, RaftService]:
        return {
            node: service
            for node, service in self.services().items()
            if service is not None and self.machines[node].running
        }

    # -- disks ----------------------------------------------------------------------------------------------------

    def _compare_disks(self) -> None:
        living, disks = self._living(), dict[NodeId, DurableReplicas | None]()
        for node, machine in self.machines.items():
            disks[node] = self._stored(machine)
        for segment, ledger in self.ledgers.items():
            states = dict[NodeId, ReplicaState | None]()
            for node, disk in disks.items():
                if disk is None:
                    states[node] = None
                elif disk.tombstones.is_dropped(segment):
                    break
                elif (state := disk.states.get(segment)) is not None:
                    states[node] = state
                    driver = living[node].drivers.get(segment) if node in living else None
                    ledger.stored(node, state, driver.replica if driver is not None else None)
            else:
                ledger.majority_has(states)

    def _stored(self, machine: Machine) -> DurableReplicas | None:
        """Replay what is synced; None if the disk has rotted, or was replaced."""
        if machine.wiped or STORAGE in machine.gone or machine.counts[ROT[0]]:
            return None
        disk, found = machine.disk(STORAGE), DurableReplicas()
        try:
            if disk is not None:
                replay(disk, found)
        except (CorruptionError, MalformedError) as error:
            self.world.violations.append(Violation(FORGETS, f"the disk of node {machine.node} cannot be read: {error}"))
            return None
        return found


def replay(disk: Disk, found: DurableReplicas) -> None:
    """Replay what is durable on a disk, as a node that starts does. Raises like `WriteAheadLog.open`."""
    images = {sequence: disk.peek(name) for name in disk.files if (sequence := sequence_in(name)) is not None}
    sequences = sorted(images)
    while sequences and not has_begun_untrusted(images[sequences[-1]], sequences[-1], "the last segment"):
        sequences.pop()
    for sequence in sequences[:-1]:
        scan_closed_untrusted(images[sequence], sequence, f"segment {sequence}", found.replay)
    for sequence in sequences[-1:]:
        scan_last_untrusted(images[sequence], sequence, f"segment {sequence}", found.replay)
