"""Positions of paxos replicas: of one in a directory, of a log used by itself, of the paxos loglets in a chain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog.contract.ports import Outcome, Services
from virtuallog.contract.provider import replicated
from virtuallog.contract.types import NodeId
from virtuallog.node_services import newest_register, open_services_to
from virtuallog.plugins import loglet_providers
from virtuallog.rpc.security.tls_files import TlsFiles
from virtuallog.runtime.clock import SystemClock
from virtuallog_loglets.paxos import wire
from virtuallog_loglets.paxos.messages import NOWHERE, GetStanding, Standing, Status
from virtuallog_loglets.paxos.standalone.facade import open_replica, open_services
from virtuallog_loglets.paxos.standalone.log import SEGMENT
from virtuallog_server.cli.common.node_discovery import with_all_nodes

ANSWER_SECONDS: Final = 5.0
"""Timeout of one try. An answer waits for the disk."""
TRIES: Final = 2
PAUSE_SECONDS: Final = 0.5
"""Pause between two tries.

A replica is created when it is first asked for. For that the node reads the chain, which waits if another node has just died.
"""
KIND: Final = "paxos"
SILENT: Final = "silent"
"""Status of a replica that does not answer."""
WHOLE: Final = "whole"
"""Status of a replica without a vote that has all of a closed log. A log is moved to such replicas."""
Row: TypeAlias = dict[str, Any]
COLUMNS: Final = ("segment", "node", "status", "promised", "begin", "learned", "end", "seal", "incarnation")


async def of_path(path: Path) -> list[Row]:
    """The row of a stopped replica."""
    async with open_replica(path) as replica:
        return [row_of({}, replica.core.standing())]


async def of_peers(peers: Sequence[str], name: str, tls: TlsFiles | None) -> list[Row]:
    """A row for each replica of a log used by itself, also for silent ones."""
    async with open_services(peers, name, tls) as (services, nodes):
        return await _ask(services, nodes, SEGMENT, {})


async def of_cluster(cluster: ClusterFile) -> list[Row]:
    """A row for each replica of each paxos loglet in the chain, oldest loglet first."""
    cluster, provider, rows = await with_all_nodes(cluster), loglet_providers()[KIND], list[Row]()
    kind = replicated(provider)
    assert kind is not None
    async with open_services_to(cluster, [wire.REPLICA]) as services:
        register = newest_register(await fetch_statuses(services, [NodeId(node.id) for node in cluster.nodes]))
        for segment in register.chain.segments:
            if segment.kind == KIND:
                for loglet in kind.loglets(segment.id, segment.config):
                    servers = kind.placement(segment.config).servers
                    rows += await _ask(services, servers, loglet, {"segment": str(segment.id)})
    return rows


async def _ask(services: Services, nodes: Iterable[NodeId], segment: SegmentId, more: Row) -> list[Row]:
    found, clock = dict[NodeId, Outcome[Standing]](), SystemClock()

    async def ask(node: NodeId) -> None:
        for attempt in range(TRIES):
            if attempt:
                await clock.sleep(PAUSE_SECONDS)
            try:
                found[node] = await services.call(node, GetStanding(segment=segment), ANSWER_SECONDS)
            except VirtualLogError as error:
                found[node] = error
            if not isinstance(found[node], RetryableError):
                return

    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(ask, node)
    return [row_of({**more, "node": node}, found[node]) for node in sorted(found)]


def row_of(more: Row, found: Outcome[Standing]) -> Row:
    """The row of a replica, with the columns of `more` first."""
    if isinstance(found, VirtualLogError):
        return {**more, "status": SILENT, "problem": str(found)}
    numbers = ("promised", "begin", "learned", "end", "incarnation")
    seal = None if found.seal == NOWHERE else found.seal
    status = WHOLE if seal is not None and found.status is not Status.VOTING else found.status.name
    return {**more, "status": status, **{name: getattr(found, name) for name in numbers}, "seal": seal}


def show(rows: Sequence[Row]) -> None:
    """Print the rows as a table."""
    from rich.console import Console  # takes longer than to ask
    from rich.table import Table

    table = Table()
    columns = [column for column in (*COLUMNS, "problem") if any(row.get(column) is not None for row in rows)]
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*("" if row.get(column) is None else str(row[column]) for column in columns))
    Console().print(table)
