"""`virtuallog explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from virtuallog_server.cli.common.options import cluster_option, json_option

if TYPE_CHECKING:
    from virtuallog.client.cluster_file import ClusterFile


@click.command()
@click.argument("subject", required=False)
@cluster_option
@json_option
def explain(cluster: ClusterFile, subject: str | None, as_json: bool) -> None:
    """Explain the state of the log: the evidence, what is in the way, and what the cluster will do about it.

    SUBJECT is one of chain, append, tail, seal, trim, database; or a segment, by its id or any position in it. Without: everything.
    Asks nodes and servers, and changes nothing. Ends with 0 if all is well, with 1 if something is amiss.

    \b
    Examples:
        virtuallog explain
        virtuallog explain append
        virtuallog explain 3.5fe7a0 --json
    """
    from virtuallog_server.cli.cluster import explain_job as work

    work.explain(cluster, subject, as_json)
