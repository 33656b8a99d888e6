"""The work of `virtuallog node`. A node changes the cluster; these functions ask it and wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import click

from virtuallog.admin.cluster_status import METASTORE_ROLE, fetch_statuses
from virtuallog.admin.membership import AddNode, DrainNode, Progress, RemoveNode, ReplaceNode
from virtuallog.client.cluster_file import ClusterFile, NodeAddress
from virtuallog.contract.ports import ReplyT, Request, Services
from virtuallog.contract.register import Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.node_services import ask_one_of, listed_nodes, newest_register, open_services_to
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.toml import FieldError, check_address
from virtuallog_server.cli.common import event_loop
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.cli.common.options import echo_json
from virtuallog_server.config.node_config import ROLES
from virtuallog_server.membership.requests import ANSWER_SECONDS, ask_until_done


def add(cluster: ClusterFile, place: str, roles: str, as_json: bool) -> None:
    """Add a node, or use a drained one again; print how to start it."""
    address, wanted = _place(place), _roles(roles)
    request = AddNode(node=NodeId(address.id), addresses=(address.address,), roles=wanted)
    register = decode_untrusted(event_loop.run(ask_once, cluster, request, None).register)
    expected = register.nodes[NodeId(address.id)].is_expected
    if as_json:
        echo_json({"version": register.version, "expected": expected})
    elif expected:
        click.echo(f"node {address.id} is expected at {address.address}; to start it, with an empty directory DIR:")
        click.echo(f"virtuallog serve --id {address.id} --data DIR --peers {_peers(register)}")
    else:
        used = register.nodes[NodeId(address.id)].roles
        click.echo(f"node {address.id} is used for {', '.join(sorted(used))}")
        if used.difference(wanted, {METASTORE_ROLE}):
            click.echo(f"`node add` takes no role away; to do so, drain node {address.id} first")


def replace(cluster: ClusterFile, number: int, address: str | None, force: bool, no_wait: bool, as_json: bool) -> None:
    """Give the place of a node to a new data directory, and wait until it has everything."""
    try:
        if address is not None:
            check_address(address, "--address")
    except FieldError as error:
        raise click.UsageError(f"--address: {error}") from error
    target = NodeId(number)
    addresses = (address,) if address else ()
    request = ReplaceNode(
        node=target, store_id=event_loop.run(_directory_of, cluster, target), addresses=addresses, force=force
    )
    _show(event_loop.run(_ask_until_done, cluster, request, target, no_wait, as_json), as_json)


def drain(cluster: ClusterFile, number: int, check: bool, as_json: bool) -> None:
    """Move everything off a node, or only print what prevents that.

    Raises:
        Failure: the node cannot be drained.
    """
    request = DrainNode(node=NodeId(number), check=check)
    if check:
        progress = event_loop.run(ask_once, cluster, request, NodeId(number))
    else:
        progress = event_loop.run(_ask_until_done, cluster, request, NodeId(number), True, as_json)
    _show(progress, as_json)
    if progress.problems:
        raise Failure(f"node {number} cannot be drained")


def remove(cluster: ClusterFile, number: int, as_json: bool) -> None:
    """Take an unused node out of the cluster."""
    changed = event_loop.run(ask_once, cluster, RemoveNode(node=NodeId(number)), NodeId(number))
    register = decode_untrusted(changed.register)
    if as_json:
        echo_json({"version": register.version, "nodes": sorted(register.nodes)})
    else:
        click.echo(f"node {number} is no part of the cluster")


async def ask_once(cluster: ClusterFile, request: Request[ReplyT], avoid: NodeId | None) -> ReplyT:
    """Send one request to one node (`ask`)."""
    async with open_services_to(cluster) as services:
        return await ask(services, cluster, request, avoid)


async def ask(services: Services, cluster: ClusterFile, request: Request[ReplyT], avoid: NodeId | None) -> ReplyT:
    """Send a request to a node that knows a register; to the node `avoid` only if no other one answers.

    Raises:
        UnavailableError: no node can be asked.
        VirtualLogError: the answer of the node.
    """
    return await ask_one_of(services, listed_nodes(cluster), request, ANSWER_SECONDS, avoid=avoid)


async def _directory_of(cluster: ClusterFile, node: NodeId) -> bytes:
    """The store id of a node in the register. Empty if the cluster expects a new directory, or has no such node."""
    async with open_services_to(cluster) as services:
        register = newest_register(await fetch_statuses(services, [NodeId(node.id) for node in cluster.nodes]))
    return register.nodes[node].store_id if node in register.nodes else b""


async def _ask_until_done(
    cluster: ClusterFile,
    request: Request[Progress],
    avoid: NodeId,
    no_wait: bool,
    quiet: bool,
) -> Progress:
    """Ask until the work is done, and print its progress meanwhile."""

    def tell(says: str) -> None:
        if not quiet:
            click.echo(says)

    async with open_services_to(cluster) as services:
        return await ask_until_done(
            services, listed_nodes(cluster), request, avoid, tell, SystemClock(), may_wait=not no_wait
        )


def _show(progress: Progress, as_json: bool) -> None:
    if as_json:
        echo_json(attrs.asdict(progress))
        return
    click.echo(progress.says)
    for problem in progress.problems:
        click.echo(problem)


def _place(text: str) -> NodeAddress:
    number, at, address = text.partition("@")
    if not at or not number.isdecimal():
        raise click.UsageError(f"'{text}' is not ID@HOST:PORT")
    try:
        return NodeAddress(id=int(number), address=address)
    except FieldError as error:
        raise click.UsageError(f"{text}: {error}") from error


def _roles(text: str) -> tuple[str, ...]:
    return tuple(sorted(listed(text, lambda part: part if part in ROLES else None, f"roles: {', '.join(ROLES)}")))


def listed(text: str, parse: Callable[[str], Any], known: str) -> list[Any]:
    """Parse a list with commas. `parse` returns None for a part that is none of `known`.

    Raises:
        click.UsageError: the list has such a part.
    """
    parsed = [parse(part.strip()) for part in text.split(",")]
    if None in parsed:
        raise click.UsageError(f"'{text}' is no list of {known}")
    return parsed


def _peers(register: Register) -> str:
    return ",".join(f"{node}@{entry.addresses[0]}" for node, entry in sorted(register.nodes.items()) if entry.addresses)
