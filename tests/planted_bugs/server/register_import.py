"""Bugs of an import of the register: what goes on must be another cluster, with nothing lost that the file knew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.client.address_book import AddressBook
from virtuallog.contract import chain
from virtuallog.contract.chain import Chain
from virtuallog.contract.errors import WrongRecipientError
from virtuallog.contract.register import ClusterId, Register, decode_untrusted
from virtuallog.contract.types import NodeId
from virtuallog.rpc.protocol.node import Identity, OpenNode
from virtuallog_metastore.core.acceptor import Acceptor
from virtuallog_metastore.disaster_recovery import chain_edit
from virtuallog_metastore.disaster_recovery.dump import Dump
from virtuallog_metastore.disaster_recovery.revival import LEAP, revive
from virtuallog_metastore.messages import Decision
from virtuallog_server.storage.register_import import Ask, _check_known, _check_silent

FITS: Final = "imports take what fits"
ANOTHER: Final = "a revived cluster is another one"
FORMER: Final = "the former cluster changes nothing"

mismatch = OpenNode._mismatch


def changed(decision: Decision, register: Register) -> Decision:
    proposal = attrs.evolve(decision.proposal, value=register.encode())
    return attrs.evolve(decision, version=register.version, proposal=proposal)


@mutant(revive, scenario="revived", within=10, found_by=[ANOTHER, FORMER])
def revived_under_its_former_id(dump: Dump, members: Sequence[NodeId]) -> Decision:
    """The cluster that goes on has the id of the one before: former members and clients count as its own."""
    decision = revive(dump, members)
    return changed(decision, attrs.evolve(decode_untrusted(decision.proposal.value), cluster=dump.register.cluster))


@mutant(revive, scenario="revived", within=10, found_by=[ANOTHER])
def revived_for_any_members_under_one_id(dump: Dump, members: Sequence[NodeId]) -> Decision:
    """The id follows from the file alone: imports for different members make clusters that take each other for the same."""
    decision = revive(dump, members)
    cluster = ClusterId(dump.register.cluster[::-1])
    return changed(decision, attrs.evolve(decode_untrusted(decision.proposal.value), cluster=cluster))


@mutant(
    revive,
    scenario="revived",
    within=100,
    found_by=["one value per version", "versions move forward", "one winner per version"],
)
def revived_in_the_next_version(dump: Dump, members: Sequence[NodeId]) -> Decision:
    """The version after that of the file, which the former cluster may have decided after the export."""
    decision = revive(dump, members)
    register = decode_untrusted(decision.proposal.value)
    return changed(
        decision,
        attrs.evolve(register, chain=attrs.evolve(register.chain, version=decision.version - LEAP + 1)),
    )


@mutant(_check_known, scenario="revived", within=40, found_by=[FITS])
def older_file_imported(place: str, acceptor: Acceptor, found: Dump, decision: Decision) -> None:
    """A file is taken even if the directory knows a newer register."""


@mutant(_check_silent, scenario="revived", within=40, found_by=[FITS])
async def imported_beside_the_former_cluster(exported: Register, ask: Ask) -> None:
    """No node is asked if the former cluster still runs."""


@mutant(
    chain_edit._closed,
    scenario="revived",
    within=40,
    found_by=["one entry per position", "tails move forward", "entries in order and once"],
)
def closed_at_the_last_entry(before: Chain, stop: int) -> Chain:
    """The position where the log is to go on is taken for one past it."""
    active = before.active
    assert active is not None
    return chain.close(before, max(active.start, stop - 1))


@mutant(AddressBook.expect, scenario="revived", within=20, found_by=["progress"])
def any_cluster_meant_before_a_register_is_known(self: AddressBook, cluster: bytes) -> None:
    """A node that starts asks all its peers for the register, even those of other clusters."""


@mutant(OpenNode._mismatch, scenario="revived", within=40, found_by=[FORMER, "tails move forward", "progress"])
def clients_of_another_cluster_let_in(self: OpenNode, found: Identity) -> WrongRecipientError | None:
    """A caller reaches a node although it means one of another cluster."""
    return mismatch(attrs.evolve(self, cluster=b""), found)


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
