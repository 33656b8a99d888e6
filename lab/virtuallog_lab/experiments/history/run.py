"""One run of `history.py`: its steps, one after the other."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from virtuallog.client.virtual_log import VirtualLog
from virtuallog.connect import connect
from virtuallog.contract.errors import InvalidSettingError, UnavailableError
from virtuallog.contract.types import NodeId
from virtuallog_database.control.client import place_hold
from virtuallog_database.control.wire import DATABASE
from virtuallog_lab.experiments.churn.churn import NODES, open_database_cluster
from virtuallog_lab.experiments.churn.client import CLOCK, connected, make_znodes, path_of
from virtuallog_lab.experiments.churn.load import PATIENCE_SECONDS, ChurnLoad
from virtuallog_lab.experiments.history.pausable_program import PausableProgram, pausable
from virtuallog_lab.harness.report import tell
from virtuallog_server.history.past_database import LIMIT_MAX
from virtuallog_server.local_cluster.supervisor import LocalCluster, open_local_cluster
from virtuallog_simulation.workload.database.requests import GetData

BUILD, ASK, SERVE = STEPS = ("build", "ask", "serve")
LOADS: Final[Mapping[str, int]] = {"saturated": 192, "light": NODES}
"""Loads, and their writes under way, on all connections."""
QUIET, COMPUTING = "quiet", "computing"
STATES: Final[Mapping[str, float]] = {QUIET: 0, COMPUTING: 0, "diff at 16 MB/s": 16, "diff at 2 MB/s": 2}
"""States of a part of a round, and the rate of the question that is under way. While `computing`, another program of the same priority takes
the processor, and nothing from the cluster."""
COMPUTATION: Final = """
from virtuallog.runtime.process_priority import give_way
give_way("idle")
while True:
    pairs = {str(number): bytes(100) for number in range(10_000)}
    sorted(pairs)
