"""The register of the MetaStore: the chain, the members that decide its next version, and the nodes.

The value is a Cap'n Proto message (register.capnp), the one format of ours that must outlive every
binary: fields are only ever added. Its size is bounded in any state of the cluster
(`REGISTER_BYTES_MAX`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NewType

import attrs
import capnp

from virtuallog.contract.chain import Chain, Segment, SegmentId, validate
from virtuallog.contract.errors import MalformedError, TooLargeError
from virtuallog.contract.schema import load
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId
from virtuallog.contract.versions import FIRST

ClusterId = NewType("ClusterId", bytes)
"""16 random bytes, decided with version 1 and never changed."""

REGISTER_BYTES_MAX: Final = 64 << 10
"""Limit in bytes. A planned change that would exceed it is refused; roll-forward and a rebuild are
not."""
_CROWDED: Final = 4 * REGISTER_BYTES_MAX // 5

FORMAT: Final = 1
FORMAT_JOINED: Final = 2
"""Format with `NodeEntry.joined`.

A program that knows only format 1 must not read it: it would lose the field when it changes
anything else. The lowest sufficient format is written.
"""
FORMAT_GUARDED: Final = 3
"""Format with `Register.guarded`, for the same reason: without the field clients could append again."""
_SCHEMA = load("virtuallog.contract", "register.capnp")


@attrs.frozen(kw_only=True)
class NodeEntry:
    """Addresses, roles and data directory of a node."""

    store_id: bytes
    """16 random bytes made when the data directory was formatted; a wiped disk has another one.

    Empty if a new directory is expected to take this place
    (`virtuallog.reconfiguration.core.node_table`).
    """
    addresses: tuple[str, ...]
    """host:port, the preferred one first."""
    roles: frozenset[str]
    """Roles that loglets may use it for. Empty if the node is drained."""
    joined: int = 0
    """Version in which this data directory took the place; 0 if it was there from the beginning.

    It holds nothing of loglets of this version and earlier ones, even if their configs name the
    node: a former directory held these.
    """

    @property
    def is_expected(self) -> bool:
        """True if the place waits for a data directory."""
        return not self.store_id


@attrs.frozen(kw_only=True)
class Register:
    """One version of the register. Its version is that of its chain."""

    cluster: ClusterId
    chain: Chain
    members: tuple[NodeId, ...]
    """MetaStore members that decide the next version."""
    nodes: Mapping[NodeId, NodeEntry]
    level: int = FIRST
    """Protocol version that every node of the table has announced (`virtuallog.contract.versions`).

    Anything written for others to read may be of this version. A program that does not know this
    field writes 1; then it is raised again.
    """
    database: bool = False
    """True if a database stands on this log; then it alone decides what may be trimmed.

    A program that does not know this field loses it; the next server of the database that looks
    sets it again.
    """

    guarded: int = 0
    """Version in which the log was closed to clients; 0 if clients may append. Never taken back.

    From then on nodes take appends only from nodes and admins, to each loglet that stands in the
    chain from this version on.
    """

    @property
    def version(self) -> int:
        return self.chain.version

    @property
    def is_guarded(self) -> bool:
        """True if clients may no longer append."""
        return self.guarded > 0

    @property
    def is_open_to_clients(self) -> bool:
        """True if an append of a client may still reach the last segment.

        Also true for a guarded log with a last segment older than the guard: a node that does not
        know of the guard yet may take the append.
        """
        return not self.is_guarded or (self.chain.active is not None and self.chain.last.id.version < self.guarded)

    @property
    def is_decidable(self) -> bool:
        """True if a majority of the members has a data directory.

        Otherwise no next version can ever be decided, as naming a new directory takes a version.
        """
        seated = [member for member in self.members if member in self.nodes and not self.nodes[member].is_expected]
        return 2 * len(seated) > len(self.members)

    def drained(self, nodes: Iterable[NodeId]) -> list[NodeId]:
        """Return those nodes that no loglet may be put on: drained ones, and ones outside of the
        cluster."""
        return [node for node in nodes if node not in self.nodes or not self.nodes[node].roles]

    def with_chain(self, chain: Chain) -> Register:
        return attrs.evolve(self, chain=chain)

    def with_members(self, members: tuple[NodeId, ...]) -> Register | None:
        """Return the next version, after which `members` decide; None if they do already."""
        if members == self.members:
            return None
        return attrs.evolve(self.next(), members=members)

    def with_nodes(self, nodes: Mapping[NodeId, NodeEntry]) -> Register:
        """Return the next version, with this table of nodes."""
        return attrs.evolve(self.next(), nodes=nodes)

    def with_level(self, level: int) -> Register:
        """Return the next version, at this level."""
        return attrs.evolve(self.next(), level=level)

    def with_database(self) -> Register | None:
        """Return the next version, with a database on the log; None if it has one."""
        return None if self.database else attrs.evolve(self.next(), database=True)

    def with_guard(self) -> Register | None:
        """Return the next version, from which on clients do not append; None if they do not already."""
        return None if self.is_guarded else attrs.evolve(self.next(), guarded=self.version + 1)

    def next(self) -> Register:
        """Return the same content as the next version."""
        return attrs.evolve(self, chain=attrs.evolve(self.chain, version=self.version + 1))

    def encode(self) -> bytes:
        chain = self.chain
        message = _SCHEMA.Register.new_message(
            format=self._format(),
            cluster=self.cluster,
            version=chain.version,
            members=list(self.members),
            segments=[
                {
                    "version": segment.id.version,
                    "attempt": segment.id.attempt,
                    "kind": segment.kind,
                    "config": segment.config,
                    "start": segment.start,
                    "stop": -1 if segment.stop is None else segment.stop,
                    "base": segment.base,
                }
                for segment in chain.segments
            ],
            nodes=[
                {
                    "id": node,
                    "storeId": entry.store_id,
                    "addresses": list(entry.addresses),
                    "roles": sorted(entry.roles),
                    "joined": entry.joined,
                }
                for node, entry in sorted(self.nodes.items())
            ],
            level=self.level,
            database=self.database,
            guarded=self.guarded,
        )
        encoded: bytes = message.to_bytes()
        return encoded

    def _format(self) -> int:
        if self.is_guarded:
            return FORMAT_GUARDED
        return FORMAT_JOINED if any(entry.joined for entry in self.nodes.values()) else FORMAT

    def encode_planned(self, before: Register) -> bytes:
        """Encode a planned change.

        Refuses a value that is over `REGISTER_BYTES_MAX` and larger than `before`: the operator
        must trim the log first. A change that makes a full register smaller is never refused.

        Raises:
            TooLargeError: the value is refused.
        """
        encoded = self.encode()
        if len(encoded) > REGISTER_BYTES_MAX and len(encoded) > len(before.encode()):
            raise TooLargeError(what="bytes in the register", size=len(encoded), limit=REGISTER_BYTES_MAX)
        return encoded


def crowding(encoded_bytes: int) -> tuple[str, ...]:
    """Return warnings for the operator about a register of this size."""
    if encoded_bytes <= _CROWDED:
        return ()
    return (f"the register holds {encoded_bytes} bytes: at {REGISTER_BYTES_MAX} planned changes stop. Trim the log",)


def decode_untrusted(value: bytes) -> Register:
    """Decode a register.

    Raises:
        MalformedError: not a register, or one of a later format.
    """
    try:
        # Danger: a list of empty structs takes no room, however long it claims to be. Each byte may
        # be visited as a word: ample.
        with _SCHEMA.Register.from_bytes(value, traversal_limit_in_words=len(value)) as message:
            return _decode_untrusted(message)
    except (capnp.KjException, ValueError) as error:
        raise MalformedError(f"not a register: {error}") from error


def _decode_untrusted(message: Any) -> Register:
    if not FORMAT <= message.format <= FORMAT_GUARDED:
        raise MalformedError(f"a register of format {message.format}; this program reads up to {FORMAT_GUARDED}")
    segments = tuple(
        Segment(
            id=SegmentId(segment.version, segment.attempt),
            kind=segment.kind,
            config=bytes(segment.config),
            start=LogPosition(segment.start),
            stop=None if segment.stop < 0 else LogPosition(segment.stop),
            base=LogletOffset(segment.base),
        )
        for segment in message.segments
    )
    if not segments:
        raise MalformedError("a register without segments")
    chain = Chain(message.version, segments)
    try:
        validate(chain)
    except AssertionError as error:
        raise MalformedError(f"a register whose chain is broken: {chain}") from error
    return Register(
        cluster=ClusterId(bytes(message.cluster)),
        chain=chain,
        members=tuple(NodeId(member) for member in message.members),
        nodes={
            NodeId(node.id): NodeEntry(
                store_id=bytes(node.storeId),
                addresses=tuple(node.addresses),
                roles=frozenset(node.roles),
                joined=node.joined,
            )
            for node in message.nodes
        },
        level=message.level,
        database=message.database,
        guarded=message.guarded,
    )
