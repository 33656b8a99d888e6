"""Options of the logs that are used by themselves, `paxos-log` and `raft-log`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from virtuallog.rpc.security.tls_files import TlsFiles

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def path_option(command: CommandT, *, exists: bool = False, owner: str = "the replica") -> CommandT:
    """`--path DIR`."""
    kind = click.Path(path_type=Path, file_okay=False, exists=exists)
    return click.option("--path", required=True, type=kind, help=f"Directory of {owner}.")(command)


def timeout_option(command: CommandT) -> CommandT:
    """`--timeout SECONDS`."""
    return click.option("--timeout", default=10.0, show_default=True, type=click.FloatRange(0.1), help="Seconds.")(
        command
    )


def tls_options(
    command: CommandT,
    *,
    certificate: str = "Certificate of a node with this number. Without it, only this machine is served.",
) -> CommandT:
    """`--certificate`, `--key` and `--authority`: a TLS identity."""
    for name, what in (
        ("authority", "Authority to trust."),
        ("key", "Key of the certificate."),
        ("certificate", certificate),
    ):
        command = click.option(
            f"--{name}", envvar=f"VIRTUALLOG_{name.upper()}", show_envvar=True, metavar="FILE", help=what,
            type=click.Path(path_type=Path, dir_okay=False),
        )(command)  # fmt: skip
    return command


def tls_files(files: Mapping[str, Path | None]) -> TlsFiles | None:
    """The files that `tls_options` name; None if they name none.

    Raises:
        click.UsageError: they name only some.
    """
    from virtuallog.rpc.security.tls_files import TlsFiles

    given = {name: path for name, path in files.items() if path is not None}
    if given and len(given) < len(files):
        raise click.UsageError("--certificate, --key and --authority go together")
    return TlsFiles(**given) if given else None


def listed(peers: str | None) -> list[str]:
    """Parts of a list with commas."""
    return [part.strip() for part in peers.split(",")] if peers else []
