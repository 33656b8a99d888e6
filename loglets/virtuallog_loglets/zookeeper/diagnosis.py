"""Evidence about a loglet in ZooKeeper: its znodes, as the answering server shows them.

See `virtuallog.contract.diagnosis`. Nothing is changed, so no quorum confirms it: it may be
slightly stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from virtuallog.contract.diagnosis import ANSWER_SECONDS, COMBINED, Evidence
from virtuallog.contract.errors import VirtualLogError
from virtuallog.contract.ports import Clock
from virtuallog.contract.znodes import Znode, Znodes
from virtuallog.exactly_once.slot_offsets import INDEX_BITS
from virtuallog_loglets.zookeeper.core.layout import ZooKeeperLayout
from virtuallog_loglets.zookeeper.core.records import RELEASED, decode_trim_untrusted


async def explain(layout: ZooKeeperLayout, znodes: Znodes, hosts: str, clock: Clock) -> list[Evidence]:
    """Evidence for each znode that matters."""
    found: Sequence[Znode | None] = ()
    problem = f"ZooKeeper at {hosts} does not answer"
    try:
        with clock.timeout(ANSWER_SECONDS):
            found = await znodes.read([layout.batches, layout.base, layout.trim, layout.writers])
    except VirtualLogError as error:
        problem = str(error)
    if not found:
        nothing: dict[str, Any] = {"tail": None, "sealed": None, "trim": None, "orders": []}
        return [Evidence(f"ZooKeeper {hosts}", {}, problem), Evidence(COMBINED, nothing, problem)]
    batches, seal, trim, writers = found
    if seal is None or batches is None or trim is None or writers is None:
        return _missing(layout, seal)
    tail, is_sealed = batches.stat.version << INDEX_BITS, seal.stat.version > 0
    trimmed = decode_trim_untrusted(trim.data)
    together = {
        "tail": tail, "undecided": 0, "by": [f"znode {layout.batches}"], "sealed": is_sealed, "trim": trimmed.trim, "orders": [],
    }  # fmt: skip
    return [
        Evidence(
            f"znode {layout.batches}", {"tail": tail, "slots": batches.stat.version, "znodes": batches.stat.children}
        ),
        Evidence(f"znode {layout.base}", {"sealed": is_sealed, "set": seal.stat.version}),
        Evidence(f"znode {layout.trim}", {"trim": trimmed.trim, "deleted_slots": trimmed.deleted}),
        Evidence(f"znode {layout.writers}", {"sessions": writers.stat.children}),
        Evidence(COMBINED, together),
    ]


def _missing(layout: ZooKeeperLayout, seal: Znode | None) -> list[Evidence]:
    """Evidence for a loglet without znodes: never used, or left the chain, or lost by ZooKeeper,
    which it cannot know."""
    if seal is not None and seal.data == RELEASED:
        problem = "the loglet has left the chain, and was deleted"
        return [
            Evidence(f"znode {layout.base}", {"sealed": True}, problem),
            Evidence(COMBINED, {"sealed": True}, problem),
        ]
    problem = "not there: no client has appended or sealed yet, or ZooKeeper has lost it"
    empty = {"tail": 0, "undecided": 0, "by": [], "sealed": False, "trim": 0, "orders": []}
    return [Evidence(f"znode {layout.base}", {}, problem), Evidence(COMBINED, empty)]
