"""A register that goes on from an exported one, without the MetaStore that decided it.                             Pure.

A majority of the members is lost for good, so nobody can decide the next version, and nobody knows for sure what the last one
was. What is made of a dump is therefore *another cluster*, which happens to have the same log:

* it has another cluster id. Every acceptor, node and connection refuses what is of another cluster, so a member of the old
  one that turns up after all, with votes that nobody knew of, can neither vote in the new one nor be outvoted by it. The id is
  a checksum of what was imported and for whom: the same import on several nodes makes the same cluster, and two different ones
  never meet;
* its first version lies far above any that the old cluster can have decided meanwhile: ids of segments, floors of LogServers
  and versions of joining are compared, and none is used twice;
* its first decision is no vote of anybody. It is written to the disks of its members before they start, like version 0.

What was decided after the export is not in it, and what was appended to segments that came after it is lost.
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
"""Versions left out: a cluster that changes its chain a thousand times a second needs seven weeks for them."""


def revive(dump: Dump, members: Sequence[NodeId]) -> Decision:
    """The first decision of the cluster that goes on from `dump`, decided by `members` from then on.

    Raises:
        InvalidSettingError: these are no nodes of the cluster, or nobody is there to decide.
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
