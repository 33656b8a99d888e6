"""Changes of the chain through a VirtualLog."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from tests.virtuallog.client.test_virtual_log import boundaries
from tests.virtuallog.client.world import World, active_loglet, fill_register, no_nodes, world
from virtuallog.contract import chain
from virtuallog.contract.errors import InvalidSettingError, SealedError, TooLargeError, UnavailableError
from virtuallog.contract.placement import Cluster, Member
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogPosition, NodeId, Open, Sealed
from virtuallog_loglets.memory import MemoryProvider


async def test_racing_reconfigurers_all_get_their_way_one_after_the_other(autojump_clock: MockClock) -> None:
    """Item 1: every extend returns only when its own segment was decided; the chain has one segment per version."""
    async with world() as w:
        logs = [w.client() for _ in range(4)]
        async with trio.open_nursery() as nursery:
            for log in logs:
                nursery.start_soon(log.reconfig_extend, "sparse")

        assert w.register.version == 5
        for before, after in zip(w.registers, w.registers[1:], strict=False):
            chain.validate_successor(before.chain, after.chain)


async def test_a_client_that_meets_a_sealed_loglet_finishes_the_change_after_the_grace_period(
    autojump_clock: MockClock,
) -> None:
    """Item 2: the reconfigurer died after its seal. The other clients wait a while, then extend with the last kind."""
    async with world() as w:
        log = w.client()
        await log.append(b"before")
        await active_loglet(log, w).seal()
        began = trio.current_time()

        position = await log.append(b"after")

        assert position == 1
        assert 1.0 <= trio.current_time() - began < 2.5
        assert boundaries(w) == [(0, 1), (1, None)]


async def test_a_full_register_refuses_an_extension_before_anything_is_sealed(autojump_clock: MockClock) -> None:
    """The log goes on where it is, without a pause. A loglet that is sealed gets a successor all the same: the log must go on."""
    async with world() as w:
        log = w.client()
        await log.append(b"before")
        fill_register(w)
        began = trio.current_time()

        with pytest.raises(TooLargeError, match="bytes in the register"):
            await w.client().reconfig_extend("memory")

        assert isinstance(await active_loglet(log, w).check_tail(), Open)
        assert await log.append(b"after") == 1
        assert trio.current_time() == began
        await active_loglet(log, w).seal()
        assert await log.append(b"behind the seal") == 2
        assert boundaries(w) == [(0, 2), (2, None)]


async def test_a_register_that_becomes_full_behind_the_seal_gets_the_segment(autojump_clock: MockClock) -> None:
    """Another client's change came between the look and the put. Without a successor all appends would wait for others to give one."""
    async with world() as w:
        log = w.client()
        await log.append(b"before")
        loglet = active_loglet(log, w)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.reconfig_extend, "sparse")
            while isinstance(await loglet.check_tail(), Open):
                await trio.lowlevel.checkpoint()
            version = w.register.version
            fill_register(w)

        assert version == 1
        assert [segment.kind for segment in w.register.chain.segments] == ["memory", "sparse"]


async def test_a_cancelled_reconfigurer_does_not_leave_a_sealed_log_behind(autojump_clock: MockClock) -> None:
    """Item 16: the change belongs to a service task; the caller only stops waiting."""
    async with world() as w:
        log = w.client()
        await log.append(b"x")
        for checkpoints in range(1, 8):
            version = w.register.version
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(log.reconfig_extend, "memory")
                    for _ in range(checkpoints):
                        await trio.lowlevel.checkpoint()
                    scope.cancel()
            await wait_all_tasks_blocked()
            assert isinstance(await log.check_tail(), Open)
            assert w.register.version in {version, version + 1}


