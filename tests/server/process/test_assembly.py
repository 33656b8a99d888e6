"""Small parts of a process: the data directory, the address book, plug-ins."""

from __future__ import annotations

import random
from pathlib import Path

import click
import pytest

from virtuallog.client.address_book import AddressBook
from virtuallog.client.cluster_file import NodeAddress
from virtuallog.contract.chain import genesis
from virtuallog.contract.errors import (
    CorruptionError,
    InvalidSettingError,
    StorageError,
    UnavailableError,
    UnknownKindError,
)
from virtuallog.contract.placement import Cluster, Member
from virtuallog.contract.register import ClusterId, NodeEntry, Register
from virtuallog.contract.types import NodeId
from virtuallog.plugins import KindsOnDemand, all_interfaces, loglet_providers, metastore_provider
from virtuallog.reconfiguration.core.node_table import Claim, Forget
from virtuallog.rpc.protocol.methods import bind
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog_server.cli import program
from virtuallog_server.cli.common.failures import Failure
from virtuallog_server.config.node_config import ROLES
from virtuallog_server.storage.data_directory import open_data_directory
from virtuallog_server.storage.identity import FormatPhase, Identity


async def test_one_process_at_a_time_uses_a_data_directory(tmp_path: Path) -> None:
    """The second gets an error; once the first has ended, it succeeds."""
    async with open_data_directory(tmp_path):
        with pytest.raises(InvalidSettingError, match="in use by another process"):
            await open_data_directory(tmp_path).__aenter__()
    async with open_data_directory(tmp_path) as data:
        assert (await Identity.open(data.root, NodeId(1))).boot == 0


async def test_roles_keep_their_files_apart_and_get_them_back(tmp_path: Path) -> None:
    """Two roles may use the same names; what they wrote is there at the next start."""
    for expected in (None, b"of one"):
        async with open_data_directory(tmp_path) as data:
            identity = await Identity.open(data.root, NodeId(1))
            if identity.phase is FormatPhase.UNFORMATTED:
                await identity.start_formatting(random.Random(1))
            one, two = await data.key_values("one"), await data.key_values("two")
            assert await one.get(b"key") == expected
            await one.write({b"key": b"of one"})
            await two.write({b"key": b"of two"})
            assert (await (await data.storage("one")).names()) == []


async def test_a_role_that_begins_anew_has_its_files_once(tmp_path: Path) -> None:
    """It asks for the same again. What its former life had left open is closed."""
    async with open_data_directory(tmp_path) as data:
        storage, values = await data.storage("one"), await data.key_values("one")
        left = await storage.create("file", 10)
        again = await data.storage("one")

        assert again is storage
        assert await data.key_values("one") is values
        with pytest.raises(StorageError, match="closed"):
            await left.read(0, 10)
        assert await (await again.open("file")).read(0, 10) == bytes(10)


async def test_data_without_an_identity_is_no_new_disk(tmp_path: Path) -> None:
    """Only the identity file was deleted: formatting again would forget votes that others rely on."""
    (tmp_path / "values").mkdir()

    with pytest.raises(CorruptionError, match="holds data of a node, but no identity file"):
        await open_data_directory(tmp_path).__aenter__()


def test_addresses_come_from_the_register_once_there_is_one() -> None:
    """Seeds know a place only; the register also knows who should be there."""
    book = AddressBook.of([NodeAddress(id=1, address="seed:1"), NodeAddress(id=2, address="seed:2")])
    assert book.find(NodeId(1)).addresses == ("seed:1",)

    cluster = ClusterId(b"c" * 16)
    entry = NodeEntry(store_id=b"s" * 16, addresses=("new:1", "other:1"), roles=frozenset())
    book.learn(Register(cluster=cluster, chain=genesis("native", b"", 1), members=(), nodes={NodeId(1): entry}))
    assert book.find(NodeId(1)).addresses == ("new:1", "other:1")
    assert book.find(NodeId(1)).expected == OpenNode(cluster=cluster, node=NodeId(1), store_id=b"s" * 16)
    assert book.find(NodeId(2)).addresses == ("seed:2",)
    with pytest.raises(UnavailableError, match="no address of node 3 is known"):
        book.find(NodeId(3))


def test_a_known_cluster_is_meant_before_there_is_a_register() -> None:
    """A node that belongs to a cluster takes no register from a node of another one."""
    book = AddressBook.of([NodeAddress(id=1, address="seed:1")])

    book.expect(b"c" * 16)

    assert book.find(NodeId(1)).expected == OpenNode(cluster=b"c" * 16, node=NodeId(1))


def test_who_is_meant_changes_with_the_directory_of_a_node() -> None:
    """Given up: no directory is meant, not even the one that may still be there. Then the new one. An older register takes nothing back, and the others stay."""
    one, two, cluster = NodeId(1), NodeId(2), ClusterId(b"c" * 16)
    entry = NodeEntry(store_id=b"a" * 16, addresses=("one:1",), roles=frozenset())
    first = Register(cluster=cluster, chain=genesis("native", b"", 1), members=(), nodes={one: entry, two: entry})
    forgotten = Forget(node=one, store_id=b"a" * 16, addresses=("new:1",)).amend(first)
    assert forgotten is not None
    claimed = Claim(node=one, store_id=b"b" * 16).amend(forgotten)
    assert claimed is not None
    book = AddressBook.of([])
    book.learn(first)
    other = book.find(two)

    book.learn(forgotten)
    with pytest.raises(UnavailableError, match="no data directory has taken its place"):
        book.find(one)
    book.learn(claimed)
    book.learn(first)
    assert book.find(one).expected.store_id == b"b" * 16
    assert book.find(two) is other


def test_installed_kinds_are_found_and_fit_on_one_node() -> None:
    """Every request of every kind has one place on the wire; what lives in one process only is no part of a cluster."""
    providers = loglet_providers()

    assert "native" in providers
    assert "memory" not in providers
    assert len(bind(all_interfaces(providers, metastore_provider())).by_request) > 10
    with pytest.raises(UnknownKindError, match="no loglet kind 'etcd'"):
        metastore_provider("etcd")


def test_kinds_on_demand_are_made_once_each_when_they_are_asked_for() -> None:
    """A brief program loads the kinds that it uses. Names cost nothing, a composite kind finds the others, and each new kind is
    reported once.
    """
    made = list[str]()
    kinds = KindsOnDemand(lambda provider: made.append(provider.kind))

    assert {*kinds} == {*loglet_providers()} and len(kinds) == len({*kinds})
    assert "striped" in kinds and "etcd" not in kinds and kinds.get("etcd") is None
    assert made == []
    assert kinds["striped"] is kinds["striped"]
    assert made == ["striped"]
    cluster = Cluster(members=(Member(node=NodeId(1), boot=1, roles=frozenset(ROLES), alive=True),), planner=NodeId(1))
    assert kinds["striped"].plan(cluster, {}, None)
    assert made == ["striped", "native"]


def test_a_command_that_cannot_be_loaded_spoils_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed with the reason, and fails with it when it runs, with any options."""
    monkeypatch.setattr(program, "_plugged_in", lambda: {"fly": "no_such_module:fly"})
    command = program.main.get_command(click.Context(program.main), "fly")

    assert command is not None
    assert "no_such_module:fly cannot be loaded" in command.get_short_help_str(200)
    for arguments in ([], ["--high", "up"]):
        with pytest.raises(Failure, match="No module named 'no_such_module'"):
            command.main(arguments, standalone_mode=False)
