"""Bugs in what bounds the work of a command: a planted one costs more than what was asked, and answers the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.contract.errors import MalformedError
from virtuallog.contract.types import LogPosition
from virtuallog_database.engines.batching import BatchingEngine
from virtuallog_database.engines.core.entry import Entry
from virtuallog_database.transaction import StoreTransaction
from virtuallog_database.tree import bounds, keys, quotas
from virtuallog_database.tree.commands import Acl
from virtuallog_database.tree.execution import Execution, find_acl
from virtuallog_database.tree.records import SeparateRecord, Znode
from virtuallog_database.tree.tree import Tree
from virtuallog_database.tree.watches import Watcher, WatchMode, WatchTable
from virtuallog_simulation.checks.database.command_cost import CHECK
from virtuallog_simulation.scenarios.database.command_cost import COUNTED, GROUPED, REFUSED

WORK: Final = [CHECK]

finished_as_it_should = Execution.finish
took_back_as_it_should = Execution.take_back
looked_up_as_it_should = Tree._znode


@mutant(Execution.finish, scenario="burden", found_by=WORK, published="audit of 69fede5, 1")
def a_parent_is_written_with_its_data(self: Execution) -> None:
    """Data stored apart is read and put again whenever the record of its znode is."""
    for path, znode in self._znodes.items():
        if znode is not None and isinstance(znode.data, SeparateRecord):
            znode.data = self.data(path, znode)
    finished_as_it_should(self)


@mutant(Execution.finish, scenario="burden", found_by=WORK, published="audit of 69fede5, 1")
def a_parent_is_written_with_its_rights(self: Execution) -> None:
    """A long ACL is encoded again whenever the record of its znode is put."""
    for path, znode in self._znodes.items():
        if znode is not None and isinstance(znode.acl, SeparateRecord):
            znode.acl = find_acl(self.transaction, path, znode)
    finished_as_it_should(self)


@mutant(Execution.put, scenario="burden", found_by=WORK, published="audit of 69fede5, 1")
def each_operation_of_a_multi_writes(self: Execution, path: str, znode: Znode) -> None:
    """The record of a znode is encoded and put by each operation that changes it."""
    self._znodes[path] = znode
    head, _, _ = znode.encode_apart() if self.meta.is_bounded else (znode.encode(), None, None)
    self.transaction.put(keys.znode(path), head)


@mutant(BatchingEngine._apply_group, scenario="burden", found_by=WORK, published="audit of 69fede5, 1")
def what_finished_commands_replaced_is_kept(
    self: BatchingEngine, transaction: StoreTransaction, commands: Sequence[Entry], position: LogPosition
) -> list[Any]:
    """Each command of a group has a savepoint, which stays open until the commit."""
    return [self.apply_above(transaction, command, position) for command in commands]


@mutant(BatchingEngine._apply_group, scenario="burden", found_by=[GROUPED, COUNTED])
def a_group_with_a_torn_command_is_not_taken_back(
    self: BatchingEngine, transaction: StoreTransaction, commands: Sequence[Entry], position: LogPosition
) -> list[Any]:
    """Before its commands are applied one by one."""
    try:
        return [self.above.apply(transaction, command, position) for command in commands]
    except MalformedError:
        return self._apply_each(transaction, commands, position)


@mutant(quotas.is_text, scenario="burden", found_by=[*WORK, REFUSED], published="audit of 69fede5, 2")
def texts_of_quotas_are_not_looked_at(data: bytes | None) -> bool:
    """Any bytes are limits or statistics."""
    return True


@mutant(quotas._shorten, scenario="burden", found_by=WORK, published="audit of 69fede5, 2")
def long_texts_of_the_former_version_stay(execution: Execution, limited: str) -> None:
    """Each write below reads the limits whole."""


@mutant(quotas._count_anew, scenario="burden", found_by=WORK, published="audit of 69fede5, 3")
def each_operation_of_a_multi_counts(execution: Execution, limited: str) -> None:
    """The whole tree below, also if it has just been counted."""
    execution._known.counted.clear()
    count, size = execution.count(limited, bounds.UNBOUNDED)
    stats = quotas._read(execution, limited, quotas.STATS)
    quotas._write(execution, limited, attrs.evolve(stats, count=count, size=size))


@mutant(Execution.acl_of, scenario="burden", found_by=WORK)
def a_long_list_of_rights_is_read_for_each_operation(self: Execution, path: str, znode: Znode) -> tuple[Acl, ...]:
    """Not once in a command."""
    return find_acl(self.transaction, path, znode)


@mutant(Tree._znode, scenario="burden", found_by=WORK, published="audit of 69fede5, 9")
def reads_do_not_count_what_they_look_at(self: Tree, path: str) -> Znode:
    """A multiRead is bounded by what it tells alone."""
    found = looked_up_as_it_should(self, path)
    self.looked = 0
    return found


@mutant(WatchTable._above, scenario="burden", found_by=WORK, published="audit of 69fede5, 14")
def a_change_looks_at_each_length_that_is_watched(self: WatchTable, path: str) -> dict[Watcher, None]:
    """A change looks at each watched length, also at those longer than its path."""
    found: dict[Watcher, None] = {}
    for length in self._recursive:
        if path[length : length + 1] == "/":
            above = path[:length] or "/"
            watchers = self._modes.get(above, {})
            found |= {each: None for each in watchers if self.contains(above, each, WatchMode.PERSISTENT_RECURSIVE)}
    return found


@mutant(Execution.take_back, scenario="burden", found_by=[COUNTED])
def counters_of_a_refused_command_stay(self: Execution) -> None:
    """Its znodes are forgotten, and what they were counted as is not."""
    meta = self.meta
    took_back_as_it_should(self)
    self.meta = meta


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
