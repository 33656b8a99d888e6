"""Nodes: roles, readiness, failures, versions, replicas of the database, clocks and disks.

Each node of the register gets three questions at the same time, and the view is made after `ANSWER_SECONDS` at the latest. A node that does
not answer is a row with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import attrs
import trio

from virtuallog.admin.cluster_status import ANSWER_SECONDS, call_each, fetch_statuses
from virtuallog.admin.control import GetCondition, NodeCondition, NodeStatus
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import MalformedError, UnavailableError, UnsupportedError, VirtualLogError
from virtuallog.contract.ports import Environment, Outcome
from virtuallog.contract.register import NodeEntry, Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog_database.control.messages import DatabaseStatus, GetDatabaseStatus

REGISTER_SECONDS: Final = 5.0
"""Time to learn the register for the first time."""


@attrs.frozen(kw_only=True)
class ReplicaRow:
    """A replica of the database."""

    state: str
    """`serving`, `catching up`, `restoring`, `opening`, or `refused`."""
    waiting_for: str = ""
    lag: int = 0
    """Positions that it has not applied, up to the highest tail that some replica knows."""
    cursor: int = 0
    zxid: int = 0
    snapshot: int = 0
    """Position of its newest durable snapshot; 0 if there is none."""
    clients: int = 0
    problem: str = ""


@attrs.frozen(kw_only=True)
class ClockRow:
    """Wall clock of a node, against that of the console."""

    ahead_ms: float
    """Below 0 if it is behind."""
    error_ms: float
    """Half of the round trip: the difference may be as much more or less."""

    @property
    def is_certain(self) -> bool:
        """True if the clocks differ by more than the error."""
        return abs(self.ahead_ms) > self.error_ms


@attrs.frozen(kw_only=True)
class DiskRow:
    """Disk of a data directory."""

    free_bytes: int
    size_bytes: int


@attrs.frozen(kw_only=True)
class NodeRow:
    """One node."""

    node: int
    state: str
    """`ready`, `not ready`, `failing`, `silent`, `expected`, or `other directory`: it is not the one that the register names."""
    addresses: tuple[str, ...] = ()
    listed_roles: tuple[str, ...] = ()
    """Roles in the register; empty if the node is drained."""
    roles: tuple[str, ...] = ()
    """Roles that it serves."""
    boot: int = 0
    """Number of this start of its process."""
    software: str = ""
    protocol: int = 0
    """Newest version of the protocol that it speaks."""
    version: int = 0
    """Version of the register that it knows."""
    store_id: str = ""
    not_ready: tuple[str, ...] = ()
    """Reasons why it does not serve yet."""
    failures: tuple[str, ...] = ()
    """Roles that it refuses to serve, with the reasons."""
    healing: tuple[str, ...] = ()
    """Failures of others as it sees them, and its reaction."""
    replica: ReplicaRow | None = None
    """None if it is no server of the database."""
    clock: ClockRow | None = None
    """None if it is not known."""
    disk: DiskRow | None = None
    """None if it is not known."""
    problem: str = ""
    """Reason why there is no answer, or not all of it. Empty if there is."""


@attrs.frozen(kw_only=True)
class NodesView:
    """All nodes of the register."""

    version: int = 0
    level: int = 0
    """Version of the protocol that all have announced."""
    nodes: tuple[NodeRow, ...] = ()
    problem: str = ""


@attrs.frozen
class Answers:
    """Answers of all nodes."""

    statuses: Mapping[NodeId, Outcome[NodeStatus]]
    replicas: Mapping[NodeId, Outcome[DatabaseStatus]]
    conditions: Mapping[NodeId, TimedCondition]


@attrs.frozen
class TimedCondition:
    """Condition of a node, and the times of question and answer on the console's clocks."""

    answer: Outcome[NodeCondition]
    asked_wall: float = 0.0
    """Wall clock of the console when it asked, in seconds."""
    round_trip: float = 0.0
    """Seconds from the question to the answer."""

    @property
    def clock(self) -> ClockRow | None:
        if isinstance(self.answer, VirtualLogError):
            return None
        middle_ms = (self.asked_wall + self.round_trip / 2) * 1000
        ahead_ms, error_ms = self.answer.wall_ms - middle_ms, self.round_trip * 500 + 0.5  # it is rounded to 1 ms
        return ClockRow(ahead_ms=round(ahead_ms, 1), error_ms=round(error_ms, 1))


async def read_nodes(log: VirtualLog) -> NodesView:
    """Ask all nodes of the newest register that this client knows."""
    try:
        register = await _register(log)
    except VirtualLogError as error:
        return NodesView(problem=str(error))
    return describe_nodes(register, await ask_all(log.view.environment, sorted(register.nodes)))


async def _register(log: VirtualLog) -> Register:
    with log.view.environment.clock.timeout(REGISTER_SECONDS):
        return await log.view.current()
    raise UnavailableError(f"the register was not read within {REGISTER_SECONDS:g} s")


