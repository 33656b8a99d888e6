"""Loglets that nodes keep for a segment, kinds that consist of others, and kinds newer than a node."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
from trio.testing import MockClock

from tests.virtuallog.client.world import World, world
from virtuallog.contract.batch import Batch, SessionId
from virtuallog.contract.chain import SegmentId, extend, genesis
from virtuallog.contract.errors import MalformedError, UnknownKindError, UnsupportedError
from virtuallog.contract.ports import Environment
from virtuallog.contract.provider import LogletProvider, RetainedLoglets, check_level, compose
from virtuallog.contract.versions import COMPOSED, REPLICAS
from virtuallog.reconfiguration.retention import find_retained, retained_loglets
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider
from virtuallog_loglets.striped.planner import inner
from virtuallog_server.node.register_follower import live_loglets

FIRST, PART, OTHER_PART = SegmentId(1, 7), SegmentId(1, 8), SegmentId(1, 9)
CHAIN = extend(genesis("pair", b"two", 7), 10, "plain", b"one", 6)


@attrs.define
class PairProvider(MemoryProvider):
    """A provider whose segments consist of two plain loglets."""

    kind: str = "pair"
    since: int = COMPOSED
    others: Mapping[str, LogletProvider] = attrs.field(factory=dict)

    def over(self, providers: Mapping[str, LogletProvider]) -> None:
        self.others = providers

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> MemoryLoglet:
        """Open the loglet that a config names, if it names parts."""
        return super().open(FIRST if config else segment, config, environment)

    def loglets(self, segment: SegmentId, config: bytes) -> RetainedLoglets:
        if config != b"two":
            raise MalformedError(f"not a pair: {config!r}")
        return {PART: ("plain", b"a"), OTHER_PART: ("plain", b"b")}


PROVIDERS: Mapping[str, LogletProvider] = {"pair": PairProvider(), "plain": MemoryProvider(kind="plain")}


def test_nodes_keep_one_loglet_for_a_segment_unless_its_kind_says_otherwise() -> None:
    """The plain case is one loglet under the id of the segment; a kind may name others, under other ids."""
    pair, plain = CHAIN.segments

    assert retained_loglets(plain, PROVIDERS) == {plain.id: ("plain", b"one")}
    assert retained_loglets(pair, PROVIDERS) == {PART: ("plain", b"a"), OTHER_PART: ("plain", b"b")}
    assert live_loglets(CHAIN, PROVIDERS) == [PART, OTHER_PART, plain.id]


def test_a_part_is_found_by_its_own_id() -> None:
    """A node finds an unknown loglet by the id of a part; the id of a segment comes first."""
    assert find_retained(CHAIN, OTHER_PART, PROVIDERS) == ("plain", b"b")
    assert find_retained(CHAIN, FIRST, PROVIDERS) == ("pair", b"two")
    assert find_retained(CHAIN, SegmentId(3, 3), PROVIDERS) is None


@pytest.mark.parametrize("providers", [{"plain": MemoryProvider(kind="plain")}, {}])
def test_who_does_not_know_a_kind_forgets_nothing(providers: Mapping[str, LogletProvider]) -> None:
    """Without the kind the loglets of a segment are unknown: any retained one may be needed."""
    assert retained_loglets(CHAIN.segments[0], providers) is None
    assert live_loglets(CHAIN, providers) is None


def test_with_a_config_that_nobody_can_read_nothing_is_forgotten() -> None:
    """A config that was put by hand may be unreadable."""
    damaged = genesis("pair", b"three", 7)

    assert live_loglets(damaged, PROVIDERS) is None
    assert find_retained(damaged, PART, PROVIDERS) is None


def test_kinds_that_consist_of_others_are_told_of_them() -> None:
    """They open inner loglets through the shared providers, and never through a composite kind."""
    pair = PairProvider()
    providers: Mapping[str, LogletProvider] = {"pair": pair, "plain": MemoryProvider(kind="plain")}

    compose(providers)

    assert inner(pair.others, "plain") is providers["plain"]
    with pytest.raises(UnsupportedError, match="consist of others themselves"):
        inner(pair.others, "pair")
    with pytest.raises(UnknownKindError):
        inner(pair.others, "striped")


def test_a_kind_that_older_nodes_do_not_know_waits_for_the_level() -> None:
    """Kinds without `RequiresVersion` came with the first version."""
    with pytest.raises(UnsupportedError, match="protocol version 3 only"):
        check_level(PairProvider(), REPLICAS)
    check_level(PairProvider(), COMPOSED)
    check_level(MemoryProvider(), 1)


async def at_level(w: World, level: int) -> None:
    """Let all nodes of the cluster speak this version."""
    raised = w.register.with_level(level)
    await w.metastore.put(raised.encode(), raised.version - 1, attempt=5)


async def test_no_chain_names_a_kind_before_every_node_knows_it(autojump_clock: MockClock) -> None:
    """Extend and modify are refused, and nothing is sealed. Afterwards both work, also for a client with an older register."""
    async with world() as w:
        w.providers = {**w.providers, "pair": PairProvider()}
        log = w.client()
        await log.append_many([b"a", b"b"])
        await log.reconfig_extend("memory")
        closed, before = w.register.chain.segments[0], w.register.version

        with pytest.raises(UnsupportedError, match="are used once all speak 4"):
            await log.reconfig_extend("pair")
        with pytest.raises(UnsupportedError, match="are used once all speak 4"):
            await log.reconfig_modify(closed.id, "pair", b"two")
        assert await log.append(b"c") == 2
        assert w.register.version == before

        await at_level(w, COMPOSED)
        copy = w.providers["pair"].open(closed.id, b"two", log.view.environment)
        await copy.append(Batch.build(SessionId(b"p" * 16), 0, [b"a", b"b"]), opens=True)
        await copy.seal()
        assert (await log.reconfig_extend("pair")).chain.last.kind == "pair"
        modified = await log.reconfig_modify(closed.id, "pair", b"two")
        assert modified.chain.segments[0].kind == "pair"
