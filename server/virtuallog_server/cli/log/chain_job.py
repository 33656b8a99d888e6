"""The work of the commands about the chain: show its segments, change it, close the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from virtuallog.admin.control import ChainChanged, GetStatus, ReconfigExtend, ReconfigTruncate, SealLog, Setting
from virtuallog.client.cluster_file import ClusterFile
from virtuallog.contract.chain import Segment
from virtuallog.contract.errors import MalformedError, UnavailableError
from virtuallog.contract.ports import Request
from virtuallog.contract.provider import SupportsSettings
from virtuallog.contract.register import Register, decode_untrusted
from virtuallog.node_services import ask_living, open_services_to
from virtuallog.plugins import KindsOnDemand, loglet_providers
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.options import echo_json

CHANGE_SECONDS = 30.0
"""Timeout of a change. It takes milliseconds, but after a failure it may wait for timeouts of dead servers."""


def list_kinds(context: click.Context) -> None:
    """Print each kind of loglet that takes appends, with the settings that `--set` takes for it."""
    formatter = context.make_formatter()
    for kind, provider in sorted(loglet_providers().items()):
        if isinstance(provider, SupportsSettings):
            with formatter.section(f"--to {kind}, with --set"):
                formatter.write_dl([(f"{name}=", meaning) for name, meaning in provider.settings.items()])
    click.echo(formatter.getvalue().strip("\n"))


def show_chain(cluster: ClusterFile, as_json: bool) -> None:
    """Print the segments of the newest chain."""
    _show(event_loop.run(_newest_register, cluster), as_json)


def reconfigure(cluster: ClusterFile, kind: str, settings: Mapping[str, str], as_json: bool) -> None:
    """Continue the log on a new loglet, and print the chain."""
    wanted = tuple(Setting(name, value) for name, value in settings.items())
    _show(event_loop.run(_change, cluster, ReconfigExtend(kind=kind, settings=wanted)), as_json)


def truncate(cluster: ClusterFile, as_json: bool) -> None:
    """Drop wholly trimmed segments, and print the chain."""
    _show(event_loop.run(_change, cluster, ReconfigTruncate()), as_json)


def seal(cluster: ClusterFile, as_json: bool) -> None:
    """Close the log, and print the chain."""
    _show(event_loop.run(_change, cluster, SealLog()), as_json)


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
    """The config in plain values if the kind is installed here; else its bytes, so that any chain can be shown."""
    provider = KindsOnDemand().get(segment.kind)
    try:
        return dict(provider.describe(segment.config)) if provider else {"bytes": segment.config.hex()}
    except MalformedError as error:
        return {"unreadable": str(error)}
