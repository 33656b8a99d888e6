"""The work of `virtuallog certificates`: parse the owners, make the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from virtuallog.contract.caller_roles import Principal, Role, parse_untrusted
from virtuallog.contract.errors import UntrustedError


def owners(cluster: str, nodes: Sequence[int], clients: Sequence[str], admins: Sequence[str]) -> list[Principal]:
    """The owners that the options name.

    Raises:
        click.UsageError: a name cannot stand in a certificate.
    """
    named = [(Role.NODE, str(number)) for number in nodes]
    named += [(Role.CLIENT, name) for name in clients] + [(Role.ADMIN, name) for name in admins]
    return [_owner(cluster, role, name) for role, name in named]


def _owner(cluster: str, role: Role, name: str) -> Principal:
    try:
        return parse_untrusted(str(Principal(cluster=cluster, role=role, name=name)))
    except UntrustedError as error:
        raise click.UsageError(str(error)) from error


def hosts_by_owner(pairs: Sequence[str], names: Sequence[str]) -> dict[str, list[str]]:
    """The values of `--host NAME=HOST`.

    Raises:
        click.UsageError: one is not NAME=HOST, or names none of the clients and admins.
    """
    found: dict[str, list[str]] = {}
    for pair in pairs:
        name, _, host = pair.partition("=")
        if name not in names or not host.isascii() or not host or "/" in host:
            raise click.UsageError(f"--host {pair}: must be NAME=HOST, and NAME one of --clients or --admins")
        found.setdefault(name, []).append(host)
    return found


def make(
    folder: Path, principals: Sequence[Principal], days: int, renew: bool, hosts: Mapping[str, Sequence[str]]
) -> None:
    """Make the certificates, and print the files of each owner."""
    from virtuallog_server.local_cluster.certificates import certify  # imports cryptography: not for wrong usage

    made = certify(folder, principals, days=days, renew=renew, hosts=hosts)
    for owner, files in zip(principals, made, strict=True):
        click.echo(f"{owner}: {files.certificate}, {files.key}")
