"""An engine on top of the stack that reports what its replica applies: the order by which all
database checks judge.

It changes nothing. The first replica that applies a command puts it into the history; all others
must apply the same there, with the same result. Earlier reports also count where a store has fallen
back in a crash, and plays again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.types import LogPosition
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Violation
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.engines.layers.contract import FailedApply
from virtuallog_database.engines.layers.layer import Layer, LayerContext
from virtuallog_database.engines.stack import StackSettings, database_recipe
from virtuallog_database.engines.time_engine import TimeEngine
from virtuallog_database.state.core import variable_commands
from virtuallog_database.state.core.variable_commands import Stage, Update, is_variable_command
from virtuallog_database.state.core.variables import UpdateResult
from virtuallog_database.table.core import commands as table_commands
from virtuallog_database.table.core.commands import Commit, is_table_command
from virtuallog_database.table.core.execution import CommitResult
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import command_codec
from virtuallog_database.tree.results import Result
from virtuallog_simulation.checks.database.replay import Committed
from virtuallog_simulation.checks.database.strong_reads import Fired
from virtuallog_simulation.workload.database.embedded_client import TIMER


@attrs.frozen
class AppliedUpdate:
    """A command on a variable, as the first replica has applied it."""

    place: tuple[LogPosition, int]
    command: Update | Stage
    result: UpdateResult | VirtualLogError


@attrs.frozen
class AppliedCommit:
    """A command of tables, as the first replica has applied it."""

    place: tuple[LogPosition, int]
    command: Commit
    result: CommitResult | VirtualLogError


@attrs.define(eq=False)
class Witness:
    """Commands applied by all replicas of a run."""

    history: History
    violations: list[Violation]
    compared: int = attrs.field(default=0, init=False)
    """Applications of a command that another replica, or a former life, had applied before."""
    updates: list[AppliedUpdate] = attrs.field(factory=list, init=False)
    """Commands on variables, in the order in which they were first seen."""
    commits: list[AppliedCommit] = attrs.field(factory=list, init=False)
    """Commands of tables, in the order in which they were first seen."""
    _known: dict[tuple[int, int], tuple[bytes, Any]] = attrs.field(factory=dict, init=False)
    _fired: dict[str, LogPosition] = attrs.field(factory=dict, init=False)

    def recipe(self, context: LayerContext, settings: StackSettings) -> Sequence[Layer]:
        """The database stack, and above it a layer that reports to this witness. See
        `ReplicaSettings`."""
        layers = database_recipe(context, settings)
        for layer in layers:
            if isinstance(layer, TimeEngine):
                layer.on_fired[TIMER] = self.fired
        return [WitnessLayer(context, witness=self), *layers]

    def fired(self, transaction: StoreTransaction, timer: str, position: LogPosition) -> None:
        """Called on a replica, in `apply`, when a timer fires."""
        known = self._fired.setdefault(timer, position)
        if known is position:
            self.history.observed("timers", Fired(timer), None)
        elif known != position:
            message = f"{timer} has fired at {position}, and elsewhere at {known}"
            self.violations.append(Violation("timers fire", message))

    def applied(self, who: str, position: LogPosition, index: int, payload: bytes, result: Any) -> None:
        if is_variable_command(payload) or is_table_command(payload):
            self._applied_beside_tree(who, (position, index), payload, result)
            return
        if not isinstance(result, Result):
            self.violations.append(Violation("no unexpected error", f"{who} failed to apply {payload!r}: {result}"))
            return
        told = payload, (result.zxid, result.error, result.changes, result.ended)
        known = self._known.setdefault((position, index), told)
        if known is told:
            action = Committed(result.zxid, position, index, command_codec.parse_untrusted(payload), result.error)
            self.history.observed(who, action, None)
            return
        self.compared += 1
        if known != told:
            message = f"{who} applied {told} at ({position}, {index}), where {known} was applied before"
            self.violations.append(Violation("replicas apply the same", message))

    def _applied_beside_tree(self, who: str, place: tuple[LogPosition, int], payload: bytes, result: Any) -> None:
        """Take a command on a variable or of tables. It may be refused by an error: these may not be enabled yet."""
        heard = payload, result if isinstance(result, UpdateResult | CommitResult) else str(result)
        known = self._known.setdefault(place, heard)
        if known is heard:
            if is_table_command(payload):
                self.commits.append(AppliedCommit(place, table_commands.parse_untrusted(payload), result))
            else:
                self.updates.append(AppliedUpdate(place, variable_commands.parse_untrusted(payload), result))
        elif known != heard:
            message = f"{who} applied {heard} at {place}, where {known} was applied before"
            self.violations.append(Violation("replicas apply the same", message))


@attrs.define(eq=False)
class WitnessLayer(Layer):
    """Layer that reports to the witness."""

    name: ClassVar[str] = "witness"

    witness: Witness = attrs.field(kw_only=True)
    _position: LogPosition = attrs.field(default=LogPosition(-1), init=False)
    _index: int = attrs.field(default=0, init=False)

    def post_apply(self, entry: Entry, position: LogPosition, result: Any) -> None:
        self._index = self._index + 1 if position == self._position else 0
        self._position = position
        told = result.error if isinstance(result, FailedApply) else result
        self.witness.applied(self.context.identity.name, position, self._index, entry.payload, told)
        self.post_apply_above(entry, position, result)
