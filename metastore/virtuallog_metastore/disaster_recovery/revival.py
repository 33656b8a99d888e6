"""Revival: a register that goes on from an exported one, without the MetaStore that decided it.

If a majority of the members is lost for good, no next version can be decided, and the last one is
not known for sure. A register made from a dump is therefore *another cluster*, which happens to
have the same log:

* it has another cluster id. Every acceptor, node and connection refuses anything of another
  cluster. A member of the old one that turns up after all, with unknown votes, can neither vote in
  the new one nor be outvoted by it. The id is a checksum of what was imported and for which
  members: the same import on several nodes makes the same cluster, and two different ones never
  meet;
* its first version lies far above any that the old cluster can have decided meanwhile: ids of
  segments, floors of LogServers and versions of joining are compared, and none is used twice;
* its first decision is no vote. It is written to the disks of its members before they start, like
  version 0.

Decisions made after the export are not in it, and entries appended to segments that came after it
are lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import attrs

from virtuallog.contract.errors import InvalidSettingError
from virtuallog.contract.register import ClusterId
from virtuallog.contract.types import POSITION_MAX, NodeId
from virtuallog_metastore.disaster_recovery.dump import Dump
from virtuallog_metastore.messages import Decision, Proposal

LEAP: Final = 1 << 32
"""Number of versions left out. A cluster with a thousand changes of its chain a second needs seven
weeks for them."""


def revive(dump: Dump, members: Sequence[NodeId]) -> Decision:
    """Make the first decision of the cluster that goes on from `dump`, decided by `members` from then on.

    Raises:
        InvalidSettingError: a member is no node of the cluster, or there are no members.
    """
    chosen = tuple(sorted(set(members)))
    known = dump.register.nodes
    if not chosen or len(chosen) != len(members):
        raise InvalidSettingError("members", f"needs different nodes, at least one, not {list(members)}")
    if strangers := [node for node in chosen if node not in known or known[node].is_expected]:
        raise InvalidSettingError("members", f"no nodes of this cluster: {strangers}")
    version = dump.register.version + LEAP
    if version > POSITION_MAX:
        raise InvalidSettingError("version", f"{version} is beyond the largest")
    digest = hashlib.sha256(dump.encode() + b",".join(b"%d" % node for node in chosen)).digest()
    chain = attrs.evolve(dump.register.chain, version=version)
    register = attrs.evolve(dump.register, cluster=ClusterId(digest[:16]), chain=chain, members=chosen)
    attempt = int.from_bytes(digest[16:24], "little") >> 1
    return Decision(
        version=version,
        proposal=Proposal(value=register.encode(), members=chosen, attempt=attempt, earlier=()),
    )
