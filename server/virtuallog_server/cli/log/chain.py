"""Commands about the chain: what stands under the log, and how to change it."""

from __future__ import annotations

from typing import Any

import click
import trio

from virtuallog.admin.control import ChainChanged, GetStatus, ReconfigExtend, ReconfigTruncate, SealLog, Setting
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.connect import ask_living, open_services_to
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import MalformedError, UnavailableError
from virtuallog.contract.ports import Request
from virtuallog.contract.provider import SupportsSettings
from virtuallog.contract.register import Register, decode_untrusted
from virtuallog.plugins import loglet_providers
from virtuallog_server.cli.common.options import cluster_option, echo_json, json_option, parse_settings

# FOLDED from virtuallog_server.cli.kinds: Help that tells which kinds of loglets are installed, and what can be set. Kinds are loaded only when somebody reads it.


class CommandWithKinds(click.Command):
    """A command whose help ends with the kinds of loglets, each with what `--set` takes."""

    def format_epilog(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for kind, provider in sorted(loglet_providers().items()):
            if isinstance(provider, SupportsSettings):
                with formatter.section(f"--to {kind}, with --set"):
                    formatter.write_dl([(f"{name}=", meaning) for name, meaning in provider.settings.items()])


CHANGE_SECONDS = 30.0
"""A change takes milliseconds; after a failure it may have to wait for timeouts of dead servers."""


@click.command()
@cluster_option
@json_option
def chain(cluster: ClusterFile, as_json: bool) -> None:
    """Show the segments of the log, and which loglet holds each.

    With --json: an object with the version and the list of segments, each with kind, start and stop (null while open).

    \b
    Example:
        virtuallog chain --json | jq '.segments[-1].kind'
    """
    _show(trio.run(_newest_register, cluster), as_json)


@click.command(cls=CommandWithKinds)
@click.option("--to", "kind", required=True, metavar="KIND", help="Kind of the new loglet: see below.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting of the new loglet; repeatable.")
@cluster_option
@json_option
def reconfigure(cluster: ClusterFile, kind: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Continue the log on a new loglet, while it is in use.

    Seals the active loglet and extends the chain. What is not set stays as it was, as far as its servers live. This
    is also the way to recover from a dead sequencer or server: continue on nodes that live.

    \b
    Example:
        virtuallog reconfigure --to native --set sequencer=2
    """
    wanted = tuple(Setting(name, value) for name, value in parse_settings(settings).items())
    _show(trio.run(_change, cluster, ReconfigExtend(kind=kind, settings=wanted)), as_json)


@click.command()
@cluster_option
@json_option
def truncate(cluster: ClusterFile, as_json: bool) -> None:
    """Drop segments that have been trimmed as a whole from the chain.

    `virtuallog trim` does this by itself; it is of use after a trim that was interrupted.

    \b
    Example:
        virtuallog truncate
    """
    _show(trio.run(_change, cluster, ReconfigTruncate()), as_json)


@click.command()
@cluster_option
@json_option
def seal(cluster: ClusterFile, as_json: bool) -> None:
    """Close the log: appends fail until `virtuallog reconfigure` continues it. Reads go on.

    \b
    Example:
        virtuallog seal
    """
    _show(trio.run(_change, cluster, SealLog()), as_json)


async def _change(cluster: ClusterFile, request: Request[ChainChanged]) -> Register:
    async with open_services_to(cluster) as services:
        changed = await ask_living(services, cluster, request, CHANGE_SECONDS)
        return decode_untrusted(changed.register)


async def _newest_register(cluster: ClusterFile) -> Register:
    async with open_services_to(cluster) as services:
        status = await ask_living(services, cluster, GetStatus(), CHANGE_SECONDS)
        if not status.register:
            raise UnavailableError("the cluster has not been bootstrapped")
        return decode_untrusted(status.register)


def _show(register: Register, as_json: bool) -> None:
    segments = [_plain(segment) for segment in register.chain.segments]
    if as_json:
        echo_json(
            {
                "version": register.version,
                "cluster": register.cluster.hex(),
                "members": list(register.members),
                "segments": segments,
            }
        )
        return
    from rich.console import Console  # takes longer than to ask the cluster
    from rich.table import Table

    table = Table(title=f"chain, version {register.version}", title_justify="left")
    for column in ("start", "stop", "kind", "loglet", "id"):
        table.add_column(column, justify="right" if column in {"start", "stop"} else "left")
    for segment in segments:
        details = ", ".join(f"{name}={value}" for name, value in segment["config"].items())
        stop = "open" if segment["stop"] is None else str(segment["stop"])
        table.add_row(str(segment["start"]), stop, segment["kind"], details, segment["id"])
    Console().print(table)


def _plain(segment: Segment) -> dict[str, Any]:
    return {
        "id": str(segment.id),
        "kind": segment.kind,
        "start": segment.start,
        "stop": segment.stop,
        "base": segment.base,
        "config": _describe(segment),
    }


def _describe(segment: Segment) -> dict[str, Any]:
    """The config in plain values, if the kind is installed here; the chain can be looked at without."""
    provider = loglet_providers().get(segment.kind)
    try:
        return dict(provider.describe(segment.config)) if provider else {"bytes": segment.config.hex()}
    except MalformedError as error:
        return {"unreadable": str(error)}
