"""Appends of clients to a guarded log: refused by every node, also by one that knows an old register only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import attrs
import pytest
import trio
from trio.testing import MockClock

from tests.virtuallog.client.world import World
from tests.virtuallog.client.world import world as log_world
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.capnp_interface import Interface
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import (
    ForbiddenError,
    InvalidSettingError,
    OverloadedError,
    SealedError,
    UnavailableError,
    UnsupportedError,
    VirtualLogError,
)
from virtuallog.contract.ports import Done, Handlers
from virtuallog.contract.register import Register
from virtuallog.contract.versions import GUARDED
from virtuallog.plugins import loglet_providers
from virtuallog.reconfiguration.node_table_update import update_node_table
from virtuallog.rpc.security.permissions import Permissions
from virtuallog_database.engines.core.entry import PROPOSER, TOKEN_BYTES, Entry
from virtuallog_loglets.native.messages import NativeAppend
from virtuallog_server.database.ownership import find_foreign, put_guard
from virtuallog_server.node import append_guard
from virtuallog_server.node.append_guard import AppendGuard

APP = Principal(cluster="prod", role=Role.CLIENT, name="app")
OWN = Entry(b"own", {PROPOSER: bytes(TOKEN_BYTES)}).encode()


@attrs.frozen
class _Level:
    level: int = GUARDED

    def amend(self, register: Register) -> Register | None:
        return None if register.level == self.level else register.with_level(self.level)


async def leveled(log: VirtualLog, level: int = GUARDED) -> None:
    """All nodes speak this version of the protocol."""
    log.view.adopt(await update_node_table(log.view.metastore, _Level(level), log.view.environment.random))


def request(segment: SegmentId) -> NativeAppend:
    return NativeAppend(segment=segment, batch=b"", opens=True, expected_tail=0)


def test_every_kind_that_nodes_serve_guards_its_appends() -> None:
    """Every request that a client may send, and that puts a batch into a loglet, is known as an append."""
    methods = [method for interface in interfaces() for method in interface.methods]
    appending = {method.title for method in methods if method.appends}
    batches = [method for method in methods if "batch" in inspect.signature(method.request).parameters]
    assert {method.title for method in batches if method.role is Role.CLIENT} == {"Append"} == appending
    assert all(method.appends for method in batches if method.role is Role.CLIENT)


def interfaces() -> Iterator[Interface]:
    for provider in loglet_providers().values():
        yield from provider.interfaces


@pytest.mark.parametrize(("role", "asked"), [(Role.CLIENT, True), (Role.ADMIN, False), (Role.NODE, False)])
def test_only_clients_are_asked_about(role: Role, asked: bool) -> None:
    """Nodes and administrators are members: their appends cost nothing more."""
    permissions = Permissions.of(interfaces())
    answers: list[object] = []

    def append(_: object, done: Done) -> None:
        done("appended")

    def guard(_: object, caller: Principal, decide: Callable[[VirtualLogError | None], None]) -> None:
        decide(ForbiddenError("an append", str(caller), "admin"))

    handlers: Handlers = {NativeAppend: append}
    owner = Principal(cluster="prod", role=role, name="1")
    narrowed = permissions.narrow(handlers, owner, lambda _: None, guard)
    narrowed[NativeAppend](request(SegmentId(1, 1)), answers.append)
    assert isinstance(answers[0], ForbiddenError) is asked


async def guarded_world(world: World) -> tuple[VirtualLog, VirtualLog, list[VirtualLogError | None], AppendGuard]:
    """A member, a node that lags behind, what it decides, and its guard."""
    member, node = world.client(world.nursery), world.client(world.nursery)
    await leveled(member)
    await node.view.refresh()
    return member, node, [], AppendGuard(lambda: node, lambda: world.nursery)


async def test_a_node_that_lags_reads_the_register_before_it_takes_anything(autojump_clock: MockClock) -> None:
    """It takes what goes to a segment that is older than the guard, until that is sealed; of a later one it asks, once for all."""
    async with log_world() as world:
        member, _, decided, guard = await guarded_world(world)
        before = member.view.cached
        assert before is not None
        register = await put_guard(member)
        assert register.is_guarded and not register.is_open_to_clients
        assert register.chain.last.id.version > register.guarded

        guard(request(before.chain.last.id), APP, decided.append)
        assert decided == [None], "it does not know better, and the segment is sealed"
        for _ in range(3):
            guard(request(register.chain.last.id), APP, decided.append)
        assert decided == [None]
        await trio.sleep(1)  # noqa: TID251 -- simulated time
        assert [type(each) for each in decided[1:]] == [ForbiddenError] * 3
        guard(request(before.chain.last.id), APP, decided.append)
        assert isinstance(decided[-1], ForbiddenError)
        assert str(decided[-1]).startswith("an append to the log of a database needs the role admin")


async def test_what_no_register_knows_is_refused(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """An invented segment, too many at once, a node without a register: nothing was done."""
    async with log_world() as world:
        _, _, decided, guard = await guarded_world(world)
        monkeypatch.setattr(append_guard, "WAITING_MAX", 1)
        guard(request(SegmentId(1 << 30, 1)), APP, decided.append)
        guard(request(SegmentId(1 << 30, 1)), APP, decided.append)
        assert isinstance(decided[0], OverloadedError)
        await trio.sleep(1)  # noqa: TID251 -- simulated time
        assert isinstance(decided[1], SealedError) and decided[1].refused
        AppendGuard(lambda: None, lambda: world.nursery)(request(SegmentId(1, 1)), APP, decided.append)
        assert isinstance(decided[2], UnavailableError)


async def test_a_log_that_others_use_is_not_taken_from_them(autojump_clock: MockClock) -> None:
    """The guard is refused with the position of a foreign entry, and put when an operator insists."""
    async with log_world() as world:
        log = world.client(world.nursery)
        await leveled(log)
        await log.append_many([OWN, OWN])
        assert await find_foreign(log) is None
        await log.append(b"VE\x02 of an application")
        with pytest.raises(InvalidSettingError, match=r"position 2 is none of the database.*--despite-entries"):
            await put_guard(log)
        assert not (await log.view.refresh()).is_guarded
        register = await put_guard(log, despite_foreign=True)
        assert register.is_guarded and register.database
        assert await put_guard(log) == register, "it is there already"


async def test_a_cluster_with_an_older_node_is_not_guarded(autojump_clock: MockClock) -> None:
    """Such a node would still take appends."""
    async with log_world() as world:
        log = world.client(world.nursery)
        await leveled(log, GUARDED - 1)
        with pytest.raises(UnsupportedError, match="once all speak 5"):
            await put_guard(log)


async def test_an_older_program_does_not_read_a_guarded_register(autojump_clock: MockClock) -> None:
    """It would lose the guard with its next change. One without it is written as before."""
    async with log_world() as world:
        log = world.client(world.nursery)
        await leveled(log)
        before = log.view.cached
        assert before is not None and before._format() < 3
        assert (await put_guard(log))._format() == 3
