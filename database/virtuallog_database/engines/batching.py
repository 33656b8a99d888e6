"""Group commit: commands that wait together become one log entry, applied in one transaction
(SOSP'21, section 4).

    propose ... propose          commands of clients
          |
        waiting --> group --> below          several groups are in flight

In Python the cost per call dominates. All commands of a group share the cost of one entry in
engines, log and disk. A lone command leaves at once. Commands that are proposed in one scheduler
turn leave together at its end.

Header: the end of each command in the payload, u32, little-endian. An entry without it is passed up
unchanged. If a command raises a deterministic error, only its own effects are rolled back. Its
proposer gets the error; the other commands go on.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import attrs
import trio

from virtuallog.contract.batch import cut, pack_ends
from virtuallog.contract.errors import InvalidSettingError, MalformedError, TooLargeError, VirtualLogError
from virtuallog.contract.metrics import COUNTS, Histogram, MetricFamily
from virtuallog.contract.ports import Done, Outcome
from virtuallog.contract.types import LogPosition
from virtuallog.exactly_once.append_session import IN_FLIGHT_RATIO_MAX
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.layers.contract import FailedApply
from virtuallog_database.engines.layers.layer import NONDETERMINISTIC, Layer
from virtuallog_database.transaction import StoreTransaction

NAME: Final = "batching"


@attrs.frozen(kw_only=True)
class BatchingSettings:
    """Limits of groups.

    Raises:
        InvalidSettingError: when made, if a group would be larger than a log entry may be.
    """

    command_bytes_max: int = 3 << 20
    """Largest command. The log takes entries of 4 MiB, headers included; ZooKeeper's own limit is 1
    MiB."""
    group_bytes: int = 256 << 10
    """Bytes of a group. Waiting commands are added until they would exceed it; one larger command
    is allowed."""
    group_commands: int = 1024
    """Commands in a group, where one of many operations counts as many. All other tasks wait while
    a group is applied, some 10 ms then."""
    window: int = 8
    """Groups in flight. More helps over long distances, fewer keeps groups larger."""

    def __attrs_post_init__(self) -> None:
        if self.command_bytes_max + self.group_bytes + 4 * self.group_commands > (4 << 20) - 4096:
            raise InvalidSettingError("command_bytes_max", "a group must fit in a log entry of 4 MiB")


@attrs.frozen
class AppliedGroup:
    """Result of `apply` for the entry of a group."""

    commands: Sequence[Entry]
    results: Sequence[Any]


@attrs.define(eq=False)
class BatchingEngine(Layer):
    """Combines commands into groups. The proposer must limit commands in flight."""

    name: ClassVar[str] = NAME

    settings: BatchingSettings
    _commands: list[bytes] = attrs.field(factory=list, init=False)
    _dones: list[Done] = attrs.field(factory=list, init=False)
    _weights: list[int] = attrs.field(factory=list, init=False)
    """Number of operations of each waiting command."""
    _bytes: int = attrs.field(default=0, init=False)
    """Bytes of the waiting commands."""
    _operations: int = attrs.field(default=0, init=False)
    """Operations of the waiting commands."""
    _groups: int = attrs.field(default=0, init=False)
    """Groups in flight."""
    _commands_in_flight: int = attrs.field(default=0, init=False)
    """Commands in the groups in flight."""
    _was_alone: bool = attrs.field(default=True, init=False)
    """True if the last group had one command."""
    _work: trio.Event = attrs.field(factory=trio.Event, init=False)
    _sizes: Histogram = attrs.field(
        factory=lambda: Histogram("virtuallog_database_group_commands", "Commands in a group.", COUNTS), init=False
    )

    # -- proposing ------------------------------------------------------------------------------------------------

    def propose(self, entry: Entry, done: Done) -> None:
        size = len(entry.payload)
        if size > self.settings.command_bytes_max:
            done(TooLargeError(what="bytes in a command", size=size, limit=self.settings.command_bytes_max))
            return
        if self.stopped is not None:
            done(self.stopped)
            return
        if entry.headers:  # from an engine above: it keeps its place in the order, and its headers
            self._cut_all()
            self.below.propose(entry, done)
            return
        self._commands.append(entry.payload)
        self._dones.append(done)
        self._weights.append(entry.operations)
        self._bytes += size
        self._operations += entry.operations
        if self._was_alone and not self._groups:
            # As in the appender: a command that is alone, as the one before it, need not wait for
            # others until the end of the turn.
            self._cut()
        else:
            self._work.set()

    async def run(self) -> None:
        """Cut a group at the end of each turn in which commands arrived or groups completed."""
        while True:
            await self._work.wait()
            self._work = trio.Event()
            while self._commands and self._has_room:
                self._cut()

    @property
    def _has_room(self) -> bool:
        """True if a group should leave now. While many groups are in flight, a few commands wait
        for more."""
        waiting = len(self._commands)
        return not self._groups or (
            self._groups < self.settings.window and waiting * IN_FLIGHT_RATIO_MAX >= self._commands_in_flight
        )

    def _cut_all(self) -> None:
        while self._commands:
            self._cut()

    def _cut(self) -> None:
        commands, dones = self._take()
        count = len(commands)
        self._was_alone = count == 1
        self._groups += 1
        self._commands_in_flight += count
        self._sizes.observe(count)
        entry = Entry(b"".join(commands), {self.name: pack_ends(commands)})

        def done(outcome: Outcome[Any]) -> None:
            self._groups -= 1
            self._commands_in_flight -= count
            _tell(dones, outcome)
            if self._commands:
                self._work.set()

        self.below.propose(entry, done)

    def _take(self) -> tuple[list[bytes], list[Done]]:
        """Commands of the next group, and their callbacks."""
        count = len(self._commands)
        if self._bytes > self.settings.group_bytes or self._operations > self.settings.group_commands:
            count = self._fitting()
        commands, self._commands = self._commands[:count], self._commands[count:]
        dones, self._dones = self._dones[:count], self._dones[count:]
        weights, self._weights = self._weights[:count], self._weights[count:]
        self._bytes -= sum(map(len, commands))
        self._operations -= sum(weights)
        return commands, dones

    def _fitting(self) -> int:
        """Number of waiting commands that fit in a group: at least one."""
        size = operations = 0
        settings = self.settings
        for count, (command, weight) in enumerate(zip(self._commands, self._weights, strict=True)):
            size += len(command)
            operations += weight
            if count and (size > settings.group_bytes or operations > settings.group_commands):
                return count
        return len(self._commands)

    def stop(self, error: VirtualLogError) -> None:
        self.stopped = error
        dones, self._dones, self._commands, self._weights = self._dones, [], [], []
        self._bytes = self._operations = 0
        _tell(dones, error)

    # -- applying -------------------------------------------------------------------------------------------------

    def apply(self, transaction: StoreTransaction, entry: Entry, position: LogPosition) -> Any:
        header = entry.headers.get(self.name)
        if header is None:
            return self.apply_above(transaction, entry, position)
        commands = [Entry(command) for command in _cut_untrusted(header, entry.payload)]
        return AppliedGroup(commands, self._apply_group(transaction, commands, position))

    def _apply_group(
        self, transaction: StoreTransaction, commands: Sequence[Entry], position: LogPosition
    ) -> list[Any]:
        """Apply the commands with one savepoint for all. If one raises a deterministic error, which
        is rare, roll back all, and apply them again with a savepoint each."""
        apply, savepoint = self.above.apply, transaction.savepoint()
        try:
            results = [apply(transaction, command, position) for command in commands]
        except NONDETERMINISTIC:
            raise
        except Exception:
            transaction.rollback(savepoint)
            return self._apply_each(transaction, commands, position)
        transaction.release(savepoint)
        return results

    def _apply_each(self, transaction: StoreTransaction, commands: Sequence[Entry], position: LogPosition) -> list[Any]:
        results, savepoint = [], transaction.next_savepoint
        for command in commands:
            results.append(self.apply_above(transaction, command, position))
            transaction.release(savepoint)  # an applied command is rolled back with its group, or not at all
        return results

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        if not isinstance(result, AppliedGroup):
            self.post_apply_above(entry, position, result)
            return
        for command, outcome in zip(result.commands, result.results, strict=True):
            self.post_apply_above(command, position, outcome)

    def metrics(self) -> list[MetricFamily]:
        return [self._sizes.family()]


def _tell(dones: Sequence[Done], outcome: Outcome[Any]) -> None:
    if isinstance(outcome, AppliedGroup):
        for done, result in zip(dones, outcome.results, strict=True):
            done(result.error if isinstance(result, FailedApply) else result)
    else:  # the same for all of them
        for done in dones:
            done(outcome)


def commands_of_untrusted(entry: Entry) -> list[bytes]:
    """The application's commands in an entry: those of a group, the single one, or none.

    Raises:
        MalformedError: the commands of a group do not add up.
    """
    header = entry.headers.get(NAME)
    if header is not None:
        return _cut_untrusted(header, entry.payload)
    return [entry.payload] if entry.payload else []


def _cut_untrusted(header: bytes, payload: bytes) -> list[bytes]:
    """Commands of a group.

    Raises:
        MalformedError: they do not add up to the payload.
    """
    if len(header) % 4:
        raise MalformedError("the header of a group is not well formed")
    ends = struct.unpack(f"<{len(header) // 4}I", header)
    if list(ends) != sorted(ends) or (ends[-1] if ends else 0) != len(payload):
        raise MalformedError("the commands of a group do not add up to its payload")
    return cut(payload, 0, ends)
