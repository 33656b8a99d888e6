"""The tree, its formats and indexes against a model that has none: any sequence of commands, after which both must look the same."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.database.tree.world import World
from virtuallog_database.testing.model_tree import ModelTree
from virtuallog_database.tree import keys
from virtuallog_database.tree.commands import (  # fmt: skip
    OPEN_ACL,
    Acl,
    Attach,
    Check,
    CloseSession,
    Command,
    Create,
    CreateSession,
    Delete,
    ExpireSessions,
    Identity,
    Mode,
    Multi,
    Operation,
    Origin,
    Reap,
    SetAcl,
    SetData,
    Touch,
)

NAMES = st.sampled_from(["a", "b", "aa", "c-"])
PATHS = st.lists(NAMES, max_size=3).map(lambda names: "/" + "/".join(names)) | st.sampled_from(
    ["/a/", "a", "", "/a//b", "/a/./b", "/zookeeper", "/zookeeper/config", "/\ud800"]
)
DATA = st.none() | st.binary(max_size=3)
VERSIONS = st.sampled_from([-1, -1, -1, 0, 1, 2])
SESSIONS = st.integers(1, 3)
ALICE, BOB = Identity("digest", "alice:x"), Identity("digest", "bob:y")
SUPER = (Identity("super", ""),)
IDENTITIES = st.sampled_from([(), (ALICE,), (BOB,), (ALICE, BOB), SUPER])
PERMISSIONS = st.integers(0, 31)
ACLS = st.just(OPEN_ACL) | st.lists(
    st.builds(
        Acl, PERMISSIONS | st.just(31), st.sampled_from(["digest", "auth"]), st.sampled_from(["alice:x", "bob:y"])
    )
    | st.builds(Acl, PERMISSIONS, st.just("world"), st.just("anyone")),
    max_size=3,
).map(tuple)
TTLS = st.sampled_from([0, 0, 0, 5000])
CREATES = st.builds(Create, PATHS, DATA, st.just(OPEN_ACL) | ACLS, st.sampled_from([*Mode, 9]), TTLS) | st.builds(
    Create, PATHS, DATA
)
WITHIN_MULTI = (
    CREATES
    | st.builds(Delete, PATHS, VERSIONS)
    | st.builds(SetData, PATHS, DATA, VERSIONS)
    | st.builds(Check, PATHS, VERSIONS)
)
PASSWORDS = st.sampled_from([b"p" * 16, b"p" * 16, b"q" * 16])
TIMEOUTS = st.sampled_from([4000, 10_000])
OPERATIONS: st.SearchStrategy[Operation] = (
    WITHIN_MULTI
    | WITHIN_MULTI
    | st.builds(SetAcl, PATHS, ACLS, VERSIONS)
    | st.lists(WITHIN_MULTI, max_size=4).map(lambda parts: Multi(tuple(parts)))
    | st.builds(CreateSession, SESSIONS, PASSWORDS, TIMEOUTS)
    | st.builds(Attach, SESSIONS, PASSWORDS, TIMEOUTS)
    | st.builds(CloseSession, SESSIONS)
    | st.lists(SESSIONS, max_size=3).map(lambda ids: Touch(tuple(ids)))
    | st.lists(PATHS, max_size=3).map(lambda paths: Reap(tuple(paths)))
)


class Comparison(RuleBasedStateMachine):
    """Both are given the same commands."""

    def __init__(self) -> None:
        super().__init__()
        self.world, self.model = World(), ModelTree()

    @initialize()
    def begin(self) -> None:
        for session in (1, 2):
            self.both(CreateSession(session, b"p" * 16, 4000), Origin())
        self.both(Create("/a", b"1"), Origin())

    @rule(operation=OPERATIONS, session=st.integers(0, 3), stale=st.booleans(), identities=IDENTITIES,
          later_ms=st.sampled_from([0, 1, 4000]))  # fmt: skip
    def apply(self, operation: Operation, session: int, stale: bool, identities: Any, later_ms: int) -> None:
        self.world.now_ms += later_ms
        known = self.model.sessions.get(session)
        generation = 0 if known is None or not session else known.generation - (stale and known.generation > 1)
        self.both(operation, Origin(session, generation, identities))

    @rule(session=SESSIONS, missed=st.integers(0, 1))
    def expire(self, session: int, missed: int) -> None:
        known = self.model.sessions.get(session)
        touches = 0 if known is None else max(known.touches - missed, 0)
        self.both(ExpireSessions(((session, touches),)), Origin())

    def both(self, operation: Operation, origin: Origin) -> None:
        expected = self.model.apply(Command(operation, origin, self.world.now_ms))
        found = self.world.do(operation, origin)
        assert (found.zxid, found.error, found.value) == (expected.zxid, expected.error, expected.value)
        assert (found.changes, found.ended) == (expected.changes, expected.ended)

    @invariant()
    def looks_the_same(self) -> None:
        tree, model = self.world.tree, self.model
        assert tree.last_zxid == model.zxid
        stored = [keys.decoded(key[1:]) for key, _ in tree._reading.scan((b"n", b"o"), 10_000)]
        assert sorted(stored) == sorted(model.znodes)
        for path, znode in model.znodes.items():
            assert tree.get_data(path, SUPER) == (znode.data, model.stat(path))
            assert tree.get_children(path, SUPER)[0] == model.children(path)
            assert tree.get_acl(path, SUPER)[0] == znode.acl
        for session in (1, 2, 3):
            assert tree.get_ephemerals(session, "/") == model.ephemerals(session)
        assert {id_: (each.generation, each.touches, each.timeout_ms) for id_, each in tree.sessions().items()} == {
            id_: (each.generation, each.touches, each.timeout_ms) for id_, each in model.sessions.items()
        }

    @invariant()
    def counters_are_right(self) -> None:
        meta, model = self.world.tree.meta, self.model
        assert meta.znodes == len(model.znodes) and meta.sessions == len(model.sessions)
        assert meta.ephemerals == sum(1 for each in model.znodes.values() if each.owner)
        assert meta.data_bytes == sum(len(each.data or b"") for each in model.znodes.values())
        assert self.world.tree.count_descendants("/", SUPER) == len(model.znodes) - 1


TestAgainstModel = Comparison.TestCase
TestAgainstModel.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
