"""Collector of evidence: asks nodes, members and loglets, only with questions that change nothing.

Every question is one that the role CLIENT may ask (docs/howto/secure.md), and each has a timeout. So a collection takes as long as the
slowest two of them, some seconds, for any number of silent nodes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random

import attrs
import trio

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.contract.chain import Segment
from virtuallog.contract.diagnosis import Evidence
from virtuallog.contract.errors import MalformedError, VirtualLogError
from virtuallog.contract.metastore import MetaStoreProvider, SupportsRegisterDiagnosis
from virtuallog.contract.ports import Environment, Outcome
from virtuallog.contract.provider import LogletProvider, RequiresVersion, SupportsDiagnosis, servers_of
from virtuallog.contract.register import NodeEntry, Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import FIRST
from virtuallog.node_services import newest_register, open_services_to
from virtuallog.plugins import all_interfaces
from virtuallog.reconfiguration.chain_writer import ChainWriterSettings
from virtuallog.reconfiguration.core.node_table import lost_copies
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.nurseries import unwrapped_errors
from virtuallog_database.control.wire import DATABASE
from virtuallog_server.diagnosis.core.evidence import NO_DIAGNOSIS, LogEvidence, NodeFacts, SegmentFacts
from virtuallog_server.diagnosis.database_collector import gather_database


@asynccontextmanager
async def open_environment(
    cluster: ClusterFile, providers: Mapping[str, LogletProvider], metastore: MetaStoreProvider
) -> AsyncIterator[Environment]:
    """The environment of the questions to the nodes of a cluster file."""
    async with open_services_to(cluster, [*all_interfaces(providers, metastore), DATABASE]) as services:
        with unwrapped_errors():
            async with trio.open_nursery() as nursery:
                yield Environment(services=services, clock=SystemClock(), random=Random(), nursery=nursery)
                nursery.cancel_scope.cancel()


async def gather(
    nodes: list[NodeId],
    providers: Mapping[str, LogletProvider],
    metastore: MetaStoreProvider,
    environment: Environment,
) -> LogEvidence:
    """Collect the evidence that is available now, beginning with these nodes.

    Raises:
        UnavailableError: none of them answers, or the cluster is not bootstrapped.
    """
    answers = await fetch_statuses(environment.services, nodes)
    register = newest_register(answers)
    members: tuple[Evidence, ...] = ()
    if isinstance(metastore, SupportsRegisterDiagnosis):
        value, said = await metastore.explain_register(register.members, environment)
        members, newest = tuple(said), decode_untrusted(value) if value else register
        register = max(register, newest, key=lambda found: found.version)
    missing = [node for node in register.nodes if node not in answers]
    answers |= await fetch_statuses(environment.services, missing)
    patience = ChainWriterSettings()
    return LogEvidence(
        register=register,
        nodes={node: _node(node, entry, answers[node]) for node, entry in sorted(register.nodes.items())},
        members=members,
        segments=await _segments(register, providers, environment),
        database=await gather_database(environment.services, register),
        since={kind: _since(provider) for kind, provider in providers.items()},
        now_ms=int(environment.clock.wall() * 1000),
        look_seconds=(patience.watchdog_period / 2, patience.watchdog_period * 1.5),
        grace_seconds=(patience.grace, patience.grace * 1.5),
    )


async def _segments(
    register: Register, providers: Mapping[str, LogletProvider], environment: Environment
) -> tuple[SegmentFacts, ...]:
    """Ask the loglets of all segments at once: a register of 64 KiB names some hundred at most."""
    segments = register.chain.segments
    found: dict[int, SegmentFacts] = {}

    async def ask(index: int, segment: Segment) -> None:
        provider = providers.get(segment.kind)
        facts = await _segment(segment, provider, environment)
        found[index] = attrs.evolve(facts, lost=_lost(register, segment, provider))

    async with trio.open_nursery() as nursery:
        for index, segment in enumerate(segments):
            nursery.start_soon(partial(ask, index, segment))
    return tuple(found[index] for index in range(len(segments)))


async def _segment(segment: Segment, provider: object, environment: Environment) -> SegmentFacts:
    if not isinstance(provider, SupportsDiagnosis):
        problem = NO_DIAGNOSIS if provider is not None else f"no loglet kind '{segment.kind}' is installed here"
        return SegmentFacts(segment=segment, problem=problem)
    try:
        evidence = await provider.explain(segment.id, segment.config, environment)
    except VirtualLogError as error:
        return SegmentFacts(segment=segment, problem=str(error))
    return SegmentFacts(segment=segment, evidence=tuple(evidence))


def _lost(register: Register, segment: Segment, provider: object) -> frozenset[NodeId]:
    """Servers without a copy of the segment. Empty if its config cannot be read here."""
    with suppress(MalformedError):
        return lost_copies(register, segment, servers_of(provider, segment.config))
    return frozenset()


def _since(provider: object) -> int:
    return provider.since if isinstance(provider, RequiresVersion) else FIRST


def _node(node: NodeId, entry: NodeEntry, answer: Outcome[NodeStatus]) -> NodeFacts:
    if isinstance(answer, VirtualLogError):
        return NodeFacts(node=node, problem=str(answer), is_expected=entry.is_expected)
    return NodeFacts(
        node=node,
        problem=_stranger(entry, answer),
        is_expected=entry.is_expected,
        boot=answer.boot,
        version=_version(answer),
        protocol=answer.protocol,
        software=answer.software,
        roles=frozenset(answer.roles),
        failures=answer.failures,
        healing=answer.healing,
    )


def _stranger(entry: NodeEntry, answer: NodeStatus) -> str:
    """The reason why a node that answers is not the one that the register means. Empty if it is."""
    if entry.is_expected or answer.store_id == entry.store_id:
        return ""
    return "it has another data directory than the register names"


def _version(answer: NodeStatus) -> int:
    return decode_untrusted(answer.register).version if answer.register else 0
