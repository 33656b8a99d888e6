"""Bugs in who may do what: ACLs, identities, passwords, quotas, read-only mode, and what watches and reads of a session tell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from database.kv import acl, quotas, session_operations, znode_operations
from database.kv.acl import READ
from database.kv.commands import OPEN_ACL, Acl, Attach, Delete, Identity, SetAcl, SetData
from database.kv.execution import Execution, find_znode
from database.kv.results import Attached, ChangeKind, Error, RefusedError, Result, Stat
from database.kv.tree import Tree
from database.kv.watches import Watcher, Watches, WatchTable
from server.zookeeper import auth, reads, requests
from server.zookeeper.auth import Authentication, AuthenticationError
from server.zookeeper.operations import Operations
from server.zookeeper.opcodes import OpCode
from server.zookeeper.jute import Reader
from server.zookeeper.sasl import Exchange, _parse_untrusted
from tests.mutants.mutant import Mutant, mutant
