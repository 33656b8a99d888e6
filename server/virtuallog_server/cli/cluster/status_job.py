"""The work of `virtuallog status`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from virtuallog.admin.cluster_status import fetch_statuses
from virtuallog.admin.control import NodeStatus
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Outcome
from virtuallog.contract.types import NodeId
from virtuallog.node_services import newest_register, open_services_to
from virtuallog_database.control.wire import DATABASE
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import FAILED
from virtuallog_server.cli.common.node_discovery import with_all_nodes
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.diagnosis.core.database import DatabaseFacts, findings, problems
from virtuallog_server.diagnosis.database_collector import gather_database
from virtuallog_server.node.status import plain_status


def status(cluster: ClusterFile, as_json: bool) -> None:
    """Print the state of all nodes, and what the database lacks.

    Raises:
        click.exceptions.Exit: a node refuses a role, or a replica is not served.
    """
    answers, facts = event_loop.run(_ask_all, cluster)
    rows = [_plain(node, answer, facts) for node, answer in answers.items()]
    lacking = problems(findings(facts))
    if as_json:
        echo_json({"nodes": rows, "problems": lacking})
    else:
        _show(rows, lacking)
    if lacking or any(row.get("failures") for row in rows):
        raise click.exceptions.Exit(FAILED)


def _show(rows: Sequence[Mapping[str, Any]], lacking: Sequence[str]) -> None:
    from rich.console import Console  # takes longer than to ask the cluster
    from rich.table import Table

    table = Table()
    for column in ("node", "state", "boot", "chain", "roles", "problems"):
        table.add_column(column)
    for row in rows:
        told = "\n".join([*row.get("failures", []), *row.get("healing", [])]) or row.get("error", "")
        cells = [str(row.get(name, "")) for name in ("boot", "version")]
        table.add_row(str(row["node"]), row["state"], *cells, ", ".join(row.get("roles", [])), told)
    console = Console()
    console.print(table)
    for line in lacking:
        console.print(line, soft_wrap=True, markup=False)


async def _ask_all(cluster: ClusterFile) -> tuple[dict[NodeId, Outcome[NodeStatus]], DatabaseFacts | None]:
    cluster = await with_all_nodes(cluster)
    async with open_services_to(cluster, [DATABASE]) as services:
        answers = await fetch_statuses(services, [NodeId(node.id) for node in cluster.nodes])
        try:
            register = newest_register(answers)
        except VirtualLogError:
            return answers, None
        return answers, await gather_database(services, register)


def _plain(node: NodeId, answer: Outcome[NodeStatus], facts: DatabaseFacts | None) -> dict[str, Any]:
    if isinstance(answer, VirtualLogError):
        return {"node": node, "state": "silent", "error": str(answer)}
    row = plain_status(answer)
    if facts is not None and node in facts.replicas:
        row["roles"].append("database")
    return row
