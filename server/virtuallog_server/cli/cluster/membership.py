"""Commands that change which nodes there are, and who decides the register. A node does the work; these ask and wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
import click
import trio

from virtuallog.admin.cluster_status import METASTORE_ROLE, fetch_statuses
from virtuallog.admin.membership import AddNode, DrainNode, Progress, RemoveNode, ReplaceNode
from virtuallog.client.cluster_file import ClusterFile, NodeAddress
from virtuallog.connect import newest_register, open_services_to
from virtuallog.contract.errors import RetryableError, VirtualLogError
from virtuallog.contract.ports import ReplyT, Request, Services
from virtuallog.contract.register import Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.runtime.clock import SystemClock
from virtuallog.runtime.toml import FieldError, check_address
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.cli.common.options import cluster_option, echo_json, json_option
from virtuallog_server.config.node_config import ROLES

ANSWER_SECONDS: Final = 30.0
"""For one question. What takes longer says how far it is."""
ASK_AGAIN_SECONDS: Final = 0.5
TRIES: Final = 20
"""Questions in a row that nobody answers before the command gives up: the node that was asked may be restarting."""


@click.group()
def node() -> None:
    """Add, replace, drain and remove nodes, while the log is in use.

    All of these may be interrupted and repeated: they look at what is done already, and do the rest.
    """


@node.command()
@click.argument("place", metavar="ID@HOST:PORT")
@click.option("--roles", default=",".join(ROLES), show_default=True, metavar="ROLE,...", help="What it is used for.")
@cluster_option
@json_option
def add(cluster: ClusterFile, place: str, roles: str, as_json: bool) -> None:
    """Expect a new node; or let one that was drained be used again. A node in use gets the roles that it has not.

    Then start it: `virtuallog serve`, with an empty data directory, and with the nodes of the cluster and itself as its
    peers. It takes its place by itself. New loglets may use it from then on.

    \b
    Example:
        virtuallog node add 4@127.0.0.1:7004
    """
    address, wanted = _place(place), _roles(roles)
    request = AddNode(node=NodeId(address.id), addresses=(address.address,), roles=wanted)
    register = decode_untrusted(trio.run(ask_once, cluster, request, None).register)
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


@node.command()
@click.argument("number", metavar="ID", type=click.IntRange(1))
@click.option("--address", metavar="HOST:PORT", help="Where it will be, if not where it was.")
@click.option(
    "--force", is_flag=True, help="Give up its data even if it answers, or if the others may not have all of it."
)
@click.option("--no-wait", is_flag=True, help="Do not wait for the node to be started.")
@cluster_option
@json_option
def replace(cluster: ClusterFile, number: int, address: str | None, force: bool, no_wait: bool, as_json: bool) -> None:
    """Give the place of a node whose disk is gone to a new data directory.

    The cluster forgets the old directory: it is refused if it turns up again. Then start the node with an empty one. It
    takes the place, gets its vote for the register back, and a copy of every segment that it had.

    \b
    Example:
        virtuallog node replace 3
    """
    try:
        if address is not None:
            check_address(address, "--address")
    except FieldError as error:
        raise click.UsageError(f"--address: {error}") from error
    target = NodeId(number)
    addresses = (address,) if address else ()
    request = ReplaceNode(
        node=target, store_id=trio.run(_directory_of, cluster, target), addresses=addresses, force=force
    )
    _show(trio.run(_see_through, cluster, request, target, no_wait, as_json), as_json)


@node.command()
@click.argument("number", metavar="ID", type=click.IntRange(1))
@click.option("--check", is_flag=True, help="Change nothing; say what stands against it.")
@cluster_option
@json_option
def drain(cluster: ClusterFile, number: int, check: bool, as_json: bool) -> None:
    """Move everything off a node that lives, so that it can be stopped.

    Its seat in the MetaStore, appends and the copies of all segments go to other nodes; never are there fewer copies than
    before. `virtuallog node add` takes it back, `virtuallog node remove` takes it out of the cluster.

    \b
    Examples:
        virtuallog node drain 1 --check
        virtuallog node drain 1
    """
    request = DrainNode(node=NodeId(number), check=check)
    if check:
        progress = trio.run(ask_once, cluster, request, NodeId(number))
    else:
        progress = trio.run(_see_through, cluster, request, NodeId(number), True, as_json)
    _show(progress, as_json)
    if progress.problems:
        raise Failure(f"node {number} cannot be drained")


@node.command()
@click.argument("number", metavar="ID", type=click.IntRange(1))
@cluster_option
@json_option
def remove(cluster: ClusterFile, number: int, as_json: bool) -> None:
    """Take a node that nothing rests on out of the cluster, for good.

    \b
    Example:
        virtuallog node remove 1
    """
    changed = trio.run(ask_once, cluster, RemoveNode(node=NodeId(number)), NodeId(number))
    register = decode_untrusted(changed.register)
    if as_json:
        echo_json({"version": register.version, "nodes": sorted(register.nodes)})
    else:
        click.echo(f"node {number} is no part of the cluster")


# -- asking ---------------------------------------------------------------------------------------------------------------


async def ask_once(cluster: ClusterFile, request: Request[ReplyT], avoid: NodeId | None) -> ReplyT:
    """One question to one node, not the one in question if another one lives."""
    async with open_services_to(cluster) as services:
        return await ask(services, cluster, request, avoid)


async def ask(services: Services, cluster: ClusterFile, request: Request[ReplyT], avoid: NodeId | None) -> ReplyT:
    """Ask a node that takes part in the cluster; not the one in question, if there is another."""
    answers = await fetch_statuses(services, [NodeId(node.id) for node in cluster.nodes])
    newest_register(answers)  # says why nobody can be asked
    able = [node for node, answer in answers.items() if not isinstance(answer, VirtualLogError) and answer.register]
    return await services.call(min(able, key=lambda node: node == avoid), request, ANSWER_SECONDS)


async def _directory_of(cluster: ClusterFile, node: NodeId) -> bytes:
    """The store id of a node, as the cluster knows it; empty if it expects a new one, or has no such node."""
    async with open_services_to(cluster) as services:
        register = newest_register(await fetch_statuses(services, [NodeId(node.id) for node in cluster.nodes]))
    return register.nodes[node].store_id if node in register.nodes else b""


async def _see_through(
    cluster: ClusterFile,
    request: Request[Progress],
    avoid: NodeId,
    no_wait: bool,
    quiet: bool,
) -> Progress:
    """Ask until it is done, and say what is new meanwhile."""
    clock, said, failed = SystemClock(), "", 0
    async with open_services_to(cluster) as services:
        while True:
            try:
                progress = await ask(services, cluster, request, avoid)
            except RetryableError:
                failed += 1
                if failed == TRIES:
                    raise
            else:
                failed = 0
                if progress.done or (progress.waits and no_wait):
                    return progress
                if progress.says != said and not quiet:
                    click.echo(progress.says)
                said = progress.says
            await clock.sleep(ASK_AGAIN_SECONDS)


# -- words ----------------------------------------------------------------------------------------------------------------


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
    """What a list with commas holds; `parse` gives None for what is none of `known`.

    Raises:
        click.UsageError: there is one of that.
    """
    parsed = [parse(part.strip()) for part in text.split(",")]
    if None in parsed:
        raise click.UsageError(f"'{text}' is no list of {known}")
    return parsed


def _peers(register: Register) -> str:
    return ",".join(f"{node}@{entry.addresses[0]}" for node, entry in sorted(register.nodes.items()) if entry.addresses)
