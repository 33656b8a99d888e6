"""Promises of an import of the register (`virtuallog_server.storage.register_import`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.register import decode_untrusted as decode_register
from virtuallog.contract.types import NodeId
from virtuallog.testing.checker.actions import LogAppend, RegisterPut
from virtuallog.testing.checker.history import History
from virtuallog.testing.checker.violation import Check, Violation, proof
from virtuallog_metastore.core.acceptor import Acceptor
from virtuallog_metastore.disaster_recovery import revival
from virtuallog_metastore.disaster_recovery.dump import Dump
from virtuallog_metastore.messages import Decision
from virtuallog_server.storage.identity import FormatPhase, IdentityRecord
from virtuallog_simulation.checks.history.facts import chains

HALF_DONE: Final = "an import ended half-way"
OLDER: Final = "an older export was imported"
EDITED: Final = "an edited export was imported"
REFUSED: Final = "an import was refused"
REPEATED: Final = "an import was done twice"
LOOKED: Final = (HALF_DONE, OLDER, EDITED, REFUSED, REPEATED)
"""Counted for the coverage of a set of seeds."""


@attrs.frozen(kw_only=True)
class StoppedDirectory:
    """Data directory of a stopped node, as it lies on its disks."""

    marker: IdentityRecord | None
    acceptor: Acceptor
    votes: Mapping[bytes, bytes]
    """The acceptor's store, byte for byte."""
    identity: bytes
    """The identity file."""


@attrs.frozen(kw_only=True)
class RegisterImport:
    """One `metastore import` that ended by itself."""

    before: StoppedDirectory
    after: StoppedDirectory
    found: Dump
    members: Sequence[NodeId]
    answering: Collection[NodeId]
    """Nodes of the former cluster that run meanwhile."""
    outcome: Decision | VirtualLogError


def imports_take_what_fits(one: RegisterImport) -> Iterator[Violation]:
    """An import is refused whenever the manual says so, with nothing changed; else the directory is what the file says."""
    check = "imports take what fits"
    refusal = _refusal(one)
    if isinstance(one.outcome, VirtualLogError):
        if not refusal:
            yield Violation(check, f"refused, and nothing speaks against it: {one.outcome}")
        if (one.before.votes, one.before.identity) != (one.after.votes, one.after.identity):
            yield Violation(check, f"refused, and the directory has changed: {one.outcome}")
        return
    if refusal:
        yield Violation(check, f"taken, although {refusal}")
        return
    decided = decode_register(one.outcome.proposal.value)
    if one.after.acceptor.decision != one.outcome:
        yield Violation(check, "taken, and the directory knows another decision")
    if one.after.marker is None or one.after.marker.cluster != decided.cluster:
        yield Violation(check, "taken, and the directory is of another cluster")
    if one.before.acceptor.decision == one.outcome:
        if one.before.votes != one.after.votes:
            yield Violation(check, "done twice, and the second time has changed votes")
    elif one.after.acceptor.accepted is not None or one.after.acceptor.promised != Acceptor(one.outcome).promised:
        yield Violation(check, "taken, and a vote of the former cluster is left")


def _refusal(one: RegisterImport) -> str:
    """Why an import must be refused; empty if it must not."""
    marker, known, exported = one.before.marker, one.before.acceptor.decision, one.found.register
    if marker is None or marker.phase is not FormatPhase.FORMATTED:
        return "the directory is of no cluster"
    entry = exported.nodes.get(marker.node)
    if entry is None or entry.store_id != marker.store_id:
        return "the file does not name the directory"
    decision = revival.revive(one.found, one.members)
    if marker.cluster not in {exported.cluster, decode_register(decision.proposal.value).cluster}:
        return "the directory is of another cluster"
    if one.answering:
        return f"nodes {sorted(one.answering)} of the former cluster answer"
    if known is None or not known.proposal.value or known == decision:
        return ""
    if known.version > exported.version:
        return f"the directory knows version {known.version}, and the file is of version {exported.version}"
    if known.version == exported.version and known.proposal.value != one.found.value:
        return f"the directory knows another value of version {known.version}"
    return ""


def other_members_other_cluster(found: Dump, members: Sequence[Sequence[NodeId]]) -> Iterator[Violation]:
    """Importing one file with different members makes different clusters, none of them the former
    one."""
    made = [decode_register(revival.revive(found, each).proposal.value).cluster for each in members]
    if len({found.register.cluster, *made}) != 1 + len(members):
        yield Violation("a revived cluster is another one", f"imports for {members} make no clusters of their own")


def register_import_checks(imported: Decision, began: int, former: Collection[str]) -> Sequence[Check]:
    """Checks of a history in which a cluster went on from an import.

    Args:
        imported: its first decision.
        began: the number of events before any node of the new cluster ran.
        former: clients and nodes that know the former cluster alone.
    """

    def revived_is_another(history: History) -> Iterator[Violation]:
        new = decode_register(imported.proposal.value).cluster
        for version, one in chains(history).items():
            assert one.register is not None
            if (one.register.cluster == new) != (version >= imported.version):
                message = f"version {version} is of cluster {one.register.cluster.hex()}, the import of {new.hex()}"
                yield Violation("a revived cluster is another one", message, proof(one.known_by))

    def former_is_refused(history: History) -> Iterator[Violation]:
        for done in history.operations(LogAppend, RegisterPut):
            if done.client in former and done.invoked >= began and done.returned:
                message = f"{done.client} knows the former cluster, and was told that it has changed something"
                yield Violation("the former cluster changes nothing", message, proof(done))

    return (revived_is_another, former_is_refused)
