"""One change of the chain: seal -> check_tail -> conditional put (Delos, OSDI'20, section 3.2).

    Extend, Close:     Seal ---> CheckSegmentTail ---> Put ---> Done(won)
                         ^          | still open  | lost: another client's version came first
                         '----------'             v
                                               Read ---> same last segment: Put again on top of it
                                                    '--> another one: Done(superseded)
    Truncate, Modify, ChangeMembers:  Put ---> ... the same, without a seal: they never move an unwritten position
                       (section 3.2)

Rules that are easy to get wrong:
* A loglet may tell its tail with the seal (`SupportsSealedTail`): the answer to `SealSegment` is then that tail.
* If a loglet reads as open after its seal has completed, it is sealed again.
* A newer version is no proof of an extend: truncate and modify make one as well. Only the id of the last segment counts.
* An unknown outcome of a put is settled by putting the same attempt again; the attempt identifies a win.
* Copies are on data directories: a `Modify` is refused once a directory that it counts on was replaced.
* A drained node gets nothing new. The nodes of an `Extend` or `Modify` may have been planned on an older register. So it
  is not put on a register in which they are drained, and a node whose roles are withdrawn only ever loses load.
* `ChangeMembers` carries the members that the operator saw. It is refused on others, as it would undo another change.
* A dropped loglet is no longer in the chain: go on with `step(register)`, as after a lost put.
* Two racing clients may read different tails; the put picks one, and only that one ever bounds the segment.

`chain_writer.py` runs the effects. Nothing is lost if it dies between any two of them: any client can start over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, assert_never

import attrs

from virtuallog.contract import chain
from virtuallog.contract.chain import Chain, Segment, SegmentId
from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.register import Register
from virtuallog.contract.types import LogletOffset, LogPosition, NodeId, Open, Sealed


@attrs.frozen
class Extend:
    """Continue the log on a new loglet."""

    kind: str
    config: bytes
    reopens: bool = True
    """True if a log that was closed on purpose is opened again. False for a roll-forward: the seal that it met may
    be that of a close."""
    nodes: frozenset[NodeId] = frozenset()
    """Nodes that the loglet needs. The change is lost, as to another one, if one of them is drained: plan it again."""
    only_at: int | None = None
    """Version of the register that the change builds on: it is lost, as to another one, at any other version. None: at any."""


@attrs.frozen
class Close:
    """End the log on purpose, without a successor."""


@attrs.frozen
class Truncate:
    """Drop the segments that lie wholly below `first`."""

    first: LogPosition
    """First position to keep."""


@attrs.frozen
class Modify:
    """Put another loglet under a closed segment."""

    segment: SegmentId
    kind: str
    config: bytes
    base: LogletOffset
    directories: Mapping[NodeId, bytes] = attrs.field(factory=dict)
    """Data directories (`NodeEntry.store_id`) of the copies, by node; empty if the loglet has none on nodes.

    A node with another directory in the register that the put builds on has no copy: the change is refused.
    """
    newcomers: frozenset[NodeId] = frozenset()
    """Nodes that had no copy before. The change is refused if one is drained in the register that the put builds on."""


@attrs.frozen
class ChangeMembers:
    """Make other nodes the members of the MetaStore from the next version on. The chain stays as it is."""

    members: tuple[NodeId, ...]
    """All new members."""
    seen: tuple[NodeId, ...]
    """The former members, as the operator saw them. The change is refused if they are others by now."""


Change: TypeAlias = Extend | Close | Truncate | Modify | ChangeMembers


@attrs.frozen
class SealSegment:
    """Seal the loglet of this segment, then `step(SealReturned())`, or `step` with the tail if it came with the seal."""

    segment: Segment


@attrs.frozen
class CheckSegmentTail:
    """Ask the loglet of this segment for its tail, then `step` with the answer."""

    segment: Segment


@attrs.frozen
class PutRegister:
    """Propose this register as the successor of `expected_version`."""

    register: Register
    expected_version: int


@attrs.frozen
class ReadRegister:
    """Read the register, then `step` with it."""


@attrs.frozen
class ChangeDone:
    """End of the change."""

    register: Register
    """Newest register."""
    won: bool
    """True if the change was made.

    False if another client's change of the last segment came first, or there was nothing to do, or a
    node that the new loglet was planned on was drained meanwhile.
    """


Effect: TypeAlias = SealSegment | CheckSegmentTail | PutRegister | ReadRegister | ChangeDone


@attrs.frozen
class SealReturned:
    """The seal has completed."""


@attrs.frozen
class PutWon:
    """The proposed register is decided."""


@attrs.frozen
class PutLost:
    """Another register has this version."""


@attrs.frozen
class PutUnknown:
    """The put may have been decided, now or later."""


Event: TypeAlias = SealReturned | Open | Sealed | PutWon | PutLost | PutUnknown | Register


@attrs.define
class Reconfiguration:
    """State machine of one change. `start` gives the first effect, each `step` the next one."""

    register: Register
    """Register that the change builds on."""
    change: Change
    attempt: int
    """Random number that identifies the put of this change."""
    _stop: LogPosition | None = None
    """Stop of the active segment; None before its sealed tail is known."""
    _proposed: Register | None = None
    """Register that was put last; None before the first put."""

    def start(self) -> Effect:
        """Begin; returns the first effect."""
        active = self.register.chain.active
        if not self._may_build_on(self.register):
            return ChangeDone(self.register, won=False)
        if isinstance(self.change, Truncate | Modify | ChangeMembers):
            return self._propose()
        if active is not None:
            return SealSegment(active)
        if not self._reopens:
            return ChangeDone(self.register, won=False)
        self._stop = self.register.chain.last.stop
        return self._propose()

    def forecast(self) -> Register | None:
        """The register that the change leads to if the active segment has entries; its size does not depend on how many.

        None if nothing is changed. For a look before anything is sealed.
        """
        return self._successor(LogPosition(self.register.chain.last.start + 1))

    def step(self, event: Event) -> Effect:
        """Take the outcome of the last effect; returns the next one.

        Raises:
            InvalidSettingError: the change is refused on the newest register; nothing was done.
        """
        match event:
            case SealReturned():
                return CheckSegmentTail(self.register.chain.last)
            case Open():
                return SealSegment(self.register.chain.last)
            case Sealed(tail):
                # The active loglet reports offsets; its stop may not lie below its own start.
                last = self.register.chain.last
                self._stop = last.position(max(tail, last.base))
                return self._propose()
            case PutWon():
                assert self._proposed is not None
                return ChangeDone(self._proposed, won=True)
            case PutUnknown():
                return self._put()
            case PutLost():
                return ReadRegister()
            case Register():
                return self._rebase(event)
            case _:
                assert_never(event)

    @property
    def _reopens(self) -> bool:
        return isinstance(self.change, Extend) and self.change.reopens

    def _may_build_on(self, register: Register) -> bool:
        return not isinstance(self.change, Extend) or self.change.only_at in {None, register.version}

    def _propose(self) -> Effect:
        if isinstance(self.change, Extend) and self.register.drained(self.change.nodes):
            return ChangeDone(self.register, won=False)
        after = self._successor(self._stop)
        if after is None:
            return ChangeDone(self.register, won=False)
        chain.validate(after.chain)
        chain.validate_successor(self.register.chain, after.chain)
        self._proposed = after
        return self._put()

    def _successor(self, stop: LogPosition | None) -> Register | None:
        if isinstance(self.change, ChangeMembers):
            return _with_members(self.register, self.change)
        if isinstance(self.change, Modify):
            _check_directories(self.register, self.change)
        after = successor(self.register.chain, self.change, stop, self.attempt)
        return None if after is None else self.register.with_chain(after)

    def _put(self) -> PutRegister:
        assert self._proposed is not None
        return PutRegister(self._proposed, self.register.version)

    def _rebase(self, found: Register) -> Effect:
        before, self.register = self.register, found
        if not self._may_build_on(found):
            return ChangeDone(found, won=False)
        if isinstance(self.change, Truncate | Modify | ChangeMembers):
            return self._propose()
        same_last = found.chain.last.id == before.chain.last.id
        if same_last and found.chain.last.stop == before.chain.last.stop:
            return self._propose()
        if same_last and self._reopens:  # another client closed the log meanwhile
            self._stop = found.chain.last.stop
            return self._propose()
        return ChangeDone(found, won=False)


def _with_members(before: Register, change: ChangeMembers) -> Register | None:
    """The register with the new members; None if it has them already.

    Checks here, as the operator may have seen an older register: others may have changed the members, or
    drained nodes, since.

    Raises:
        InvalidSettingError: the members are others than the operator saw, or a new one is drained or not in
            the cluster, or most of them have no data directory.
    """
    members = change.members
    after = before.with_members(members)
    if after is None:
        return None
    if before.members != change.seen:
        raise InvalidSettingError(
            "members", f"they are {list(before.members)} by now, not {list(change.seen)}: look again"
        )
    if strangers := [member for member in members if member not in before.nodes]:
        raise InvalidSettingError("members", f"no nodes of this cluster: {strangers}")
    if unfit := before.drained(member for member in members if member not in before.members):
        raise InvalidSettingError("members", f"nodes {unfit} are drained: they may be stopped at any time")
    if not after.is_decidable:
        raise InvalidSettingError("members", f"most of {list(members)} wait for a new data directory")
    return after


def successor(
    before: Chain, change: Extend | Close | Truncate | Modify, stop: LogPosition | None, attempt: int
) -> Chain | None:
    """The chain after `change`; None if there is nothing to do.

    Raises:
        InvalidSettingError: `Modify` of a segment that is open or gone.
    """
    match change:
        case Extend(kind, config):
            assert stop is not None
            return chain.extend(before, stop, kind, config, attempt)
        case Close():
            assert stop is not None
            return chain.close(before, stop)
        case Truncate(first):
            return chain.truncate(before, first)
        case Modify(segment, kind, config, base):
            return chain.modify(before, segment, kind, config, attempt, base)
        case _:
            assert_never(change)


def _check_directories(register: Register, change: Modify) -> None:
    stores = {node: entry.store_id for node, entry in register.nodes.items()}
    if replaced := [node for node, store_id in change.directories.items() if stores.get(node) != store_id]:
        raise InvalidSettingError("servers", f"nodes {replaced} have other data directories than what was copied to")
    if unfit := register.drained(sorted(change.newcomers)):
        raise InvalidSettingError("servers", f"nodes {unfit}, which a copy was made on, are drained")
