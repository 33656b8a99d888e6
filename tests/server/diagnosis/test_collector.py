"""Explaining a simulated cluster of whole nodes: what is found out, and that asking changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio

from tests.server.diagnosis.evidence_samples import about, the
from tests.simulation.world.stage import WAL, in_cluster, native
from virtuallog.contract.caller_roles import Role
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.ports import ReplyT, Request, Services
from virtuallog.contract.types import LogPosition, NodeId
from virtuallog.plugins import all_interfaces
from virtuallog.testing.sim.key_values import HEADROOM_BYTES
from virtuallog_database.control.wire import DATABASE
from virtuallog_loglets.paxos.provider import PaxosProvider as PaxosLoglets
from virtuallog_loglets.raft import RaftProvider
from virtuallog_loglets.raft.config import RaftLimits
from virtuallog_metastore import PaxosProvider
from virtuallog_server.diagnosis.collector import gather
from virtuallog_server.diagnosis.core.conclusions import conclude
from virtuallog_server.diagnosis.core.evidence import LogEvidence
from virtuallog_server.diagnosis.core.finding import Severity, Topic, all_well
from virtuallog_simulation.world.cluster import Client, Cluster

sleep = trio.sleep  # noqa: TID251 -- simulated time


def raft() -> RaftProvider:
    return RaftProvider(WAL, RaftLimits(record_bytes=8 << 10, message_bytes=16 << 10, piece_bytes=16 << 10))


KINDS = (native, PaxosLoglets, raft)


@attrs.define
class Listening:
    """Services that remember what was asked."""

    services: Services
    asked: set[type[Request[object]]] = attrs.field(factory=set)

    def post(self, node: NodeId, request: Request[ReplyT], done: Callable[[ReplyT | VirtualLogError], None],
             timeout_seconds: float) -> None:  # fmt: skip
        self.asked.add(type(request))
        self.services.post(node, request, done, timeout_seconds)

    async def call(self, node: NodeId, request: Request[ReplyT], timeout_seconds: float) -> ReplyT:
        self.asked.add(type(request))
        return await self.services.call(node, request, timeout_seconds)


async def explained(cluster: Cluster, client: Client) -> LogEvidence:
    """A client collects all evidence that there is, and uses only questions of the role CLIENT."""
    providers = {provider.kind: provider for provider in (make() for make in KINDS)}
    services = Listening(client.log.view.environment.services)
    environment = attrs.evolve(client.log.view.environment, services=services)
    picture = await gather(list(cluster.nodes), providers, PaxosProvider(), environment)
    interfaces = [*all_interfaces(providers, PaxosProvider()), DATABASE]
    allowed = {method.request for each in interfaces for method in each.methods if method.role is Role.CLIENT}
    assert services.asked <= allowed
    return picture


def loglet_of(client: Client) -> Loglet:
    register = client.log.view.cached
    assert register is not None
    return client.log.view.loglet(register.chain.last)


def test_a_cluster_that_is_well() -> None:
    """All servers say the same, the tail is that of the log, all is well; and stays as it was, however often one asks."""

    async def story(cluster: Cluster, client: Client) -> None:
        await client.log.append_many([b"one", b"two", b"three"])
        before = await explained(cluster, client)
        assert all_well(conclude(before))
        the(about(before, Topic.TAIL), "the tail is 3")
        after = await explained(cluster, client)
        assert after.register == before.register
        assert [facts.evidence for facts in after.segments] == [facts.evidence for facts in before.segments]
        assert [part.facts["sealed"] for part in after.segments[0].parts] == [False, False, False]

    in_cluster(3, story, kinds=KINDS)


def test_a_seal_without_a_successor_is_explained_before_it_is_healed() -> None:
    """Right after the seal the watchdogs are named; they do as was said, and then all is well again."""

    async def story(cluster: Cluster, client: Client) -> None:
        await client.log.append(b"before")
        await loglet_of(client).seal()
        stuck = await explained(cluster, client)
        assert "the watchdogs of nodes 1, 2 and 3" in the(about(stuck, Topic.SEAL), "a change is half done").next
        await sleep(5.0)
        healed = await explained(cluster, client)
        assert healed.register.version > stuck.register.version
        assert all_well(conclude(healed))

    in_cluster(3, story, kinds=KINDS)


def test_whoever_is_cut_off_is_named() -> None:
    """One of three, then two: what still works, and what does not."""

    async def story(cluster: Cluster, client: Client) -> None:
        await client.log.append(b"entry")
        register = client.log.view.cached
        assert register is not None
        orders = min(native().placement(register.chain.last.config).orders)
        first, second = [node for node in cluster.nodes if node != orders]
        cluster.machines[first].crash()
        one = await explained(cluster, client)
        assert "one more failure stops appends" in the(about(one, Topic.APPEND), f"short of node {first}").statement
        cluster.machines[second].crash()
        two = await explained(cluster, client)
        assert the(about(two, Topic.APPEND), "1 of 3 answers").weight is Severity.TROUBLE
        assert the(about(two, Topic.CHAIN), "the chain cannot change").weight is Severity.TROUBLE

    in_cluster(3, story, kinds=KINDS)


@pytest.mark.parametrize(
    ("kind", "after"), [("paxos", "another replica stands for election"), ("raft", "is short of node")]
)
def test_a_log_of_replicas_and_a_closed_segment(kind: str, after: str) -> None:
    """After a swap the open loglet says who leads; a trim is seen across both kinds. Raft has elected another leader before all are asked."""

    async def story(cluster: Cluster, client: Client) -> None:
        log = client.log
        await log.append_many([b"one", b"two", b"three"])
        await log.reconfig_extend(kind, {})
        place = await log.append(b"four")
        await log.prefix_trim(LogPosition(2))
        await sleep(1.0)
        found = await explained(cluster, client)

        assert all_well(conclude(found))
        the(about(found, Topic.TRIM), "the log begins at 2")
        tail = the(about(found, Topic.TAIL), "the tail is")
        assert int(tail.statement.split()[-1]) > place
        leader = found.segments[-1].together["leads"]
        assert f"node {leader} leads" in the(about(found, Topic.APPEND), f"appends are taken by a {kind}").statement
        cluster.machines[leader].crash()
        findings = about(await explained(cluster, client), Topic.APPEND)
        assert any(after in f"{finding.statement}; {finding.next}" for finding in findings)

    in_cluster(3, story, kinds=KINDS)


def test_a_closed_log_waits_for_nobody() -> None:
    """It says that it was closed on purpose, and stays so."""

    async def story(cluster: Cluster, client: Client) -> None:
        await client.log.append(b"entry")
        await client.log.seal()
        await sleep(5.0)
        found = await explained(cluster, client)
        assert all_well(conclude(found))
        the(about(found, Topic.SEAL), "the log is closed at 1, on purpose")

    in_cluster(3, story, kinds=KINDS)


@pytest.mark.parametrize("kind", ["paxos", "raft"])
def test_full_disks_are_told_by_those_who_have_them(kind: str) -> None:
    """One log server of three has no room for another file, nor has its store of replicas: others go on, and it is named."""

    async def story(cluster: Cluster, client: Client) -> None:
        register = await client.log.view.refresh()
        orders = min(native().placement(register.chain.last.config).orders)
        full = next(node for node in cluster.nodes if node != orders)
        cluster.machines[full].faults.free_bytes = HEADROOM_BYTES - 1
        for _ in range(20):
            await client.log.append(bytes(20_000))
        native_full = the(about(await explained(cluster, client), Topic.APPEND), "the disk is full")
        assert (native_full.weight, native_full.statement[:6]) == (Severity.WEAK, f"node {full}")
        await client.log.reconfig_extend(kind, {})
        for _ in range(20):
            await client.log.append(bytes(20_000))
        replica_full = the(about(await explained(cluster, client), Topic.APPEND), "the disk is full")
        assert (replica_full.weight, replica_full.statement[:6]) == (Severity.WEAK, f"node {full}")
        cluster.machines[full].faults.free_bytes = None
        await sleep(2.0)
        assert all_well(conclude(await explained(cluster, client)))

    in_cluster(3, story, kinds=KINDS)
