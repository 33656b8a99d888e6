#!/usr/bin/env python3
"""Failovers of masters under load: examples/master.py in several processes, whose leader is killed or stopped again and again.

    python -m virtuallog_lab.experiments.registrar.masters --failovers 200

Three servers of the database and three masters on loopback. Agents register and are removed over sockets all the time, and ask again
until they know. A leader is killed (SIGKILL) and started again, or stopped (SIGSTOP) until another one leads; then it comes back as a
rogue, is asked to write at once, and must not.

In the end the registry is read: all that was acknowledged is in it, once, in the order of the acknowledgements; nothing that was removed is
back.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

import attrs
import click
import trio

from virtuallog.runtime.clock import SystemClock
from virtuallog_database.client.passive_replica import open_replica
from virtuallog_database.registrar.core.tables import split_key, split_slot
from virtuallog_lab.experiments.churn.churn import open_database_cluster
from virtuallog_lab.harness.machine import Machine
from virtuallog_lab.harness.options import Form, form_options
from virtuallog_lab.harness.program import PeerError, run_to_end
from virtuallog_lab.harness.report import Report, Table, middle_and_ends, tell
from virtuallog_server.local_cluster import layout
from virtuallog_server.process import log_output

CLOCK: Final = SystemClock()
EXAMPLE: Final = Path(__file__).resolve().parents[4] / "examples/master.py"
"""In a checkout of the repository; the examples are in no package."""
MASTERS: Final = 3
AGENTS: Final = 4
"""Tasks that register and remove, each one after the other."""
PAUSE_SECONDS: Final = 0.02
ANSWER_SECONDS: Final = 3.0
LEAD_SECONDS: Final = 60.0
"""Longest wait for a leader."""
BETWEEN_SECONDS: Final = 0.5
"""Load between two failovers."""
KILL: Final = "kill"
STOP: Final = "stop"


@attrs.frozen
class Acknowledged:
    """An operation that has happened, as its agent knows."""

    kind: str
    """`admit` or `remove`."""
    agent: str
    offered: float
    answered: float


@attrs.define(eq=False)
class Masters:
    """The processes, and who leads."""

    cluster: Path
    folder: Path
    example: Path
    ports: Sequence[int]
    processes: dict[int, subprocess.Popen[bytes]] = attrs.field(factory=dict)

    def start(self, number: int) -> None:
        """Start a master; it needs some seconds."""
        with (self.folder / f"master-{number}.log").open("ab") as log:
            command = [sys.executable, str(self.example), str(self.cluster), str(self.folder / f"replica-{number}"),
                       str(self.ports[number]), f"master-{number}"]  # fmt: skip
            self.processes[number] = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def kill(self, number: int) -> None:
        """SIGKILL, by pid."""
        self.processes[number].kill()
        self.processes[number].wait()

    def signal(self, number: int, what: signal.Signals) -> None:
        """Stop it or let it go on."""
        os.kill(self.processes[number].pid, what)

    def end(self) -> None:
        """End all."""
        for process in self.processes.values():
            process.kill()
            process.wait()

    async def ask(self, number: int, question: dict[str, Any]) -> dict[str, Any] | None:
        """Answer of a master; None if there is none in time."""
        with CLOCK.timeout(ANSWER_SECONDS), suppress(OSError, trio.BrokenResourceError, ValueError):
            async with await trio.open_tcp_stream(layout.HOST, self.ports[number]) as stream:
                await stream.send_all(json.dumps(question).encode() + b"\n")
                waiting = b""
                async for piece in stream:
                    waiting += piece
                    if waiting.endswith(b"\n"):
                        answer: dict[str, Any] = json.loads(waiting)
                        return answer
        return None

    async def leader(self, but: int | None = None) -> int:
        """The master that leads, as it says.

        Raises:
            PeerError: there is none in time.
        """
        with CLOCK.timeout(LEAD_SECONDS):
            while True:
                for number in range(len(self.ports)):
                    if number != but and ((await self.ask(number, {"list": True})) or {}).get("leader"):
                        return number
                await CLOCK.sleep(0.05)
        raise PeerError(f"no master leads within {LEAD_SECONDS:g} s: see {self.folder}, or repeat it with --keep")


@attrs.define(eq=False)
class Load:
    """Agents that register and are removed."""

    masters: Masters
    acknowledged: list[Acknowledged] = attrs.field(factory=list)
    problems: list[str] = attrs.field(factory=list)
    counts: Counter[str] = attrs.field(factory=Counter)
    leaving: set[str] = attrs.field(factory=set)
    """Agents whose removal was offered. The last ones have no answer: they may be there or not."""
    hint: int = 0
    """The master that answered last."""

    async def run(self, number: int) -> None:
        """Register an agent, remove an earlier one now and then, again and again."""
        present: list[str] = []
        at = 0
        while True:
            at += 1
            name = f"agent-{number}-{at}"
            await self.settle("admit", name)
            present.append(name)
            if at % 3 == 0:
                await self.settle("remove", present.pop(0))
            await CLOCK.sleep(PAUSE_SECONDS)

    async def settle(self, kind: str, agent: str) -> None:
        """Ask until the operation has happened. A refusal behind an unanswered attempt says that this one has happened."""
        offered, is_unsure = perf_counter(), False
        if kind == "remove":
            self.leaving.add(agent)
        while True:
            answer = await self.masters.ask(self.hint, {kind: agent})
            if answer is not None and "permitted" in answer:
                if not answer["permitted"] and not is_unsure:
                    self.problems.append(f"{kind} {agent} was refused: {answer.get('reason')}")
                self.acknowledged.append(Acknowledged(kind, agent, offered, perf_counter()))
                self.counts["settled by a refusal"] += not answer["permitted"]
                return
            if answer is None or "error" in answer:
                is_unsure = True
                self.counts["without an answer"] += 1
            self.hint = (self.hint + 1) % len(self.masters.ports)
            await CLOCK.sleep(PAUSE_SECONDS)


async def measure(failovers: int, example: Path, keep: Path | None) -> tuple[Load, dict[str, list[float]], list[str]]:
    """All failovers, then the verdict."""
    times: dict[str, list[float]] = {KILL: [], STOP: []}
    async with open_masters(example, keep) as (masters, cluster):
        load = Load(masters)
        await masters.leader()
        async with trio.open_nursery() as nursery:
            for number in range(AGENTS):
                nursery.start_soon(load.run, number)
            for number in range(failovers):
                await CLOCK.sleep(BETWEEN_SECONDS)
                how = (KILL, STOP)[number % 2]
                times[how].append(await fail_over(masters, load, how))
                if number % 10 == 9:
                    tell(f"{number + 1} failovers, {len(load.acknowledged)} acknowledged")
            await CLOCK.sleep(BETWEEN_SECONDS)
            nursery.cancel_scope.cancel()
        masters.end()
        problems = [*load.problems, *await verdict(cluster, masters.folder, load)]
    return load, times, problems


async def fail_over(masters: Masters, load: Load, how: str) -> float:
    """Seconds from the end of a leader until another one has acknowledged something."""
    leader = await masters.leader()
    began = perf_counter()
    if how == KILL:
        masters.kill(leader)
        await _acknowledged(load, began)
        seconds = perf_counter() - began
        masters.start(leader)
        return seconds
    masters.signal(leader, signal.SIGSTOP)
    await _acknowledged(load, began + ANSWER_SECONDS)  # an answer from before the stop may still be read
    other = await masters.leader(but=leader)
    seconds = perf_counter() - began
    masters.signal(leader, signal.SIGCONT)
    answer = await masters.ask(leader, {"admit": f"rogue-{other}-{began}"})
    load.counts["rogue writes tried"] += 1
    if answer is not None and answer.get("permitted"):
        # It may have become a follower, and the leader again, meanwhile: then it is no rogue.
        load.counts["rogue writes accepted"] += await masters.leader() != leader
    return seconds


async def _acknowledged(load: Load, after: float) -> None:
    with CLOCK.timeout(LEAD_SECONDS):
        while not load.acknowledged or load.acknowledged[-1].offered < after:
            await CLOCK.sleep(0.01)
        return
    raise PeerError(f"nothing was acknowledged within {LEAD_SECONDS:g} s")


@asynccontextmanager
async def open_masters(example: Path, keep: Path | None) -> AsyncIterator[tuple[Masters, Any]]:
    """A cluster with masters beside it."""
    with tempfile.TemporaryDirectory(prefix="virtuallog-masters-") as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        async with open_database_cluster("native", "", folder / "cluster") as (cluster, _):
            cluster.write_file()
            masters = Masters(cluster.file_path, folder, example, layout.free_ports(MASTERS))
            try:
                for number in range(MASTERS):
                    masters.start(number)
                yield masters, cluster
            finally:
                masters.end()


async def verdict(cluster: Any, folder: Path, load: Load) -> list[str]:
    """Problems of the registry: lost, restored or reordered records."""
    async with open_replica(cluster.file, folder / "verdict") as client:
        found = await client.variables.load("agents")
    if found is None:
        return ["there is no registry"]
    numbers: dict[tuple[str, str], int] = {}
    for key, value in found.records.items():
        numbers[split_key(key)] = split_slot(value)[0]
    return judge(numbers, load)


def judge(numbers: Mapping[tuple[str, str], int], load: Load) -> list[str]:
    """Problems of the registry, given the number of each record by its table and agent."""
    removed = {each.agent for each in load.acknowledged if each.kind == "remove"}
    problems, placed = [], list[tuple[Acknowledged, int]]()
    for each in load.acknowledged:
        is_gone = each.agent in removed
        has_left = is_gone or (each.agent in load.leaving and ("removed", each.agent) in numbers)
        if each.kind == "admit" and not has_left and ("agents", each.agent) not in numbers:
            problems.append(f"{each.agent} was admitted, and is lost")
        if is_gone and ("agents", each.agent) in numbers:
            problems.append(f"{each.agent} was removed, and is back")
        if each.kind == "remove" and ("removed", each.agent) not in numbers:
            problems.append(f"the removal of {each.agent} is lost")
        number = numbers.get(("removed" if each.kind == "remove" else "agents", each.agent))
        if number is not None:
            placed.append((each, number))
    return [*problems, *disorder(placed)]


def disorder(placed: Sequence[tuple[Acknowledged, int]]) -> list[str]:
    """Operations that are stored before one that was acknowledged before they were offered."""
    problems, last, at = [], -1, 0
    by_answer = sorted(placed, key=lambda each: each[0].answered)
    for each, number in sorted(placed, key=lambda each: each[0].offered):
        while at < len(by_answer) and by_answer[at][0].answered < each.offered:
            last = max(last, by_answer[at][1])
            at += 1
        if number < last:
            problems.append(
                f"{each.kind} {each.agent} is number {number}, and {last} was acknowledged before it was offered"
            )
    return problems


@click.command()
@click.option("--failovers", default=20, show_default=True, help="Half of them kills, half of them stops.")
@click.option(
    "--example",
    default=EXAMPLE,
    show_default="that of this checkout",
    type=click.Path(path_type=Path),
    help="The master to run.",
)
@click.option("--keep", type=click.Path(path_type=Path), help="Folder for all data, which is kept.")
@form_options
def main(failovers: int, example: Path, keep: Path | None, form: Form) -> None:
    """Fail over again and again, and print."""
    if not example.is_file():
        raise click.UsageError(
            f"there is no {example}: run this in a checkout of the repository, or name it by --example"
        )
    log_output.configure("error")
    machine = Machine.look()
    load, times, problems = run_to_end(measure, failovers, example.resolve(), keep)
    problems += [f"{load.counts['rogue writes accepted']} rogue writes were accepted"] * bool(
        load.counts["rogue writes accepted"]
    )
    rows = [(how, str(len(found)), middle_and_ends(found, 2)) for how, found in times.items()]
    figures = {"acknowledged": len(load.acknowledged), **load.counts}
    report = Report(
        title="Failovers of masters", machine=machine,
        tables=[
            Table("Seconds until another leader has acknowledged an operation", ("the leader", "times", "seconds"), rows),
            Table("Operations", tuple(figures), [tuple(f"{count:,}" for count in figures.values())]),
        ],
        plain={"seconds": {how: median(found) for how, found in times.items() if found}, **figures},
        verdict="no admitted agent is lost, no removed one is back, all in the order of the answers", problems=problems,
    )  # fmt: skip
    report.publish(form)


if __name__ == "__main__":
    main()