async def test_a_change_under_way_when_the_client_ends_is_unknown(autojump_clock: MockClock) -> None:
    """The service task is cancelled with the client. A caller outside of it gets an unknown outcome, and no other error."""
    async with world() as w, trio.open_nursery() as service:
        log = w.client(service)
        w.metastore.lose_replies = 1
        raised: list[UnavailableError] = []

        async def extend() -> None:
            try:
                await log.reconfig_extend("memory")
            except UnavailableError as error:
                raised.append(error)

        w.nursery.start_soon(extend)
        for _ in range(4):
            await trio.lowlevel.checkpoint()
        service.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await wait_all_tasks_blocked()
        assert len(raised) == 1


async def test_a_put_whose_reply_is_lost_is_one_change_not_two(autojump_clock: MockClock) -> None:
    """Item 21: the unknown outcome is settled by the same attempt."""
    async with world() as w:
        log = w.client()
        await log.append(b"x")
        w.metastore.lose_replies = 2

        await log.reconfig_extend("memory")

        assert w.register.version == 2


async def test_with_the_metastore_down_only_changes_of_the_chain_fail(autojump_clock: MockClock) -> None:
    """Item 14: appends, tails and reads go on; a reconfiguration fails cleanly and succeeds later."""
    async with world() as w:
        log = w.client()
        await log.append(b"a")
        w.metastore.down = True

        assert await log.append(b"b") == 1
        assert await log.check_tail() == Open(2)
        assert len(await log.read(LogPosition(0), LogPosition(2))) == 2
        with pytest.raises(UnavailableError):
            await log.reconfig_extend("memory")
        w.metastore.down = False
        await log.reconfig_extend("memory")
        assert await log.append(b"c") == 2


async def test_a_log_closed_on_purpose_stays_closed_until_it_is_extended(autojump_clock: MockClock) -> None:
    """The marker in the register ends roll-forward: no client reopens the log by accident."""
    async with world() as w:
        log, other = w.client(), w.client()
        await log.append(b"a")
        await other.append(b"b")
        await log.seal()

        with pytest.raises(SealedError):
            await other.append(b"refused")
        await trio.sleep(10)
        assert await other.check_tail() == Sealed(2)
        await log.seal()  # twice is no harm
        await log.reconfig_extend("memory")
        assert await other.append(b"c") == 2


async def test_the_watchdog_finishes_what_nobody_else_meets(autojump_clock: MockClock) -> None:
    """An idle log gets a successor without any append after its reconfigurer died."""
    async with world() as w:
        log, watch = w.client(), w.client()
        await log.append(b"a")
        w.nursery.start_soon(watch.watchdog.run)
        await active_loglet(log, w).seal()

        await trio.sleep(5)

        assert boundaries(w) == [(0, 1), (1, None)]


@attrs.define
class Deserted(MemoryProvider):
    """A provider for which no node answers in time for a while."""

    deserted: bool = True

    def plan(self, cluster: Cluster, settings: Mapping[str, str], previous: bytes | None) -> bytes:
        if self.deserted:
            raise InvalidSettingError("servers", "fewer than 2 nodes answer")
        return MemoryProvider.plan(self, cluster, settings, previous)


async def test_a_roll_forward_waits_for_nodes_that_are_slow_to_answer(autojump_clock: MockClock) -> None:
    """After a power loss nodes come back one by one. Too few of them for a new loglet: the watchdog, which is part of
    each node's process, and the appends that wait, try again until there are enough."""
    async with trio.open_nursery() as nursery:
        provider = Deserted()
        w = World(nursery, providers={"memory": provider})
        log, watch = w.client(), w.client()
        await log.append(b"before")
        await active_loglet(log, w).seal()
        nursery.start_soon(watch.watchdog.run)
        positions: list[LogPosition] = []

        async def append() -> None:
            positions.append(await log.append(b"after"))

        nursery.start_soon(append)
        await trio.sleep(10)
        assert not positions
        provider.deserted = False
        await trio.sleep(2)

        assert positions == [1]
        provider.deserted = True
        with pytest.raises(InvalidSettingError):  # what an operator asks for is refused, with its reason
            await log.reconfig_extend("memory")
        nursery.cancel_scope.cancel()


