"""Members of a Raft log, and the rules by which a leader changes them.

One voter at a time: two majorities, before and after such a change, share a member. A change is a record, in force from
the moment it is in a replica's log, committed or not; a truncation takes it back. A leader accepts one only if

* a record of its own term is committed: otherwise a change of an earlier leader may still come to be committed, and
  both together change two (Ongaro, 2015);
* every earlier change is committed;
* the caller names the index of the present configuration: no caller overwrites a change that it has not seen;
* it adds or removes at most one voter, changes something, and does not remove the leader itself: that transfers first.

A new member begins as PRE_VOTER: it receives records and counts for nothing. Once it has caught up, the leader makes it a
VOTER, by a change of its own.

Source: Ongaro's thesis, chapter 4; Kudu and YugabyteDB (specs). Encoded, little-endian:

    version u8 (1) | members u16 | for each: node u64, kind u8, address length u16, address
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError, MalformedError
from virtuallog.contract.placement import majority_of
from virtuallog.contract.types import NodeId

MEMBERS_MAX: Final = 64
"""Most members of one log."""

ADDRESS_BYTES_MAX: Final = 255
"""Longest address: a host name has up to 253 bytes."""

_HEAD: Final = struct.Struct("<BH")
_MEMBER: Final = struct.Struct("<QBH")
_VERSION: Final = 1


class MemberKind(enum.IntEnum):
    """Rights of a member, as encoded."""

    VOTER = 1
    PRE_VOTER = 2
    """Becomes a VOTER once it has caught up."""
    OBSERVER = 3
    """Receives records, and stays as it is."""


@attrs.frozen
class RaftMember:
    """One member of a configuration."""

    kind: MemberKind
    address: str = ""
    """Address at which peers reach it; empty if they know it by its node id."""


@attrs.frozen
class Configuration:
    """Members of a log from the record at `index` on."""

    index: int
    """Index of its record; 0 for the members that the log was made with."""
    members: Mapping[NodeId, RaftMember]
    voters: tuple[NodeId, ...] = attrs.field(init=False, eq=False, repr=False)
    quorum: int = attrs.field(init=False, eq=False, repr=False)
    """Voters that elect, and that commit."""

    @voters.default
    def _find_voters(self) -> tuple[NodeId, ...]:
        return tuple(node for node, member in self.members.items() if member.kind is MemberKind.VOTER)

    @quorum.default
    def _find_quorum(self) -> int:
        return majority_of(len(self.voters))

    @classmethod
    def unknown(cls) -> Configuration:
        """Members as a store knows them that has joined no log yet: the log's records will tell."""
        return cls(0, {})

    @classmethod
    def of_voters(cls, voters: tuple[NodeId, ...]) -> Configuration:
        """Members of a log that was made with these voters."""
        return cls(0, {voter: RaftMember(MemberKind.VOTER) for voter in voters})

    def is_voter(self, node: NodeId) -> bool:
        member = self.members.get(node)
        return member is not None and member.kind is MemberKind.VOTER

    def encode(self) -> bytes:
        """Encode for the body of a record, which says the index."""
        parts = [_HEAD.pack(_VERSION, len(self.members))]
        for node, member in sorted(self.members.items()):
            address = member.address.encode()
            parts += [_MEMBER.pack(node, member.kind, len(address)), address]
        return b"".join(parts)


def decode_untrusted(index: int, blob: bytes) -> Configuration:
    """Decode the configuration of the record at `index`.

    Raises:
        MalformedError: not a configuration, or one of a later version. None but that of index 0 is without members.
    """
    members: dict[NodeId, RaftMember] = {}
    try:
        version, count = _HEAD.unpack_from(blob)
        at = _HEAD.size
        for _ in range(count):
            node, kind, length = _MEMBER.unpack_from(blob, at)
            at += _MEMBER.size
            address = blob[at : at + length]
            at += length
            members[NodeId(node)] = RaftMember(MemberKind(kind), address.decode())
    except (struct.error, ValueError) as error:
        raise MalformedError("not the members of a Raft log") from error
    if version != _VERSION or at != len(blob) or len(members) != count or count > MEMBERS_MAX:
        raise MalformedError(f"not the members of a Raft log, of version {_VERSION}")
    if index and not count:
        raise MalformedError(f"the record at {index} leaves a Raft log without members")
    return Configuration(index, members)


def with_member(present: Configuration, node: NodeId, kind: int, address: str) -> dict[NodeId, RaftMember]:
    """Members after an operator has added one. It begins without a vote.

    Raises:
        InvalidSettingError: it is a member, or cannot be added as this.
    """
    if node in present.members:
        raise InvalidSettingError("members", f"store {node} is a member already")
    if kind not in (MemberKind.PRE_VOTER, MemberKind.OBSERVER):
        raise InvalidSettingError("members", f"a new member begins as PRE_VOTER or OBSERVER, not as kind {kind}")
    if node < 1 or not address or len(address) > ADDRESS_BYTES_MAX or not address.isascii():
        raise InvalidSettingError("members", f"'{node}@{address[:80]}' is no store with an address")
    return {**present.members, node: RaftMember(MemberKind(kind), address)}


def without_member(present: Configuration, node: NodeId) -> dict[NodeId, RaftMember]:
    """Members after an operator has removed one.

    Raises:
        InvalidSettingError: it is no member.
    """
    if node not in present.members:
        raise InvalidSettingError("members", f"store {node} is no member")
    return {member: found for member, found in present.members.items() if member != node}


def check_change(former: Configuration, members: Mapping[NodeId, RaftMember], leader: NodeId) -> None:
    """Check that a leader may change `former` to `members` in one step.

    Raises:
        InvalidSettingError: it may not; the error names the reason.
    """
    latter = Configuration(0, members)
    changed = set(former.voters) ^ set(latter.voters)
    if not latter.voters:
        raise InvalidSettingError("members", "a log needs a voter")
    if len(members) > MEMBERS_MAX:
        raise InvalidSettingError("members", f"at most {MEMBERS_MAX}")
    if len(changed) > 1:
        raise InvalidSettingError("members", f"one voter at a time, not {len(changed)}")
    if leader in changed:
        raise InvalidSettingError("members", f"{leader} leads: transfer the leadership first")
    if dict(former.members) == dict(members):
        raise InvalidSettingError("members", "this changes nothing")
