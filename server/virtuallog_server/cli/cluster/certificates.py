"""`virtuallog certificates`."""

from __future__ import annotations

from pathlib import Path

import click

from virtuallog.contract.errors import UntrustedError
from virtuallog.contract.roles import Principal, Role, parse_untrusted

DAYS_MAX = 3650


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--cluster", default="virtuallog", show_default=True, metavar="NAME", help="Name of the cluster.")
@click.option("--nodes", default=0, type=click.IntRange(0, 1000), help="For the nodes 1 to N.")
@click.option("--node", "more", multiple=True, type=click.IntRange(1), help="For one node; repeatable.")
@click.option("--clients", default="", metavar="NAME,...", help="For clients, who append and read.")
@click.option("--admins", default="", metavar="NAME,...", help="For those who change the cluster.")
@click.option(
    "--days", default=365, show_default=True, type=click.IntRange(1, DAYS_MAX), help="How long they are good."
)
@click.option("--renew", is_flag=True, help="Make those named anew; without it only what is missing.")
def certificates(
    folder: Path, cluster: str, nodes: int, more: tuple[int, ...], clients: str, admins: str, days: int, renew: bool
) -> None:
    """Make certificates for a cluster that uses TLS, and an authority if DIR has none.

    Prints what belongs to whom. Copy to each machine its own certificate and key and authority.pem, never
    authority.key. Run again with --renew, and copied again, they are taken up without a restart.

    \b
    Example:
        virtuallog certificates certificates --nodes 3 --clients app --admins alice
    """
    named = [(Role.NODE, str(number)) for number in dict.fromkeys([*range(1, nodes + 1), *more])]
    named += [(Role.CLIENT, name) for name in _split(clients)] + [(Role.ADMIN, name) for name in _split(admins)]
    if not named:
        raise click.UsageError("name somebody: --nodes N, --node N, --clients NAME,... or --admins NAME,...")
    owners = [_owner(cluster, role, name) for role, name in named]
    from virtuallog_server.local_cluster.certificates import (
        certify,  # takes longer than all the rest of the command line
    )

    for owner, files in zip(owners, certify(folder, owners, days=days, renew=renew), strict=True):
        click.echo(f"{owner}: {files.certificate}, {files.key}")


def _split(names: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def _owner(cluster: str, role: Role, name: str) -> Principal:
    try:
        return parse_untrusted(str(Principal(cluster=cluster, role=role, name=name)))
    except UntrustedError as error:
        raise click.UsageError(str(error)) from error
