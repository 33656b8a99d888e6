#!/usr/bin/env python3
"""A partition of real hosts: three nodes and a client, each with a network stack of its own, TLS between them. Needs root.

    python -m virtuallog_lab.experiments.failover.hosts --rounds 3

    cut     the cable of the host that orders entries is pulled: nothing comes, nothing goes, without an error to either side
    deaf    nothing that others send reaches it; what it sends arrives
    mute    nothing that it sends arrives; it hears all
    split   it and the other nodes do not reach each other; the client reaches all of them
    stall   its disk takes no write; only with `--fault stall`, as each host then gets a file system of its own

Each lasts `--hold` seconds, then is healed. There is no operator: the others must notice and
continue elsewhere, the client must find that out, and the former sequencer, which lives and knows
nothing of it, must acknowledge nothing. Time runs to the end of the longest stretch without
acknowledgements. Afterwards everything is read back: exit code 0 means that appends came back by
themselves every time, and that nothing is lost, doubled or reordered.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import click
import trio

from virtuallog.client.cluster_file import NodeAddress
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.runtime.clock import SystemClock
from virtuallog_lab.experiments.failover.faults import (
    FaultInjector,
    InjectedFault,
    inject_repeatedly,
    repaired_fault,
    wait_or_help,
)
from virtuallog_lab.experiments.failover.kill import ORDERERS
from virtuallog_lab.experiments.failover.loop_disks import LoopDisks, open_loop_disks
from virtuallog_lab.experiments.failover.network_namespaces import CLIENT, Network, open_network
from virtuallog_lab.experiments.failover.report import draw, report
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options, picture_option
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import tell
from virtuallog_lab.harness.trial import Evidence, Trial, TrialLoad, run_trial, set_up_client
from virtuallog_server.config.config_file import spell_config
from virtuallog_server.config.node_config import NodeConfig
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.certificates import Authority
from virtuallog_server.local_cluster.supervisor import PROGRAM, LocalCluster, LocalNode

NODES: Final = ("1", "2", "3")
PORT: Final = 7001
CALM_SECONDS: Final = 2.0
"""Before each fault."""
CLUSTER: Final = "hosts"
"""The name in the certificates."""

STALL: Final = "stall"
"""The fault of a disk."""

Wire = Callable[[Network, str], None]
"""Does something to the network, for one host."""


def _others(network: Network, host: str) -> list[str]:
    return [other for other in network.hosts if other != host]


def _deafen(network: Network, host: str, change: Callable[[Network, str, str], None]) -> None:
    for other in _others(network, host):
        change(network, other, host)


def _silence(network: Network, host: str, change: Callable[[Network, str, str], None]) -> None:
    for other in _others(network, host):
        change(network, host, other)


def _split(network: Network, host: str, change: Callable[[Network, str, str], None]) -> None:
    for other in _others(network, host):
        if other != CLIENT:
            change(network, host, other)
            change(network, other, host)


FAULTS: Final[Mapping[str, tuple[Wire, Wire]]] = {
    "cut": (Network.unplug, Network.plug),
    "deaf": (partial(_deafen, change=Network.block), partial(_deafen, change=Network.unblock)),
    "mute": (partial(_silence, change=Network.block), partial(_silence, change=Network.unblock)),
    "split": (partial(_split, change=Network.block), partial(_split, change=Network.unblock)),
}
"""Functions that cause each fault, and that heal it."""


async def _strike(
    make: Callable[[str], None], heal: Callable[[str], None], hold_seconds: float, kind: str, trial: Trial,
    patience_seconds: float,
) -> InjectedFault:  # fmt: skip
    """Inject a fault and hold it; appends must go on after a while. Then heal it."""
    victim, at = str(await trial.orderer()), trial.workload.elapsed
    make(victim)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trial.clock.sleep, hold_seconds)
            by_itself = await wait_or_help(trial, patience_seconds)
    finally:
        heal(victim)
    return await repaired_fault(trial, kind, at, by_itself)


@asynccontextmanager
async def open_cluster(
    network: Network, folder: Path, authority: Authority, loglet: str = "native", disks: LoopDisks | None = None
) -> AsyncIterator[LocalCluster]:
    """A node on each host, which answer each other and an admin on this one.

    Raises:
        VirtualLogError: they do not.
    """
    admin = authority.issue(Principal(cluster=CLUSTER, role=Role.ADMIN, name="bench"))
    peers = tuple(NodeAddress(id=int(name), address=f"{network.address(name)}:{PORT}") for name in NODES)
    nodes = {}
    for name, peer in zip(NODES, peers, strict=True):
        data = folder / f"node-{name}" if disks is None else disks.folder(name)
        config = _configure(data, authority, name, peer, peers, loglet)
        nodes[config.node] = LocalNode(config, (*network.within(name), *PROGRAM))
    cluster = LocalCluster(folder, nodes, SystemClock(), admin)
    try:
        for node in nodes:
            await cluster.start(node)
        await cluster.wait_ready()
        yield cluster
    finally:
        await cluster.stop()


def _configure(
    data: Path, authority: Authority, name: str, peer: NodeAddress, peers: tuple[NodeAddress, ...], loglet: str
) -> NodeConfig:
    """Made, and written where its node reads it."""
    config = NodeConfig(
        id=peer.id,
        data=data,
        listen=peer.address,
        peers=peers,
        metastore=tuple(other.id for other in peers),
        loglet=loglet,
        tls=authority.issue(Principal(cluster=CLUSTER, role=Role.NODE, name=name)),
    )
    config.data.mkdir()
    layout.config_file(config).write_text(spell_config(config))
    return config


async def run(
    network: Network, folder: Path, plan: Sequence[str], load: TrialLoad, hold_seconds: float, loglet: str,
    disks: LoopDisks | None,
) -> Evidence[list[InjectedFault]]:  # fmt: skip
    """The whole trial; this process must be on the host of the client."""
    set_up_client()
    strikes: dict[str, FaultInjector] = {
        kind: partial(_strike, partial(make, network), partial(heal, network), hold_seconds, kind)
        for kind, (make, heal) in FAULTS.items()
    }
    if disks is not None:
        strikes[STALL] = partial(_strike, disks.freeze, disks.thaw, hold_seconds, STALL)
    authority = Authority.create(folder / "certificates", CLUSTER)
    client = authority.issue(Principal(cluster=CLUSTER, role=Role.CLIENT, name="bench"))
    # What does not come back while the fault lasts has not come back by itself.
    story = partial(inject_repeatedly, plan, strikes, CALM_SECONDS, hold_seconds)
    async with open_cluster(network, folder, authority, loglet, disks) as cluster:
        return await run_trial(cluster, load, story, client)


@click.command()
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1, 1000), help="Repetitions of each fault.")
@click.option(
    "--fault", "faults", multiple=True, type=click.Choice([*FAULTS, STALL]), help="Only this one; may be repeated."
)
@click.option(
    "--loglet", default="native", show_default=True, type=click.Choice([*ORDERERS]), help="Kind of the loglet."
)
@click.option("--hold", default=10.0, show_default=True, type=click.FloatRange(1, 50), help="Seconds.")
@click.option("--outstanding", default=64, show_default=True, type=click.IntRange(1, 4096))
@click.option("--size", default=100, show_default=True, type=click.IntRange(20, 1 << 20), help="Bytes of an entry.")
@picture_option
@form_options
def main(
    *,
    rounds: int,
    faults: tuple[str, ...],
    loglet: str,
    hold: float,
    outstanding: int,
    size: int,
    picture: Path | None,
    form: Form,
) -> None:
    """Partition hosts under a client that never pauses. Needs root, for network namespaces; touches no other network.

    \b
    Example:
        python -m virtuallog_lab.experiments.failover.hosts --rounds 1 --fault cut
    """
    machine = Machine.look()
    plan = [kind for _ in range(rounds) for kind in faults or FAULTS]
    with (
        open_network(NODES) as network,
        tempfile.TemporaryDirectory(prefix="virtuallog-hosts-") as folder,
        ExitStack() as stack,
    ):
        disks = stack.enter_context(open_loop_disks(Path(folder), NODES)) if STALL in plan else None
        network.enter(CLIENT)
        load = TrialLoad(writers=outstanding, entry_bytes=size)
        evidence = run_to_end(run, network, Path(folder), plan, load, hold, loglet, disks)
    if picture is not None:
        draw(evidence, picture)
        tell(f"picture: {picture}")
    report(machine, evidence).publish(form)


if __name__ == "__main__":
    main()
