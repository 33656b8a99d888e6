"""Export of the register from the data directory of a stopped node, and import into it (`virtuallog_metastore.disaster_recovery.revival`).

    check everything --> the decision on the acceptor's disk --> the cluster id in the identity file

Nothing is written before everything is checked. Killed between the two writes, the node refuses to start, as its register is
of another cluster than its identity; the same import again completes it. A second import changes nothing: neither the
decision nor the votes after it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.client.cluster_file import ClusterFile, NodeAddress
from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import (
    CorruptionError,
    InvalidSettingError,
    UntrustedError,
    VirtualLogError,
    WrongRecipientError,
)
from virtuallog.contract.ports import DurableMap, Outcome, Storage
from virtuallog.contract.register import Register
from virtuallog.contract.register import decode_untrusted as decode_register
from virtuallog.contract.types import NodeId
from virtuallog.node_services import open_services_to
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog_metastore import records
from virtuallog_metastore.core.acceptor import Acceptor, PersistDecision
from virtuallog_metastore.disaster_recovery import revival
from virtuallog_metastore.disaster_recovery.dump import Dump, dump
from virtuallog_metastore.drivers.acceptor_driver import STORE
from virtuallog_metastore.messages import Decision
from virtuallog_server.storage.data_directory import open_data_directory
from virtuallog_server.storage.identity import FormatPhase, Identity, IdentityRecord, read_identity_record
from virtuallog_server.storage.stores import VALUES

Ask: TypeAlias = Callable[[Register], Awaitable[Mapping[NodeId, Outcome[NodeStatus]]]]
"""Asks the nodes of a register for their status."""

_DECIDED: Final = CrashPoint(
    "revival: an imported decision is written, the identity is of the former cluster", rare=True
)


async def read_dump(path: Path) -> Dump:
    """Read the newest register that a stopped node knows to be decided.

    Raises:
        InvalidSettingError: the node runs, or knows none.
        CorruptionError, MalformedError, StorageError: the directory cannot be used.
    """
    async with open_data_directory(path) as data:
        if (VALUES, STORE) not in data.present:  # opening it would create an empty one
            raise InvalidSettingError(str(path), "knows no register")
        return await dump_of(str(path), await data.key_values(STORE))


async def dump_of(place: str, store: DurableMap) -> Dump:
    """Read the newest register that an acceptor's store knows to be decided.

    Args:
        place: names the directory in errors.
        store: of the acceptor.

    Raises:
        InvalidSettingError: it knows none.
        CorruptionError, MalformedError, StorageError: it cannot be read.
    """
    acceptor = await records.restore(store)
    if acceptor.decision is None or not acceptor.decision.proposal.value:
        raise InvalidSettingError(place, "knows no register")
    return dump(acceptor.decision.proposal.value)


async def import_register(path: Path, found: Dump, members: Sequence[NodeId], tls: TlsFiles | None = None) -> Decision:
    """Make a stopped node a member of the cluster that continues from `found`. Return the decision that it begins with.

    Args:
        path: the data directory.
        found: the exported register.
        members: the members from then on.
        tls: files to ask the other nodes with, if they speak TLS: without these they answer no question.

    Raises:
        InvalidSettingError: the node runs, another node of the old cluster still answers, the file is older than what
            this directory knows, the members are none, or our certificate cannot be used.
        WrongRecipientError: the directory is not of a node in the file, or of another cluster.
        CorruptionError, MalformedError, StorageError: the directory cannot be used.
    """
    revival.revive(found, members)  # refuses wrong members before the directory is touched
    async with open_data_directory(path) as data:
        store = await data.key_values(STORE)
        return await import_into(str(path), data.root, store, found, members, partial(_ask, tls))


async def import_into(
    place: str, root: Storage, store: DurableMap, found: Dump, members: Sequence[NodeId], ask: Ask
) -> Decision:
    """Import into a directory that is open already (`import_register`).

    Args:
        place: names the directory in errors.
        root: the directory of the identity file.
        store: of the acceptor.
        found: the exported register.
        members: the members from then on.
        ask: asks the nodes; one that answers is not stopped.

    Raises:
        As `import_register`.
    """
    decision = revival.revive(found, members)
    marker = await read_identity_record(root)
    if marker is None or marker.phase is not FormatPhase.FORMATTED:
        raise InvalidSettingError(place, "is no data directory of a node that has been part of a cluster")
    _check_directory(marker, found.register, decision)
    acceptor = await records.restore(store)
    _check_known(place, acceptor, found, decision)
    await _check_silent(found.register, ask)
    if acceptor.decision != decision:  # else it may have voted since: the write would wipe its votes out
        await store.write(records.changes(PersistDecision(decision)))
    _DECIDED.reached()
    identity = await Identity.open(root, marker.node)
    await identity.move(decode_register(decision.proposal.value).cluster)
    return decision


def _check_directory(marker: IdentityRecord, exported: Register, decision: Decision) -> None:
    new = decode_register(decision.proposal.value).cluster
    if marker.cluster not in {exported.cluster, new}:
        raise WrongRecipientError("cluster", exported.cluster.hex(), (marker.cluster or b"").hex())
    entry = exported.nodes.get(marker.node)
    if entry is None or entry.store_id != marker.store_id:
        raise WrongRecipientError("data directory", "one that the file names", f"another one of node {marker.node}")


def _check_known(place: str, acceptor: Acceptor, found: Dump, decision: Decision) -> None:
    """Check that the file is at least as new as the decisions that this node knows."""
    known = acceptor.decision
    if known is None or known == decision or not known.proposal.value:
        return
    if known.version > found.register.version:
        reason = (
            f"the file is older: version {found.register.version}, where {known.version} is known; export from here"
        )
        raise InvalidSettingError(place, reason)
    if known.version == found.register.version and known.proposal.value != found.value:
        raise CorruptionError(f"two values for version {known.version} of the register: in the file, and in {place}")


async def _check_silent(exported: Register, ask: Ask) -> None:
    """Check that no node of the old cluster answers. A majority of them is no loss, and a single one would act on the old register."""
    for node, answer in (await ask(exported)).items():
        if isinstance(answer, UntrustedError):
            raise InvalidSettingError(f"node {node}", f"who is there cannot be said: {answer}")
        if not isinstance(answer, VirtualLogError) and answer.cluster == exported.cluster:
            raise InvalidSettingError(f"node {node}", "still answers: stop all nodes of the cluster first")


async def _ask(tls: TlsFiles | None, exported: Register) -> Mapping[NodeId, Outcome[NodeStatus]]:
    seeds = [
        NodeAddress(id=node, address=entry.addresses[0]) for node, entry in exported.nodes.items() if entry.addresses
    ]
    async with open_services_to(ClusterFile(nodes=tuple(seeds), tls=tls)) as services:
        return await fetch_statuses(services, [NodeId(seed.id) for seed in seeds])


def sync_file(descriptor: int) -> None:
    """Make the content of a written file durable."""
    os.fsync(descriptor)
