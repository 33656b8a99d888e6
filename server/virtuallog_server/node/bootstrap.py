"""The first version of the register.

Every MetaStore member of the initial configuration proposes version 1 once all peers have formatted their data
directories: a random cluster id, one segment of the configured kind, the members, the table of nodes. The proposals
differ; the MetaStore decides one, and the others adopt it ("create if the version is 0", specs/delos.md, section 4).

A restored cluster has an origin (`virtuallog_loglets.archive.restored_origin`): the restore decided its id and the first position of
its log, so all members propose the same. A member without the origin may have been faster with a register of its own. Then
each node that has the origin refuses that cluster.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.contract import chain
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import ChainConflictError, UnavailableError, VirtualLogError, WrongRecipientError
from virtuallog.contract.metastore import MetaStore
from virtuallog.contract.placement import Cluster, Member
from virtuallog.contract.ports import Clock, Services
from virtuallog.contract.provider import LogletProvider, check_level
from virtuallog.contract.register import ClusterId, NodeEntry, Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import GUARDED, level_of, roles_at
from virtuallog.runtime import log
from virtuallog_loglets.archive.restored_origin import Origin
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.node.formatter import phase_of
from virtuallog_server.storage.identity import FormatPhase

RETRY_SECONDS: Final = 0.02
"""First pause between two tries, in seconds: the last node to be formatted proposes at once, and the others wait for its register.

Each further pause is 1.3 times as long, times 0.5 to 1.5 at random, so that proposers do not duel in step.
"""
RETRY_SECONDS_MAX: Final = 0.2
"""Longest pause, in seconds, up to half more by chance. A duel that short pauses have begun ends with these."""

Claim: TypeAlias = Callable[[Mapping[NodeId, bytes]], Awaitable[None]]
"""Called with the ids of the data directories that a cluster begins with. Raises InvalidSettingError if other ones have begun
with its origin.
"""

_PROPOSING = CrashPoint("node: a first register is planned, it is not proposed")
_FOUNDED = CrashPoint("node: the first register is decided, its proposer has not started")


async def claim_nothing(stores: Mapping[NodeId, bytes]) -> None:
    """Accept any cluster: there is no origin, or no record of its use."""


async def bootstrap(
    config: NodeConfig,
    metastore: MetaStore,
    providers: Mapping[str, LogletProvider],
    services: Services,
    clock: Clock,
    source: random.Random,
    origin: Origin | None = None,
    claim: Claim = claim_nothing,
) -> None:
    """Return once the register has a version, decided by any node. If cancelled, it may still be decided.

    Args:
        config: of this node.
        metastore: of the cluster.
        providers: of all kinds of loglets.
        services: to ask the other nodes.
        clock: of this node.
        source: of random ids.
        origin: the state that the cluster continues from. None if a new log begins at 0.
        claim: claims the origin for this cluster, before it is proposed.

    Raises:
        InvalidSettingError: the configured loglet kind cannot be planned on these nodes; or another cluster has the origin.
        UnsupportedError: a node is too old for the kind, or for the history of the origin.
        WrongRecipientError: another cluster than that of the origin has begun here.
    """
    proposal: bytes | None = None
    attempt, pause = source.getrandbits(63), RETRY_SECONDS
    while (decided := await _decided(metastore)) is None:
        if config.node in config.members:
            # The same bytes under the same attempt each time: an earlier put may have been decided unnoticed.
            proposal = proposal or await _propose(config, providers, services, source, origin, claim)
            if proposal is not None:
                _PROPOSING.reached()
                if await _put(metastore, proposal, attempt, config):
                    _FOUNDED.reached()
                    log.info("bootstrapped", node=config.id)
                    return
        await clock.sleep(pause * (0.5 + source.random()))
        pause = min(1.3 * pause, RETRY_SECONDS_MAX)
    if origin is not None and decided.cluster != origin.cluster:
        raise WrongRecipientError("cluster", origin.cluster.hex(), decided.cluster.hex())


async def _decided(metastore: MetaStore) -> Register | None:
    """The register if one is decided and a majority answers. None otherwise."""
    try:
        version, value = await metastore.get()
    except UnavailableError:
        return None
    return decode_untrusted(value) if version > 0 else None


async def _put(metastore: MetaStore, proposal: bytes, attempt: int, config: NodeConfig) -> bool:
    try:
        await metastore.put(proposal, 0, attempt, config.members)
    except (ChainConflictError, UnavailableError):
        return False
    return True


async def _propose(
    config: NodeConfig,
    providers: Mapping[str, LogletProvider],
    services: Services,
    source: random.Random,
    origin: Origin | None,
    claim: Claim,
) -> bytes | None:
    """An encoded register. None while peers are missing, or the place of the origin cannot be reached."""
    answers = await fetch_statuses(services, [NodeId(peer.id) for peer in config.all_peers])
    statuses = {node: answer for node, answer in answers.items() if not isinstance(answer, VirtualLogError)}
    if len(statuses) < len(answers) or any(
        phase_of(status) is not FormatPhase.FORMATTED for status in statuses.values()
    ):
        return None
    register = _first_register(config, providers, statuses, source, origin)
    try:
        await claim({node: entry.store_id for node, entry in register.nodes.items()})
    except UnavailableError as error:
        log.warning("the origin cannot be claimed yet", reason=str(error))
        return None
    return register.encode()


def _first_register(
    config: NodeConfig,
    providers: Mapping[str, LogletProvider],
    statuses: Mapping[NodeId, NodeStatus],
    source: random.Random,
    origin: Origin | None,
) -> Register:
    level = level_of(status.protocol for status in statuses.values())
    roles = {node: roles_at(level, status.roles) for node, status in statuses.items()}
    members = tuple(
        Member(node=node, boot=status.boot, roles=roles[node], alive=True) for node, status in statuses.items()
    )
    origin = origin or Origin(cluster=ClusterId(source.randbytes(16)))
    history, provider = origin.segments(source), providers[config.loglet]
    for used in (provider, *(providers[segment.kind] for segment in history)):
        check_level(used, level)
    segment_config = provider.plan(Cluster(members=members, planner=config.node), {}, None)
    first = chain.genesis(provider.kind, segment_config, source.getrandbits(63), start=origin.position, history=history)
    return Register(
        cluster=origin.cluster,
        chain=first,
        members=config.members,
        nodes={
            NodeId(peer.id): NodeEntry(
                store_id=statuses[NodeId(peer.id)].store_id,
                addresses=(peer.address,),
                roles=roles[NodeId(peer.id)],
            )
            for peer in config.all_peers
        },
        level=level,
        database=config.zookeeper is not None,
        # Before the first entry: no client has ever appended to this log.
        guarded=first.version if config.zookeeper is not None and level >= GUARDED else 0,
    )