async def ask_all(environment: Environment, nodes: Iterable[NodeId]) -> Answers:
    """Put all questions to these nodes at once. Takes `ANSWER_SECONDS` at most."""
    asked, services = [*nodes], environment.services
    statuses: dict[NodeId, Outcome[NodeStatus]] = {}
    replicas: dict[NodeId, Outcome[DatabaseStatus]] = {}
    conditions: dict[NodeId, TimedCondition] = {}

    async def ask_statuses() -> None:
        statuses.update(await fetch_statuses(services, asked))

    async def ask_replicas() -> None:
        replicas.update(await call_each(services, asked, GetDatabaseStatus()))

    async def ask_conditions() -> None:
        conditions.update(await _ask_conditions(environment, asked))

    async with trio.open_nursery() as nursery:
        for question in (ask_statuses, ask_replicas, ask_conditions):
            nursery.start_soon(question)
    return Answers(statuses, replicas, conditions)


async def _ask_conditions(environment: Environment, nodes: list[NodeId]) -> dict[NodeId, TimedCondition]:
    clock, found, finished = environment.clock, dict[NodeId, TimedCondition](), trio.Event()

    def note(node: NodeId, wall: float, began: float, outcome: Outcome[NodeCondition]) -> None:
        found[node] = TimedCondition(outcome, wall, clock.monotonic() - began)
        if len(found) == len(nodes):
            finished.set()

    for node in nodes:
        done: Callable[[Outcome[NodeCondition]], None] = partial(note, node, clock.wall(), clock.monotonic())
        environment.services.post(node, GetCondition(), done, ANSWER_SECONDS)
    if nodes:
        await finished.wait()
    return found


def describe_nodes(register: Register, answers: Answers) -> NodesView:
    """The view of these answers."""
    tail = max(
        (each.known_tail for each in answers.replicas.values() if not isinstance(each, VirtualLogError)), default=0
    )
    return NodesView(
        version=register.version,
        level=register.level,
        nodes=tuple(_row(node, entry, answers, tail) for node, entry in sorted(register.nodes.items())),
    )


def _row(node: NodeId, entry: NodeEntry, answers: Answers, tail: int) -> NodeRow:
    status = answers.statuses.get(node, UnavailableError("it was not asked"))
    row = NodeRow(
        node=node,
        state="expected" if entry.is_expected else "silent",
        addresses=entry.addresses,
        listed_roles=tuple(sorted(entry.roles)),
        replica=_replica(answers.replicas.get(node), tail),
    )
    if isinstance(status, VirtualLogError):
        return attrs.evolve(row, problem="" if entry.is_expected else str(status))
    timed = answers.conditions.get(node, TimedCondition(UnavailableError("it was not asked")))
    condition = timed.answer
    problems: list[str] = []
    not_ready: tuple[str, ...] = ()
    disk = None
    if isinstance(condition, VirtualLogError):
        problems.append(f"clock and disk: {_words(condition)}")
    else:
        not_ready = condition.not_ready
        disk = DiskRow(free_bytes=condition.free_bytes, size_bytes=condition.size_bytes)
    is_other = not entry.is_expected and status.store_id != entry.store_id
    if is_other:
        problems.append("it has another data directory than the register names")
    version, unreadable = _version(status)
    return attrs.evolve(
        row,
        state=_state(status, not_ready, is_expected=entry.is_expected, is_other=is_other),
        roles=status.roles,
        boot=status.boot,
        software=status.software,
        protocol=status.protocol,
        version=version,
        store_id=status.store_id.hex(),
        not_ready=not_ready,
        failures=status.failures,
        healing=status.healing,
        clock=timed.clock,
        disk=disk if disk is not None and disk.size_bytes else None,
        problem="; ".join([*problems, *unreadable]),
    )


def _state(status: NodeStatus, not_ready: tuple[str, ...], *, is_expected: bool, is_other: bool) -> str:
    if is_expected:
        return "expected"
    if is_other:
        return "other directory"
    if status.failures:
        return "failing"
    return "not ready" if not_ready else "ready"


def _version(status: NodeStatus) -> tuple[int, list[str]]:
    """Version of the register in a status, and the reason why it cannot be read, if so."""
    try:
        return (decode_untrusted(status.register).version if status.register else 0), []
    except MalformedError as error:
        return 0, [str(error)]


def _replica(answer: Outcome[DatabaseStatus] | None, tail: int) -> ReplicaRow | None:
    match answer:
        case None | UnsupportedError() | UnavailableError():  # no server, or silent: the row of the node says so
            return None
        case VirtualLogError():
            return ReplicaRow(state="refused", problem=str(answer))
    return ReplicaRow(
        state=answer.state,
        waiting_for=answer.waiting_for,
        lag=max(0, tail - answer.cursor),
        cursor=answer.cursor,
        zxid=answer.zxid,
        snapshot=answer.snapshot,
        clients=answer.clients,
    )


def _words(error: VirtualLogError) -> str:
    return "a node of this version does not say" if isinstance(error, UnsupportedError) else str(error)
