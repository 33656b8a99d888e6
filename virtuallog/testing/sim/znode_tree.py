"""The tree of znodes of a ZooKeeper, as far as `virtuallog.contract.znodes` needs it, changed by
transactions.

The same transactions make the same tree, so every simulated server has one of its own. Behaves as
ZooKeeper 3.8 does (tests/loglets/zookeeper/test_znodes.py compares both): a child's number counts
all that were ever created in its parent, existing or not, and a transaction that fails uses none
up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import attrs

from virtuallog.contract.znodes import (
    ANY_VERSION,
    BadVersionError,
    Create,
    Delete,
    NotEmptyError,
    NoZnodeError,
    Operation,
    RefusedError,
    Result,
    Set,
    Stat,
    Znode,
    ZnodeExistsError,
)

_Undo: TypeAlias = list[Callable[[], None]]


@attrs.define(eq=False)
class _Node:
    data: bytes
    czxid: int
    mzxid: int
    ctime_ms: int
    version: int = 0
    created: int = 0
    """Number of children ever created."""
    children: dict[str, None] = attrs.field(factory=dict)
    """Names of the children."""

    def stat(self) -> Stat:
        changes = 2 * self.created - len(self.children)
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime_ms=self.ctime_ms,
            version=self.version,
            cversion=changes,
            data_bytes=len(self.data),
            children=len(self.children),
        )


@attrs.define(eq=False)
class ZnodeTree:
    """All znodes, by path."""

    zxid: int = 0
    """Number of the last transaction."""
    _nodes: dict[str, _Node] = attrs.field(factory=lambda: {"/": _Node(b"", 0, 0, 0)})

    def find(self, path: str) -> Znode | None:
        node = self._nodes.get(path)
        return None if node is None else Znode(node.data, node.stat())

    def children(self, path: str) -> list[str] | None:
        node = self._nodes.get(path)
        return None if node is None else list(node.children)

    @property
    def paths(self) -> list[str]:
        return list(self._nodes)

    def apply(self, operations: Sequence[Operation], time_ms: int) -> list[Result]:
        """Apply one transaction. One that fails takes a number, too.

        Raises:
            RefusedError: nothing else has changed.
        """
        self.zxid += 1
        undo: _Undo = []
        results: list[Result] = []
        try:
            for index, operation in enumerate(operations):
                results.append(self._apply_one(index, operation, time_ms, undo))
        except RefusedError:
            for take_back in reversed(undo):
                take_back()
            raise
        return results

    def _apply_one(self, index: int, operation: Operation, time_ms: int, undo: _Undo) -> Result:
        if isinstance(operation, Create):
            return self._create(index, operation, time_ms, undo)
        node = self._nodes.get(operation.path)
        if node is None:
            raise NoZnodeError(index, operation)
        if operation.version not in {ANY_VERSION, node.version}:
            raise BadVersionError(index, operation)
        if isinstance(operation, Set):
            return self._set(operation, node, undo)
        if isinstance(operation, Delete):
            self._delete(index, operation, node, undo)
        return None

    def _create(self, index: int, create: Create, time_ms: int, undo: _Undo) -> str:
        parent = self._nodes.get(_parent(create.path))
        if parent is None:
            raise NoZnodeError(index, create)
        path = f"{create.path}{parent.created:010d}" if create.sequence else create.path
        if path in self._nodes:
            raise ZnodeExistsError(index, create)
        parent.created += 1
        self._put(path, _Node(create.data, self.zxid, self.zxid, time_ms))

        def take_back() -> None:
            parent.created -= 1
            self._drop(path)

        undo.append(take_back)
        return path

    def _set(self, operation: Set, node: _Node, undo: _Undo) -> Stat:
        before = node.data, node.mzxid, node.version

        def take_back() -> None:
            node.data, node.mzxid, node.version = before

        undo.append(take_back)
        node.data, node.mzxid, node.version = operation.data, self.zxid, node.version + 1
        return node.stat()

    def _delete(self, index: int, delete: Delete, node: _Node, undo: _Undo) -> None:
        if node.children:
            raise NotEmptyError(index, delete)
        self._drop(delete.path)
        undo.append(lambda: self._put(delete.path, node))

    def _put(self, path: str, node: _Node) -> None:
        self._nodes[path] = node
        self._nodes[_parent(path)].children[path.rpartition("/")[2]] = None

    def _drop(self, path: str) -> None:
        del self._nodes[path]
        del self._nodes[_parent(path)].children[path.rpartition("/")[2]]


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