"""
CONFIG: Final = "snapshot_log_bytes = 33554432\nsnapshot_seconds = 86400.0\nsnapshots_kept = 64"
MARKS: Final = (0.0, 0.5, 0.9, 0.99, 0.999, 1.0)
"""Shares of the writes behind which the position is noted."""
SAMPLES: Final = 5
"""Znodes whose values are noted at each mark."""
SETTLE_SECONDS: Final = 0.3
"""Seconds between the moment when a question goes on and the measurement."""
QUESTION_SECONDS: Final = 240.0
"""Longest question."""
WRITES_ENOUGH: Final = 1 << 40
"""Writes that no slice comes to the end of."""


@attrs.frozen(kw_only=True)
class HistoryPlan:
    """The options."""

    writes: int
    keys: int
    size: int
    rounds: int
    seconds: float
    steps: Sequence[str]
    loads: Sequence[str]


@attrs.frozen(kw_only=True)
class Mark:
    """A place in the writes."""

    share: float
    position: int
    values: Mapping[str, tuple[str, int]]
    """Values in hexadecimal digits, and versions, by path."""


@attrs.frozen(kw_only=True)
class TimedQuestion:
    """One question."""

    what: str
    entries: int
    """Entries of the log between its positions."""
    writes: int
    """Writes in them, about."""
    rows: int
    seconds: float


@attrs.frozen(kw_only=True)
class WriteRate:
    """Writes in one part of a round."""

    load: str
    state: str
    per_second: float
    cpu: float
    """Processors that the program beside has taken."""


@attrs.frozen(kw_only=True)
class HistoryFindings:
    """Findings of a run."""

    build_seconds: float
    positions: int
    questions: Sequence[TimedQuestion]
    rates: Sequence[WriteRate]
    problems: Sequence[str]

    def plain(self) -> dict[str, Any]:
        return attrs.asdict(self)


@attrs.define(eq=False)
class HistoryExperiment:
    """The experiment of `history.py`."""

    plan: HistoryPlan
    folder: Path
    _marks: list[Mark] = attrs.field(factory=list, init=False)
    _problems: list[str] = attrs.field(factory=list, init=False)
    _build_seconds: float = attrs.field(default=0.0, init=False)

    async def run(self) -> HistoryFindings:
        """Run the steps of the plan.

        Raises:
            InvalidSettingError: a step needs the cluster that an earlier one leaves.
            VirtualLogError: something could not be done.
        """
        steps, questions, rates = self.plan.steps, list[TimedQuestion](), list[WriteRate]()
        async with self._cluster() as (cluster, addresses):
            if BUILD in steps:
                async with connect(cluster.file, more=[DATABASE]) as log:
                    await self._build(log, addresses)
                self._notes.write_text(json.dumps({
                    "addresses": {int(node): address for node, address in addresses.items()},
                    "seconds": self._build_seconds, "marks": [attrs.asdict(mark) for mark in self._marks],
                }))  # fmt: skip
            if ASK in steps:
                questions = await self._ask_all(cluster)
            if SERVE in steps:
                rates = [rate for load in self.plan.loads for rate in await self._serve(cluster, addresses, load)]
        return HistoryFindings(
            build_seconds=self._build_seconds, positions=self._marks[-1].position, questions=questions, rates=rates,
            problems=self._problems,
        )  # fmt: skip

    @property
    def _notes(self) -> Path:
        return self.folder / "notes.json"

    @asynccontextmanager
    async def _cluster(self) -> AsyncIterator[tuple[LocalCluster, Mapping[NodeId, str]]]:
        """A new cluster, or the one that was left in the folder."""
        if BUILD in self.plan.steps:
            async with open_database_cluster("native", CONFIG, self.folder / "cluster") as (cluster, addresses):
                cluster.write_file()
                yield cluster, addresses
            return
        if not self._notes.exists():
            raise InvalidSettingError("only", f"there is no cluster in {self.folder}: begin with `--only {BUILD}`")
        notes = json.loads(self._notes.read_text())
        self._build_seconds = notes["seconds"]
        self._marks = [Mark(**mark) for mark in notes["marks"]]
        async with open_local_cluster(self.folder / "cluster", NODES) as cluster:
            await cluster.wait_ready()
            cluster.write_file()
            yield cluster, {NodeId(int(node)): address for node, address in notes["addresses"].items()}

    # -- build --------------------------------------------------------------------------------------------------------

    async def _build(self, log: VirtualLog, addresses: Mapping[NodeId, str]) -> None:
        plan, began = self.plan, CLOCK.monotonic()
        await place_hold(log, "experiment", await log.find_trim_point())
        async with connected(addresses[NodeId(1)], PATIENCE_SECONDS) as client:
            await make_znodes(client, plan.keys)
        load = ChurnLoad(addresses, plan.keys, plan.size, LOADS["saturated"])
        for share in MARKS:
            await load.write(int(share * plan.writes) - load.done)
            self._marks.append(await self._mark(share, log, addresses[NodeId(1)]))
        self._build_seconds = CLOCK.monotonic() - began
        tell(f"{load.done:,} writes in {self._build_seconds:.0f} s")

    async def _mark(self, share: float, log: VirtualLog, address: str) -> Mark:
        chance = random.Random(share)
        paths = [path_of(chance.randrange(self.plan.keys)) for _ in range(SAMPLES)]
        async with connected(address, PATIENCE_SECONDS) as client:
            answers = await client.ask([GetData(path=path, watch=False) for path in paths])
        values = {
            path: (answer.value[0].hex(), answer.value[1].version) for path, answer in zip(paths, answers, strict=True)
        }
        return Mark(share=share, position=(await log.check_tail()).tail, values=values)

    # -- ask ----------------------------------------------------------------------------------------------------------

    async def _ask_all(self, cluster: LocalCluster) -> list[TimedQuestion]:
        first, half, _, _, _, last = self._marks
        found = [
            await self._time(cluster, f"get at {mark.share:.1%} of the writes", "get", self._sample(mark), mark, mark)
            for mark in (last, half, first)
        ]
        found += [
            await self._time(cluster, f"diff over the last {1 - mark.share:.1%} of the writes", "diff", "/", mark, last)
            for mark in reversed(self._marks[:-1])
        ]
        most = ("--limit", str(LIMIT_MAX))
        found.append(await self._time(cluster, "all rows of a diff over all writes", "diff", "/", first, last, *most))
        path = self._sample(last)
        found.append(await self._time(cluster, "history of one znode, over all writes", "history", path, first, last))
        found.append(
            await self._time(cluster, "its last change alone", "history", path, first, last, "--last", "--limit", "1")
        )
        return found

    @staticmethod
    def _sample(mark: Mark) -> str:
        return next(iter(mark.values))

    async def _time(
        self, cluster: LocalCluster, what: str, command: str, path: str, start: Mark, stop: Mark, *more: str
    ) -> TimedQuestion:
        """Ask, compare the answer with what was noted, and time it, the start of the process included."""
        places = (
            ["--at", str(stop.position)]
            if start is stop
            else ["--from", str(start.position), "--to", str(stop.position)]
        )
        began = CLOCK.monotonic()
        answer = await _asked(_command(cluster, command, path, *places, *more))
        seconds = CLOCK.monotonic() - began
        rows = self._check(answer, command, path, start, stop)
        tell(f"{what}: {seconds:.1f} s")
        return TimedQuestion(
            what=what, entries=stop.position - start.position, rows=rows, seconds=seconds,
            writes=round((stop.share - start.share) * self.plan.writes),
        )  # fmt: skip

    def _check(self, answer: Mapping[str, Any], command: str, path: str, start: Mark, stop: Mark) -> int:
        """Rows of the answer; notes what is wrong with it."""
        if command == "get":
            if (_hex(answer), answer["stat"]["version"]) != tuple(stop.values[path]):
                self._problems.append(f"{path} at {stop.position} is {answer}, and was {stop.values[path]}")
            return 1
        if command == "history":
            version = answer["changes"][-1]["state"]["version"]
            if version != stop.values[path][1]:
                self._problems.append(f"the history of {path} ends with version {version}, not {stop.values[path][1]}")
            return len(answer["changes"])
        for each in answer["differences"]:
            noted = stop.values.get(each["path"])
            if noted is not None and (_hex(each["after"]), each["after"]["version"]) != tuple(noted):
                self._problems.append(f"{each['path']} differs from what it was at {stop.position}")
        wanted = min(self.plan.keys, round((stop.share - start.share) * self.plan.writes))
        has_all = answer["more_after"] is None
        if has_all and not 0.9 * wanted <= len(answer["differences"]) <= 1.1 * wanted + LOADS["saturated"]:
            self._problems.append(f"{len(answer['differences'])} differences, where about {wanted} znodes were written")
        return len(answer["differences"])

    # -- serve --------------------------------------------------------------------------------------------------------

    async def _serve(self, cluster: LocalCluster, addresses: Mapping[NodeId, str], load: str) -> list[WriteRate]:
        """Rates of writes: in each round one for each state, in an order drawn anew."""
        plan, chance, rates = self.plan, random.Random(load), list[WriteRate]()
        writers = ChurnLoad(addresses, plan.keys, plan.size, LOADS[load])
        async with AsyncExitStack() as stack:
            beside = {
                state: await stack.enter_async_context(pausable(self._beside(cluster, state))) for state in STATES
            }
            async with trio.open_nursery() as nursery:
                nursery.start_soon(writers.write, WRITES_ENOUGH)
                for number in range(plan.rounds):
                    for state in chance.sample(list(STATES), len(STATES)):
                        rates.append(await self._rate(writers, beside[state], load, state))
                    tell(f"{load}, round {number + 1} of {plan.rounds}")
                nursery.cancel_scope.cancel()
        return rates

    def _beside(self, cluster: LocalCluster, state: str) -> list[str]:
        """Command of the program that runs in a state. Empty for none."""
        if state == QUIET:
            return []
        if state == COMPUTING:
            return [sys.executable, "-P", "-c", COMPUTATION]
        places = ("--from", str(self._marks[0].position), "--to", str(self._marks[-1].position))
        return _command(cluster, "diff", "/", *places, "--rate", str(STATES[state]))

    async def _rate(self, writers: ChurnLoad, beside: PausableProgram, load: str, state: str) -> WriteRate:
        async with beside.running():
            await CLOCK.sleep(SETTLE_SECONDS)
            began, done, meter = CLOCK.monotonic(), writers.done, beside.meter()
            await CLOCK.sleep(self.plan.seconds)
            seconds, cpu = CLOCK.monotonic() - began, meter.seconds()
            return WriteRate(
                load=load, state=state, per_second=(writers.done - done) / seconds, cpu=sum(cpu.values()) / seconds
            )


def _command(cluster: LocalCluster, command: str, path: str, *options: str) -> list[str]:
    words = ["database", command, path, *options, "--json", "--cluster", str(cluster.file_path)]
    return [sys.executable, "-P", "-m", "virtuallog_server", *words]


async def _asked(command: Sequence[str]) -> Mapping[str, Any]:
    with CLOCK.timeout(QUESTION_SECONDS):
        done = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
        if done.returncode:
            raise UnavailableError(f"{' '.join(command)}: {done.stderr.decode()}")
        answer: Mapping[str, Any] = json.loads(done.stdout)
        return answer
    raise UnavailableError(f"{' '.join(command)}: no answer in {QUESTION_SECONDS:.0f} s")


def _hex(answer: Mapping[str, Any]) -> str:
    """The value in an answer, in hexadecimal digits."""
    if "data_base64" in answer:
        import base64

        return base64.b64decode(answer["data_base64"]).hex()
    return str(answer["data"]).encode().hex()
