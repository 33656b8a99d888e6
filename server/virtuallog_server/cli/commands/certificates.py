"""`virtuallog certificates`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

DAYS_MAX: Final = 3650
"""Longest validity of a certificate, in days: ten years."""


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--cluster", default="virtuallog", show_default=True, metavar="NAME", help="Name of the cluster.")
@click.option("--nodes", default=0, type=click.IntRange(0, 1000), help="For the nodes 1 to N.")
@click.option("--node", "more", multiple=True, type=click.IntRange(1), help="For one node; repeatable.")
@click.option("--clients", default="", metavar="NAME,...", help="For clients, which append and read.")
@click.option("--admins", default="", metavar="NAME,...", help="For operators, who change the cluster.")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME=HOST",
    help="Host name or address at which this client or admin serves browsers, such as a console; repeatable.",
)
@click.option(
    "--days", default=365, show_default=True, type=click.IntRange(1, DAYS_MAX), help="Days until they expire."
)
@click.option("--renew", is_flag=True, help="Make them anew. Without it, only missing ones are made.")
def certificates(
    folder: Path,
    cluster: str,
    nodes: int,
    more: tuple[int, ...],
    clients: str,
    admins: str,
    hosts: tuple[str, ...],
    days: int,
    renew: bool,
) -> None:
    """Make certificates for a cluster that uses TLS, and an authority if DIR has none.

    Prints the files of each owner. Copy to each machine its own certificate and key and authority.pem, never
    authority.key. Renewed files that are copied again are taken up without a restart.

    \b
    Examples:
        virtuallog certificates certificates --nodes 3 --clients app --admins alice
        virtuallog certificates certificates --clients console --host console=localhost --host console=127.0.0.1
    """
    numbers = list(dict.fromkeys([*range(1, nodes + 1), *more]))
    client_names, admin_names = _split(clients), _split(admins)
    if not (numbers or client_names or admin_names):
        raise click.UsageError("name an owner: --nodes N, --node N, --clients NAME,... or --admins NAME,...")
    from virtuallog_server.cli.cluster import certificates_job as work

    served = work.hosts_by_owner(hosts, [*client_names, *admin_names])
    work.make(folder, work.owners(cluster, numbers, client_names, admin_names), days, renew, served)


def _split(names: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
