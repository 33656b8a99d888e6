#!/usr/bin/env python3
"""A rolling upgrade and a downgrade by one version of the protocol under load: three nodes, restarted one after the other.

    python -m virtuallog_lab.experiments.failover.rolling_upgrade --rounds 3

    up      from the former program to this one, with `protocol` in each node.toml: the way back stays open
    down    back to the former program
    last    up once more, and then without that line: the level of the cluster rises, and a raft loglet can be used

Before each restart `virtuallog upgrade --check` has to find nothing in its way, and appends are moved off the node if it orders them:
docs/howto/upgrade.md. With `--no-hand-over` they are not, and the other nodes find out. The former program is that of
`virtuallog_lab.experiments.failover.former_program`.

A gap is the longest stretch without acknowledgements from before a restart until the check is content again. Exit code 0 means that nothing
is lost, doubled or reordered.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import click

from virtuallog.contract.errors import RetryableError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog.contract.versions import SPOKEN, Versions
from virtuallog.plugins import loglet_providers, metastore_provider
from virtuallog_database.engines.stack import KNOWN
from virtuallog_lab.experiments.failover import former_program
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options
from virtuallog_lab.harness.program import run_to_end
from virtuallog_lab.harness.report import Report, Table, tell
from virtuallog_lab.harness.trial import Evidence, Trial, TrialLoad, run_trial, set_up_client
from virtuallog_lab.workload.latencies import SPREAD_COLUMNS, Spread, longest_pause
from virtuallog_server.config.config_file import spell_config
from virtuallog_server.diagnosis.collector import gather, open_environment
from virtuallog_server.diagnosis.core.finding import Severity
from virtuallog_server.diagnosis.core.upgrade import TargetProgram, UpgradeCheck, check_upgrade
from virtuallog_server.local_cluster import layout
from virtuallog_server.local_cluster.supervisor import PROGRAM, LocalCluster, open_local_cluster
from virtuallog_server.node.health import software_version

NODES: Final = 3
CALM_SECONDS: Final = 1.0
"""Before each restart."""
READY_SECONDS: Final = 60.0
"""Patience of the check, after each restart."""
POLL_SECONDS: Final = 0.1
TARGET_SECONDS: Final = 1.0
"""Target seconds of the longest gap."""
THIS: Final = TargetProgram(versions=SPOKEN, software=software_version(), switches=KNOWN)
FORMER: Final = TargetProgram(versions=Versions(last=former_program.PROTOCOL))


@attrs.frozen(kw_only=True)
class UpgradeStage:
    """Restarts of all nodes, one after the other."""

    name: str
    program: Sequence[str]
    target: TargetProgram
    """The same program, as the check knows it."""
    protocol: int
    """Line of each node.toml; 0 for none."""


@attrs.frozen(kw_only=True)
class NodeRestart:
    """One restart. Times in seconds since the start of the workload."""

    stage: str
    node: NodeId
    at: float
    until: float
    """Time at which nothing was in the way of the next one."""


@attrs.frozen(kw_only=True)
class UpgradeRun:
    """Result of a run."""

    restarts: Sequence[NodeRestart]
    level: int
    """Level of the cluster in the end."""
    refusals: Sequence[str]
    """Obstacles for the former program in the end."""


def stages(former: Sequence[str], rounds: int) -> list[UpgradeStage]:
    """Up and down `rounds` times, then up for good."""
    held = former_program.PROTOCOL
    up = UpgradeStage(name="up", program=PROGRAM, target=THIS, protocol=held)
    down = UpgradeStage(name="down", program=former, target=FORMER, protocol=held)
    last = UpgradeStage(name="last", program=PROGRAM, target=THIS, protocol=0)
    return [*[up, down] * rounds, up, last]


def hold_back(cluster: LocalCluster, node: NodeId, protocol: int) -> None:
    """Write the newest version of the protocol that a node may speak into its config."""
    child = cluster.nodes[node]
    child.config = attrs.evolve(child.config, protocol=protocol)
    layout.config_file(child.config).write_text(spell_config(child.config))


async def check(trial: Trial, target: TargetProgram) -> UpgradeCheck:
    """Result of `virtuallog upgrade --check` at this moment."""
    providers, metastore = loglet_providers(), metastore_provider()
    async with open_environment(trial.cluster.file, providers, metastore) as environment:
        return check_upgrade(await gather(list(trial.cluster.nodes), providers, metastore, environment), target)


def obstacles(found: UpgradeCheck) -> list[str]:
    """Statements of a check about things in the way."""
    return [finding.statement for finding in found.findings if finding.weight >= Severity.WEAK]


async def wait_safe(trial: Trial, target: TargetProgram) -> None:
    """Wait until the next node may be restarted.

    Raises:
        UnavailableError: something stays in the way.
    """
    left: list[str] = []
    with trial.clock.timeout(READY_SECONDS):
        while True:
            try:
                left = obstacles(await check(trial, target))
            except RetryableError as error:
                left = [str(error)]
            if not left:
                return
            await trial.clock.sleep(POLL_SECONDS)
    raise UnavailableError(f"after {READY_SECONDS:g} s this is in the way of a restart: {'; '.join(left)}")


async def hand_appends_over(trial: Trial, node: NodeId) -> None:
    """Let another node order appends if this one does."""
    if await trial.orderer() == node:
        other = next(other for other in trial.cluster.nodes if other != node)
        await trial.extend("native", {"sequencer": str(other)})


async def restart_all(trial: Trial, stage: UpgradeStage, hand_over: bool) -> list[NodeRestart]:
    """Restart each node with the program of a stage, once nothing is in the way."""
    done = []
    for node in trial.cluster.nodes:
        await trial.clock.sleep(CALM_SECONDS)
        await wait_safe(trial, stage.target)
        at = trial.workload.elapsed
        if hand_over:
            await hand_appends_over(trial, node)
        await trial.cluster.stop(node)
        trial.cluster.nodes[node].program = stage.program
        hold_back(trial.cluster, node, stage.protocol)
        await trial.cluster.start(node)
        await trial.cluster.wait_ready()
        await wait_safe(trial, stage.target)
        done.append(NodeRestart(stage=stage.name, node=node, at=at, until=trial.workload.elapsed))
        tell(f"{stage.name}: node {node} back after {done[-1].until - at:.1f} s")
    return done


async def upgrade_and_return(plan: Sequence[UpgradeStage], hand_over: bool, trial: Trial) -> UpgradeRun:
    """A story: all stages, then a loglet that only the newest level has."""
    restarts = [restart for stage in plan for restart in await restart_all(trial, stage, hand_over)]
    with trial.clock.timeout(READY_SECONDS):
        while (await trial.log.view.refresh()).level < SPOKEN.last:
            await trial.clock.sleep(POLL_SECONDS)
    await trial.extend("raft", {})
    await trial.clock.sleep(CALM_SECONDS)
    level = (await trial.log.view.refresh()).level
    return UpgradeRun(restarts=restarts, level=level, refusals=obstacles(await check(trial, FORMER)))


async def run(rounds: int, load: TrialLoad, hand_over: bool) -> Evidence[UpgradeRun]:
    """The whole trial."""
    set_up_client()
    with tempfile.TemporaryDirectory(prefix="virtuallog-bench-") as name:
        folder = Path(name)
        former = former_program.install(folder / "former")
        path = folder / "cluster"
        async with open_local_cluster(path, NODES, base_port=0, program=former) as cluster:
            await cluster.wait_ready()
            story = partial(upgrade_and_return, stages(former, rounds), hand_over)
            return await run_trial(cluster, load, story)


def report(machine: Machine, evidence: Evidence[UpgradeRun]) -> Report:
    """The gaps by stage, and the verdict."""
    restarts = evidence.result.restarts
    gaps = {
        stage: [longest_pause(evidence.times, one.at, one.until).seconds for one in restarts if one.stage == stage]
        for stage in dict.fromkeys(one.stage for one in restarts)
    }
    spreads = {stage: Spread.of(seconds) for stage, seconds in gaps.items()}
    rows = [
        [stage, str(len(gaps[stage])), *spread.cells(), "met" if spread.max_ms <= 1000 * TARGET_SECONDS else "missed"]
        for stage, spread in spreads.items()
    ]
    title = f"Longest stretch without acknowledgements around each restart; target {TARGET_SECONDS:g} s"
    return Report(
        title=f"{len(restarts)} restarts between two versions under load",
        machine=machine,
        tables=[Table(title, ["", "restarts", *SPREAD_COLUMNS, "target"], rows)],
        plain={
            "gaps": {stage: {"restarts": len(gaps[stage]), **spread.plain()} for stage, spread in spreads.items()},
            "level": evidence.result.level,
            "acknowledged": evidence.workload.acknowledged,
            "unknown": evidence.workload.unknown,
        },
        verdict=evidence.summary,
        problems=evidence.verdict.problems,
    )


@click.command()
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(1, 1000), help="Ways up and down.")
@click.option("--outstanding", default=64, show_default=True, type=click.IntRange(1, 4096))
@click.option("--size", default=100, show_default=True, type=click.IntRange(20, 1 << 20), help="Bytes of an entry.")
@click.option("--hand-over/--no-hand-over", default=True, help="Move appends off a node before its restart.")
@form_options
def main(*, rounds: int, outstanding: int, size: int, hand_over: bool, form: Form) -> None:
    """Upgrade and downgrade a cluster under a client that never pauses, and measure how long it waits.

    \b
    Example:
        python -m virtuallog_lab.experiments.failover.rolling_upgrade --rounds 1
    """
    machine = Machine.look()
    evidence = run_to_end(run, rounds, TrialLoad(writers=outstanding, entry_bytes=size), hand_over)
    report(machine, evidence).publish(form)


if __name__ == "__main__":
    main()
