"""The look inside when a run is over: it finds what a planted bug leaves behind, where no client would notice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest
import trio

from virtuallog.contract.errors import CorruptionError, SealedError, UnavailableError, VirtualLogError
from virtuallog.contract.types import NodeId
from virtuallog_loglets.native import NativeProvider
from virtuallog_loglets.wal.segment_writer import SegmentWriter
from virtuallog_metastore import records
from virtuallog_metastore.core.acceptor import PersistDecision
from virtuallog_metastore.drivers.acceptor_driver import STORE
from virtuallog_metastore.messages import genesis
from virtuallog_simulation.checks.cluster.acceptor_watch import stored_acceptors
from virtuallog_simulation.checks.cluster.node_state import (
    log_servers,
    power_loss_is_no_damage,
    wiped_node_does_not_vote,
)
from virtuallog_simulation.runs.runner import run_seed
from virtuallog_simulation.world import scheduler
from virtuallog_simulation.world.cluster import Cluster, ClusterPlan
from virtuallog_simulation.world.machine import Machine, MachinePorts, Program
from virtuallog_simulation.world.world import World, open_world

NODE = NodeId(1)

cut_group = SegmentWriter._cut_group


def in_world(program: Program, story: Callable[[World, Machine], Awaitable[None]]) -> None:
    async def main() -> None:
        async with open_world(1) as world:
            machine = Machine(world, NODE, program)
            machine.start()
            await trio.sleep(1)
            await story(world, machine)

    scheduler.run(1, main)


async def nothing(ports: MachinePorts) -> None:
    await trio.sleep_forever()


def test_a_node_that_serves_with_new_disks() -> None:
    """Its answers may contradict what it has promised before."""
    found: list[list[str]] = []

    def look(machine: Machine, *serving: NodeId) -> None:
        found.append([violation.check for violation in wiped_node_does_not_vote({NODE: machine}, serving)])

    async def story(world: World, machine: Machine) -> None:
        look(machine, NODE)
        machine.crash()
        machine.wipe()
        look(machine, NODE)
        machine.start()
        look(machine)
        look(machine, NODE)

    in_world(nothing, story)
    assert found == [[], [], [], ["wiped stays out"]]


def test_what_acceptors_have_stored_is_read_from_their_disks() -> None:
    """Also of a machine that is down; of one that never had a MetaStore there is nothing to say."""
    decision = genesis((NODE,))

    async def program(ports: MachinePorts) -> None:
        store = await ports.key_values(STORE)
        await store.write(records.changes(PersistDecision(decision)))
        await trio.sleep_forever()

    async def story(world: World, machine: Machine) -> None:
        machine.crash()
        bare = Machine(world, NodeId(2), nothing)
        acceptors = stored_acceptors({NODE: machine, NodeId(2): bare})

        stored = acceptors[NODE]
        assert stored is not None
        assert stored.decision == decision
        assert acceptors[NodeId(2)] is None

    in_world(program, story)


def test_a_wal_that_lacks_what_its_server_has_told() -> None:
    """A store called back before its sync is found by the look inside. No process has crashed, so no client can notice."""
    found = run_seed(
        1, patches={"virtuallog_loglets.wal.segment_writer:SegmentWriter._cut_group": pretend_to_write}
    ).violations

    assert "restart forgets nothing" in {violation.check for violation in found}


def pretend_to_write(self: SegmentWriter) -> tuple[int, Sequence[bytes]]:
    """Takes a group, and writes nothing of it."""
    offset, _ = cut_group(self)
    return offset, []


def test_a_node_that_a_loss_of_power_keeps_from_serving() -> None:
    """It was told to start again, and gave up; one that is only down has nothing to answer for."""
    found: list[list[str]] = []

    async def give_up_in_the_second_life(ports: MachinePorts) -> None:
        if ports.process.boot > 1:
            raise CorruptionError("a torn write")
        await trio.sleep_forever()

    async def story(world: World, machine: Machine) -> None:
        for step in (machine.crash, machine.start):
            step()
            await trio.sleep(1.0)
            found.append([violation.check for violation in power_loss_is_no_damage({NODE: machine})])

    in_world(give_up_in_the_second_life, story)
    assert found == [[], ["restart forgets nothing"]]


def test_a_look_takes_no_former_life_for_the_present_one() -> None:
    """A node that is down is looked at as it was; one that starts has nothing to show before it has read its disks."""
    found: list[set[NodeId]] = []

    async def main() -> None:
        async with open_world(1) as world:
            cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(NativeProvider,)))
            cluster.start()
            await cluster.wait_ready()
            await trio.sleep(2)
            for step in (cluster.machines[NODE].crash, cluster.machines[NODE].start):
                step()
                found.append({*log_servers(cluster)})
            await trio.sleep(2)
            found.append({*log_servers(cluster)})

    scheduler.run(1, main)
    assert found == [{1, 2, 3}, {2, 3}, {1, 2, 3}]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            SealedError("no more"),
            "native of 1.1 has stopped for good, with disks that have never failed: SealedError: no more",
        ),
        (UnavailableError("no answer"), "native of 1.1 was ended by a retryable error: UnavailableError: no answer"),
    ],
)
def test_a_role_that_stops_without_a_reason_is_told_once(error: VirtualLogError, told: str) -> None:
    """By the look, or when the life of its node ends, whichever comes first; also if it begins anew."""
    found: list[list[str]] = []

    async def main() -> None:
        async with open_world(1) as world:
            cluster = Cluster(world, ClusterPlan(nodes=3, members=3, kinds=(NativeProvider,)))
            cluster.start()
            await cluster.wait_ready()
            await trio.sleep(2)
            role = cluster.products[NODE]._loglet_roles["native"]
            role.fail(error)
            await trio.sleep(0.1)
            for step in (partial(cluster.note_refusals, NODE), cluster.machines[NODE].crash):
                step()
                found.append([violation.message for violation in world.violations])

    scheduler.run(1, main)
    assert found == [[told], [told]]
