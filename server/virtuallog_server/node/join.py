"""Joining of a new data directory to a running cluster: it takes the place that the register keeps for it.

    node add, node replace        the register expects a directory for this node        virtuallog.reconfiguration.core.node_table.Expect, Forget
    this module                   a store id, durable here ----> the register names it ----> formatted: may vote and store
                                                          conditional put

A lost disk and a new one look alike, so a node takes no place without an operator's order: the table of nodes must say that
the place is free, and a majority of the MetaStore's members is asked for the register itself. The put elects one directory, if
two processes claim to be the same node. The store id is durable first: a node that dies between the put and its answer finds
its own id in the register next time, and knows that it has won.

The version in which a directory joined bounds what it may say: `virtuallog_metastore.core.acceptor` (seats) and
`NodeEnvironment.joined` (loglets that it never held).
"""

from __future__ import annotations

import random
from typing import Final

import attrs

from virtuallog.contract.crash_points import CrashPoint
from virtuallog.contract.errors import InvalidSettingError, RetryableError, UnavailableError
from virtuallog.contract.metastore import MetaStore
from virtuallog.contract.register import Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.reconfiguration.core.node_table import Claim
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog.runtime import log
from virtuallog_server.storage.identity import FormatPhase, Identity

_NAMED = CrashPoint("joining: a new directory has its store id, the register does not name it", rare=True)
_CLAIMED = CrashPoint("joining: the register names a new directory, which does not know", rare=True)

LOST: Final = "a disk was lost or the path is wrong; this node stays out until `virtuallog node replace`"


@attrs.frozen
class FreePlace:
    """The register waits for a directory of this node."""


@attrs.frozen
class OwnPlace:
    """The register names this directory, since version `joined`."""

    joined: int


@attrs.frozen
class NoPlace:
    """The register has no place for this directory."""

    reason: str


def place(register: Register, node: NodeId, store_id: bytes) -> FreePlace | OwnPlace | NoPlace:
    """The place that the register has for the directory `store_id` of this node. Empty id: a directory without one so far."""
    entry = register.nodes.get(node)
    if entry is None:
        return NoPlace(f"the cluster has no node {node}: `virtuallog node add` makes room for one")
    if entry.is_expected:
        return FreePlace()
    if entry.store_id == store_id:
        return OwnPlace(entry.joined)
    if not store_id:
        return NoPlace(f"the data directory is empty but the cluster knows node {node} by another one: {LOST}")
    return NoPlace(f"the cluster knows node {node} by another data directory")


async def join(identity: Identity, metastore: MetaStore, source: random.Random) -> str:
    """Take the place, if there is one. Return the reason if there is none, and "" once the directory is formatted.

    If cancelled or killed anywhere, the next call continues.

    Raises:
        StorageError: the disk cannot be written.
        MalformedError: the register is of a later format.
    """
    try:
        return await _join(identity, metastore, source)
    except (RetryableError, InvalidSettingError) as error:
        return f"the data directory is empty; whether the cluster expects one is not known yet: {error}"


async def _join(identity: Identity, metastore: MetaStore, source: random.Random) -> str:
    register = await _read(metastore)
    found = place(register, identity.node, identity.store_id)
    if isinstance(found, FreePlace):
        if identity.phase is FormatPhase.UNFORMATTED:
            await identity.start_joining(source)
        _NAMED.reached()
        register = await update_node_table(metastore, Claim(node=identity.node, store_id=identity.store_id), source)
        found = place(register, identity.node, identity.store_id)
        _CLAIMED.reached()
    if isinstance(found, OwnPlace):
        await identity.finish_joining(register.cluster, found.joined)
        log.info("joined", node=identity.node, version=found.joined)
        return ""
    return found.reason if isinstance(found, NoPlace) else "the place was given up again"


async def _read(metastore: MetaStore) -> Register:
    version, value = await metastore.get()
    if version == 0:
        raise UnavailableError("the cluster has not been bootstrapped")
    return decode_untrusted(value)
