"""The work of `virtuallog upgrade --check`: gather evidence, judge it, print the verdict."""

from __future__ import annotations

from typing import Any

import click

from virtuallog.client.cluster_file import ClusterFile
from virtuallog.contract.versions import SPOKEN, Versions
from virtuallog_database.engines.stack import KNOWN
from virtuallog_server.cli.cluster.explain_job import collect, plain_finding, show_finding
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import FAILED
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.diagnosis.core.evidence import LogEvidence
from virtuallog_server.diagnosis.core.upgrade import TargetProgram, UpgradeCheck, check_upgrade
from virtuallog_server.node.health import software_version


def check(cluster: ClusterFile, protocol: int | None, as_json: bool) -> None:
    """Print if the nodes may be restarted with a program: this one, or one that speaks `protocol`.

    Raises:
        click.exceptions.Exit: something is in the way.
        UnavailableError: no node answers.
    """
    log = event_loop.run(collect, cluster)
    found = check_upgrade(log, _target(protocol))
    if as_json:
        echo_json(_plain(log, found))
    else:
        _show(log, found)
    if not found.is_safe:
        raise click.exceptions.Exit(FAILED)


def _target(protocol: int | None) -> TargetProgram:
    if protocol is None:
        return TargetProgram(versions=SPOKEN, software=software_version(), switches=KNOWN)
    return TargetProgram(versions=Versions(last=protocol))


def _show(log: LogEvidence, found: UpgradeCheck) -> None:
    from rich.console import Console  # takes longer than to ask the cluster
    from rich.table import Table

    table = Table()
    for column in ("node", "program", "protocol", "state"):
        table.add_column(column)
    for row in _rows(log, found):
        table.add_row(str(row["node"]), row["software"], str(row["protocol"] or ""), row["state"])
    console = Console(highlight=False)
    console.print(table)
    for finding in found.findings:
        show_finding(console, finding)
    console.print("safe: the next node may be restarted" if found.is_safe else "not now: mend the above first")


def _plain(log: LogEvidence, found: UpgradeCheck) -> dict[str, Any]:
    return {
        "safe": found.is_safe,
        "target": {"software": found.target.software, "protocol": found.target.versions.last},
        "level": log.register.level,
        "behind": list(found.behind),
        "nodes": _rows(log, found),
        "findings": [plain_finding(finding) for finding in found.findings],
    }


def _rows(log: LogEvidence, found: UpgradeCheck) -> list[dict[str, Any]]:
    return [
        {
            "node": node,
            "software": facts.software,
            "protocol": facts.protocol,
            "state": "takes no part" if facts.problem else "behind" if node in found.behind else "up to date",
        }
        for node, facts in log.nodes.items()
    ]
