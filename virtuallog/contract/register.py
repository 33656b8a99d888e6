"""What the MetaStore's register holds: the chain, who decides the next version, and where the nodes are.

The value is a Cap'n Proto message (register.capnp), the one format of ours that must outlive every binary: fields are
only ever added. Its size is bounded, whatever happens to the cluster (`REGISTER_BYTES_MAX`).
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
"""A planned change that would grow the register beyond this is refused; roll-forward is not, nor is a rebuild."""
_CROWDED: Final = 4 * REGISTER_BYTES_MAX // 5

_FORMAT: Final = 1
_FORMAT_JOINED: Final = 2
"""With `NodeEntry.joined`, which a program that knows format 1 only would lose when it changes anything else: it must not
read this. The lowest format that serves is written."""
_FORMAT_GUARDED: Final = 3
"""With `Register.guarded`, for the same reason: without the field, clients could append again."""
_SCHEMA = load("virtuallog.contract", "register.capnp")


@attrs.frozen(kw_only=True)
class NodeEntry:
    """Where a node is and which data directory it owns."""

    store_id: bytes
    """16 random bytes made when the data directory was formatted; a wiped disk has another one. Empty: a new directory
    is expected to take this place (`virtuallog.reconfiguration.core.node_table`)."""
    addresses: tuple[str, ...]
    """host:port, the preferred one first."""
    roles: frozenset[str]
    """What loglets may use it for. None of them: it is drained."""
    joined: int = 0
    """The version in which this data directory took the place; 0 if it was there from the beginning. Of loglets of this
    version and earlier ones it holds nothing, whatever their configs say: a former directory did."""

    @property
    def is_expected(self) -> bool:
        """Whether the place waits for a data directory."""
        return not self.store_id


@attrs.frozen(kw_only=True)
class Register:
    """One version of the register. Its version is its chain's."""

    cluster: ClusterId
    chain: Chain
    members: tuple[NodeId, ...]
    """MetaStore members that decide the next version."""
    nodes: Mapping[NodeId, NodeEntry]
    level: int = FIRST
    """The version of the protocol that every node of the table has announced: what one writes for others to read may be of
    this version (`virtuallog.contract.versions`). A program that does not know this field writes 1; then it is raised again."""
    database: bool = False
    """A database stands on this log: it alone says what may be trimmed. A program that does not know this field loses it; then the
    next server of the database that looks says so again."""

    guarded: int = 0
    """The version in which the log became that of its members: nodes take appends from nodes and admins alone, to each loglet
    that stands in the chain from this version on. 0: clients append, too. Never taken back."""

    @property
    def version(self) -> int:
        return self.chain.version

    @property
    def is_guarded(self) -> bool:
        """Whether clients may no longer append."""
        return self.guarded > 0

    @property
    def is_open_to_clients(self) -> bool:
        """Whether an append of a client may still reach the last segment: a node that does not know yet that the log is guarded may
        take it, as the segment is older than that."""
        return not self.is_guarded or (self.chain.active is not None and self.chain.last.id.version < self.guarded)

    @property
    def is_decidable(self) -> bool:
        """Whether a majority of the members has a data directory: else nobody can ever decide a next version, as it takes
        a version to name a new directory."""
        seated = [member for member in self.members if member in self.nodes and not self.nodes[member].is_expected]
        return 2 * len(seated) > len(self.members)

    def drained(self, nodes: Iterable[NodeId]) -> list[NodeId]:
        """Those of the nodes that nothing may be put on: they have no roles, or are no part of the cluster any more."""
        return [node for node in nodes if node not in self.nodes or not self.nodes[node].roles]

    def with_chain(self, chain: Chain) -> Register:
        return attrs.evolve(self, chain=chain)

    def with_members(self, members: tuple[NodeId, ...]) -> Register | None:
        """The next version, after which `members` decide; None if they do already."""
        if members == self.members:
            return None
        return attrs.evolve(self.next(), members=members)

    def with_nodes(self, nodes: Mapping[NodeId, NodeEntry]) -> Register:
        """The next version, with this table of nodes."""
        return attrs.evolve(self.next(), nodes=nodes)

    def with_level(self, level: int) -> Register:
        """The next version, at this level."""
        return attrs.evolve(self.next(), level=level)

    def with_database(self) -> Register | None:
        """The next version, in which a database stands on the log; None if that is known."""
        return None if self.database else attrs.evolve(self.next(), database=True)

    def with_guard(self) -> Register | None:
        """The next version, from which on clients do not append; None if that is so already."""
        return None if self.is_guarded else attrs.evolve(self.next(), guarded=self.version + 1)

    def next(self) -> Register:
        """The same as the next version."""
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
            return _FORMAT_GUARDED
        return _FORMAT_JOINED if any(entry.joined for entry in self.nodes.values()) else _FORMAT

    def encode_planned(self, before: Register) -> bytes:
        """`encode`, refused when it is over `REGISTER_BYTES_MAX` and over what it follows: trim the log first.
        What makes a full register smaller is never refused.

        Raises:
            TooLargeError: as said.
        """
        encoded = self.encode()
        if len(encoded) > REGISTER_BYTES_MAX and len(encoded) > len(before.encode()):
            raise TooLargeError(what="bytes in the register", size=len(encoded), limit=REGISTER_BYTES_MAX)
        return encoded


def crowding(encoded_bytes: int) -> tuple[str, ...]:
    """What people should know of a register of this size."""
    if encoded_bytes <= _CROWDED:
        return ()
    return (f"the register holds {encoded_bytes} bytes: at {REGISTER_BYTES_MAX} planned changes stop. Trim the log",)


def decode_untrusted(value: bytes) -> Register:
    """The register in `value`.

    Raises:
        MalformedError: not a register, or one of a later format.
    """
    try:
        # A list of empty structs takes no room, however long it says it is. Each byte may be visited as a word: ample.
        with _SCHEMA.Register.from_bytes(value, traversal_limit_in_words=len(value)) as message:
            return _decode_untrusted(message)
    except (capnp.KjException, ValueError) as error:
        raise MalformedError(f"not a register: {error}") from error


def _decode_untrusted(message: Any) -> Register:
    if not _FORMAT <= message.format <= _FORMAT_GUARDED:
        raise MalformedError(f"a register of format {message.format}; this program reads up to {_FORMAT_GUARDED}")
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
