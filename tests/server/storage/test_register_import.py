"""An exported register is imported into the directories of stopped nodes, or refused with nothing changed."""

from __future__ import annotations

import random
from pathlib import Path

import attrs
import pytest
import trio
from click.testing import CliRunner

from tests.virtuallog.contract.test_register import SMALL
from tests.virtuallog.rpc.tls_shop import ThrowawayAuthority
from virtuallog.admin.control import CONTROL, GetStatus, NodeStatus
from virtuallog.contract.caller_roles import Principal, Role
from virtuallog.contract.errors import CorruptionError, InvalidSettingError, VirtualLogError, WrongRecipientError
from virtuallog.contract.register import ClusterId, NodeEntry, Register
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol.node import Identity as RpcIdentity
from virtuallog.rpc.server import RpcServer
from virtuallog.rpc.transport import bound_address, tcp_listen
from virtuallog.runtime.clock import SystemClock
from virtuallog_metastore import records
from virtuallog_metastore.core.acceptor import PersistBallots, PersistDecision
from virtuallog_metastore.disaster_recovery.dump import Dump, dump
from virtuallog_metastore.disaster_recovery.revival import LEAP, revive
from virtuallog_metastore.drivers.acceptor_driver import STORE
from virtuallog_metastore.messages import Ballot, Decision, Proposal, Vote
from virtuallog_server.cli import main
from virtuallog_server.storage.data_directory import open_data_directory
from virtuallog_server.storage.identity import Identity, read_identity_record
from virtuallog_server.storage.register_import import import_register, read_dump

ONE = NodeId(1)


async def directory(path: Path, address: str = "127.0.0.1:9") -> Register:
    """The store of node 1, which knows a register that names it; no process listens at the usual address."""
    async with open_data_directory(path) as data:
        identity = await Identity.open(data.root, ONE)
        await identity.start_formatting(random.Random(1))
        await identity.finish_formatting()
        await identity.join(SMALL.cluster)
        entry = NodeEntry(store_id=identity.store_id, addresses=(address,), roles=frozenset())
        register = attrs.evolve(SMALL, nodes={ONE: entry})
        proposal = Proposal(value=register.encode(), members=(ONE,), attempt=1, earlier=())
        store = await data.key_values(STORE)
        await store.write(records.changes(PersistDecision(Decision(version=register.version, proposal=proposal))))
    return register


async def known(path: Path) -> tuple[ClusterId | None, Decision | None]:
    """The identity in the directory."""
    async with open_data_directory(path) as data:
        marker = await read_identity_record(data.root)
        acceptor = await records.restore(await data.key_values(STORE))
        return None if marker is None else marker.cluster, acceptor.decision


async def test_what_a_stopped_node_knows_is_exported_and_imported(tmp_path: Path) -> None:
    """It is of another cluster then, with its decision as the first one. The same import again changes nothing."""
    register = await directory(tmp_path)
    found = await read_dump(tmp_path)
    assert found == Dump(register, register.encode())

    decision = await import_register(tmp_path, found, [ONE])

    assert decision == revive(found, [ONE])
    cluster, stored = await known(tmp_path)
    assert stored == decision
    assert cluster not in {None, register.cluster}
    assert decision.version == register.version + LEAP
    assert await import_register(tmp_path, found, [ONE]) == decision
    assert await known(tmp_path) == (cluster, decision)


async def test_the_same_import_again_takes_no_vote_back(tmp_path: Path) -> None:
    """The node has voted since it was imported, and its vote may have decided: without it another value could be decided
    for the same version."""
    await directory(tmp_path)
    found = await read_dump(tmp_path)
    decision = await import_register(tmp_path, found, [ONE])
    ballot = Ballot(round=3, node=1, boot=1, nonce=1)
    vote = Vote(ballot=ballot, proposal=attrs.evolve(decision.proposal, attempt=77))
    async with open_data_directory(tmp_path) as data:
        voted = PersistBallots(slot=decision.version + 1, promised=ballot, accepted=vote)
        await (await data.key_values(STORE)).write(records.changes(voted))

    await import_register(tmp_path, found, [ONE])

    async with open_data_directory(tmp_path) as data:
        acceptor = await records.restore(await data.key_values(STORE))
    assert (acceptor.promised, acceptor.accepted) == (ballot, vote)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda register: attrs.evolve(register, cluster=ClusterId(b"other cluster id")), WrongRecipientError),
        (lambda register: attrs.evolve(register, nodes={ONE: SMALL.nodes[ONE]}), WrongRecipientError),
        (lambda register: attrs.evolve(register, members=(NodeId(7),)), CorruptionError),
        (
            lambda register: attrs.evolve(
                register, chain=attrs.evolve(register.chain, version=1, segments=register.chain.segments[:1])
            ),
            InvalidSettingError,
        ),
    ],
    ids=["another cluster", "another directory", "two values for one version", "older than known"],
)
async def test_what_does_not_fit_is_refused(tmp_path: Path, change: object, error: type[VirtualLogError]) -> None:
    """With a typed error, and nothing changed."""
    register = await directory(tmp_path)
    before = await known(tmp_path)
    assert callable(change)

    with pytest.raises(error):
        await import_register(tmp_path, dump(change(register).encode()), [ONE])

    assert await known(tmp_path) == before


@pytest.mark.parametrize(
    ("role", "reason"), [(Role.NODE, "still answers"), (None, "who is there cannot be said")], ids=["ours", "not ours"]
)
async def test_a_node_that_answers_inside_tls_is_heard(tmp_path: Path, role: Role | None, reason: str) -> None:
    """Without certificates all nodes would look silent; with untrusted ones their state is unknown."""
    office, elsewhere = ThrowawayAuthority.in_(tmp_path / "office"), ThrowawayAuthority.in_(tmp_path / "elsewhere")
    alive = NodeStatus(
        cluster=SMALL.cluster,
        node=ONE,
        store_id=b"",
        boot=1,
        roles=(),
        software="",
        register=b"",
        failures=(),
        phase="",
    )
    here = RpcIdentity(cluster=SMALL.cluster, node=ONE, store_id=b"", boot=1, software="")
    server = RpcServer(
        {GetStatus: lambda _, done: done(alive)}, [CONTROL], lambda: here, SystemClock(), credentials=office.node(ONE)
    )
    issuer = (office if role else elsewhere).authority
    ours = issuer.issue(Principal(cluster="test", role=Role.ADMIN, name="ada"))
    async with trio.open_nursery() as nursery:
        listeners = await tcp_listen("127.0.0.1:0")
        await nursery.start(server.serve, listeners)
        await directory(tmp_path / "data", bound_address(listeners[0]))
        before = await known(tmp_path / "data")

        with pytest.raises(InvalidSettingError, match=reason):
            await import_register(tmp_path / "data", await read_dump(tmp_path / "data"), [ONE], ours)

        assert await known(tmp_path / "data") == before
        nursery.cancel_scope.cancel()


def test_the_command_asks_twice(tmp_path: Path) -> None:
    """Without --force it says what would be lost, and changes nothing."""
    file = tmp_path / "register"
    file.write_bytes(dump(SMALL.encode()).encode())

    done = CliRunner().invoke(
        main, ["metastore", "import", str(file), "--data", str(tmp_path), "--members", "1"], env={}
    )

    assert done.exit_code == 1
    assert "nothing has been changed" in done.output
    assert "Lost for good" in done.output
    file.write_bytes(b"rubbish")
    assert (
        CliRunner()
        .invoke(main, ["metastore", "import", str(file), "--data", str(tmp_path), "--members", "1"])
        .exit_code
        == 1
    )
