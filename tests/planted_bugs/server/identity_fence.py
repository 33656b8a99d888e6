"""Bugs of who is meant: a directory that was given up, a copy of one, a place that is free, a store that is gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tests.planted_bugs.mutant import Mutant, mutant
from virtuallog.client.address_book import AddressBook
from virtuallog.contract.errors import CorruptionError, VirtualLogError
from virtuallog.contract.ports import Request, Storage
from virtuallog.contract.register import Register
from virtuallog.contract.types import NodeId
from virtuallog.rpc.link import Peer
from virtuallog.rpc.protocol.node import OpenNode
from virtuallog.rpc.services import RpcServices
from virtuallog_loglets.native.core.durable_state import DurableLogs
from virtuallog_loglets.tombstones import Tombstones
from virtuallog_loglets.wal.core.record import WalRecord
from virtuallog_server.node import node as node_module
from virtuallog_server.node.identity_fence import IdentityFence, own_addresses
from virtuallog_server.storage.stores import FILES, VALUES, Opening, Stores

STALE: Final = [
    "tails move forward",
    "loglet tails move forward",
    "acknowledged below the stop",
    "one entry per position",
]
TWO_VALUES: Final = ["one winner per version", "one value per version", "versions move forward", "acceptors agree"]

learned = AddressBook.learn
resided = IdentityFence.learn
snapshot = DurableLogs.snapshot


@mutant(RpcServices._refusal, scenario="estranged", within=20, found_by=STALE)
def calls_to_the_own_node_are_not_checked(self: RpcServices) -> VirtualLogError | None:
    """A directory that was given up counts its own copies as those of its successor."""
    return None


@mutant(IdentityFence.refusal_of, scenario="expelled", within=10, found_by=["given up moves nothing", "progress"])
def given_up_directory_acts_on_its_register(
    self: IdentityFence, node: NodeId, request: Request[Any]
) -> VirtualLogError | None:
    """Its healer and its client go on to change the log of others."""
    return None


@mutant(IdentityFence.learn, scenario="expelled", within=10, found_by=["given up moves nothing", "progress"])
def removed_node_goes_on(self: IdentityFence, register: Register) -> None:
    """A node notices only another directory in its place, not its own removal."""
    if self.identity.node in register.nodes:
        resided(self, register)


@mutant(AddressBook.learn, scenario="vacant", within=10, found_by=["given up moves nothing", *STALE])
def expected_place_is_open_to_anybody(self: AddressBook, register: Register) -> None:
    """While no directory has the place, the one that was given up may go on in it."""
    learned(self, register)
    for node, entry in register.nodes.items():
        if entry.is_expected:
            self._peers[node] = Peer(entry.addresses, OpenNode(node=node))


@mutant(IdentityFence._look_at_addresses, scenario="copied", within=20, found_by=[*TWO_VALUES, *STALE])
def directory_is_itself_wherever_it_is(self: IdentityFence) -> None:
    """The store id is right, so a copy that was started on another machine votes as well."""
    self.refusal = None


@mutant(own_addresses, used_in=node_module, scenario="copied", within=20, found_by=[*TWO_VALUES, *STALE])
def copied_list_of_peers_proves_the_address(listen: str, peers: Iterable[tuple[int, str]], node: int) -> frozenset[str]:
    """The list was copied with the directory, and names the address of the original."""
    return frozenset({listen, *(address for peer, address in peers if peer == node)})


@mutant(Stores.is_lost, scenario="hollow", within=10, found_by=["lost store stays out", *TWO_VALUES, *STALE])
def lost_store_is_founded_anew(self: Stores, kind: str, role: str) -> bool:
    """A missing store is taken for one that never existed."""
    return False


@mutant(Stores.is_lost, scenario="hollow", within=20, found_by=["lost store stays out", *TWO_VALUES])
def lost_votes_are_founded_anew(self: Stores, kind: str, role: str) -> bool:
    """Only folders of files are checked: an acceptor whose map is gone votes a second time."""
    return kind == FILES and (kind, role) not in self._present and f"founded.{kind}.{role}" in self._marked


@mutant(Stores.is_lost, scenario="hollow", within=20, found_by=["lost store stays out", *STALE])
def lost_log_server_starts_empty(self: Stores, kind: str, role: str) -> bool:
    """Only maps are checked: a log server whose files are gone is empty and unsealed."""
    return kind == VALUES and (kind, role) not in self._present and f"founded.{kind}.{role}" in self._marked


@mutant(Stores.check, scenario="hollow", within=20, found_by=["lost store stays out", *TWO_VALUES, *STALE])
async def lost_store_is_refused_once(self: Stores, kind: str, role: str) -> None:
    """The refused start has made a folder for it, so the next one finds a store."""
    if (kind, role) not in self._present and f"founded.{kind}.{role}" in self._marked:
        await self._root.remove(f"founded.{kind}.{role}")
        raise CorruptionError(f"{kind}/{role} is lost")


@mutant(Opening.storage, scenario="hollow", within=40, found_by=["progress", "no unexpected error"])
async def store_is_marked_before_it_is_founded(self: Opening, role: str) -> Storage:
    """A node that dies in between has lost a store that it never had, and is refused for good."""
    await self._stores.check(FILES, role)
    await self._stores.mark(FILES, role)
    self._files[role] = storage = await self._open_storage(role)
    return storage


@mutant(DurableLogs.snapshot, scenario="cluster", within=40, found_by=["restart forgets nothing"])
def what_was_dropped_is_not_in_the_snapshot(self: DurableLogs) -> list[WalRecord]:
    """A new segment of the WAL begins without the floor: once the old ones are deleted, dropped loglets may come back."""
    tombstones, self.tombstones = self.tombstones, Tombstones()
    try:
        return snapshot(self)
    finally:
        self.tombstones = tombstones


MUTANTS: Final[tuple[Mutant, ...]] = tuple(found for found in list(globals().values()) if isinstance(found, Mutant))