async def test_the_watchdog_outlives_a_chain_that_it_cannot_handle(autojump_clock: MockClock) -> None:
    """A node may not know the kind of the active loglet: the log goes on without its watchdog, and later with it."""
    async with world() as w:
        log, watch = w.client(), w.client()
        watch.view.providers = {"memory": w.providers["memory"]}
        w.nursery.start_soon(watch.watchdog.run)
        await log.reconfig_extend("sparse")
        await trio.sleep(5)
        await log.reconfig_extend("memory")
        await active_loglet(log, w).seal()
        await trio.sleep(5)

        assert isinstance(await active_loglet(log, w).check_tail(), Open)


async def test_the_watchdog_says_what_it_cannot_look_after(autojump_clock: MockClock) -> None:
    """The status of the node reports it after several rounds: no healer cares for a loglet in external storage."""
    async with world() as w:
        log, watch = w.client(), w.client()
        providers = watch.view.providers
        watch.view.providers = {"memory": w.providers["memory"]}
        w.nursery.start_soon(watch.watchdog.run)
        await log.reconfig_extend("sparse")
        await trio.sleep(5)

        last = w.register.chain.last.id
        assert watch.watchdog.problem.startswith(f"the open segment {last} (sparse) cannot be looked after: Unknown")
        watch.view.providers = providers
        await trio.sleep(5)
        assert watch.watchdog.problem == ""


async def test_a_change_whose_loglet_was_dropped_meanwhile_starts_over(autojump_clock: MockClock) -> None:
    """Between plan and seal another client has replaced an empty segment, and the nodes have dropped it."""
    async with world() as w:
        log, other = w.client(), w.client()

        async def planned_late(register: Register) -> Cluster:
            if w.register.version == 1:
                await other.reconfig_extend("memory")
                await w.providers["memory"].forget(2)
            return await no_nodes(register)

        log.chain_writer._planner = planned_late
        await log.reconfig_extend("sparse")

        assert [segment.kind for segment in w.register.chain.segments] == ["sparse"]
        assert w.register.version == 3


async def test_a_roll_forward_does_not_reopen_a_log_that_is_being_closed(autojump_clock: MockClock) -> None:
    """A close begins with a seal. A client that rolls it forward while the marker is put finds the marker, and leaves the log
    closed."""
    async with world() as w:
        log, other = w.client(), w.client()
        await log.append(b"a")
        await other.check_tail()

        async def planned_late(register: Register) -> Cluster:
            await log.seal()
            return await no_nodes(register)

        other.chain_writer._planner = planned_late
        await active_loglet(log, w).seal()
        with pytest.raises(SealedError):
            await other.append(b"refused")

        assert await other.check_tail() == Sealed(1)
        assert await log.check_tail() == Sealed(1)


@pytest.mark.parametrize("members", [(), (1, 1, 2), (1, 2, 9), (2, 3, 4)])
async def test_members_that_could_not_decide_anything_are_refused(
    members: tuple[int, ...], autojump_clock: MockClock
) -> None:
    """No member, one of them twice, an unknown node, no majority that answers: the register would be lost for good."""
    async with world() as w:
        log, before = w.client(), w.register

        async def two_of_four_live(_: Register) -> Cluster:
            nodes = [Member(node=NodeId(node), boot=1, roles=frozenset(), alive=node <= 2) for node in (1, 2, 3, 4)]
            return Cluster(members=tuple(nodes), planner=NodeId(1))

        log.chain_writer._planner = two_of_four_live
        with pytest.raises(InvalidSettingError, match="members"):
            await log.reconfig_members([NodeId(node) for node in members])
        assert w.register == before

        await log.reconfig_members([NodeId(3), NodeId(2), NodeId(1)])
        assert w.register.members == (1, 2, 3)
