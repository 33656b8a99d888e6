"""Bounds on the work of one command, and the log position from which on they hold.

    work        bytes of records that a command looks at, and 64 for each look; an ACL that stands apart counts four times
    allowance   4 MiB, and 64 for each byte of the command: a command that would do more is refused, BAD_ARGUMENTS

A command costs its own size, not that of the existing records (`records.py`). So the allowance is
rarely met: by multis over records of the former version, and over many long ACLs. Ending a session
and reaping are never refused: the creations have paid for the deletions.

Former rules. A log may hold commands that were applied before these bounds existed, and a cluster
may have replicas of the former version. So the bounds, and the records that need them, come with a
switch of `virtuallog_database.engines.rollout`, `BOUNDS`. Each replica obeys them from the first
command behind it on, and replays what is before it as the former version would have applied it, to
the byte. The switch cannot be taken back: the counters of the tree say so then (`Meta.is_bounded`).
"""

from __future__ import annotations

from typing import Final

WORK_FREE: Final = 4 << 20
WORK_FACTOR: Final = 64
LOOK: Final = 64
"""Work of one look into the store, besides the bytes that it brings."""
ACL_LOOKS: Final = 4
"""Work for each byte of an ACL that stands apart: it is parsed, and each entry is looked at."""
UNBOUNDED: Final = 1 << 62
ACL_BYTES_MAX: Final = 32 << 10
"""Bytes of one stored ACL: 256 entries of 128 bytes."""
RECOUNT_MAX: Final = 100_000
"""Most znodes that a new quota may count, some 0.1 s on each replica."""
RECOUNT_BYTES: Final = 4096
"""Bytes of a record that count as one more znode: only records of the former version are longer."""
RECOUNT_PER_MS: Final = 50
"""Znodes that all quotas together may count, for each millisecond of the clock in the commands: a
twentieth of a processor."""
RECOUNT_AHEAD_MS: Final = 1000
"""Milliseconds by which the recounts may be ahead of that clock."""
CLOCKS_MS: Final = 10_000
"""Milliseconds of difference above which a clock is wrong, and its time is ignored."""


def allowance(size: int) -> int:
    """Work that a command of so many bytes may do."""
    return WORK_FREE + WORK_FACTOR * size


def may_recount(recounted_ms: int, now_ms: int) -> bool:
    """True if another quota may count; `recounted_ms` is the time until which the counts so far are
    paid."""
    return not RECOUNT_AHEAD_MS < recounted_ms - now_ms <= CLOCKS_MS


def after_recount(recounted_ms: int, now_ms: int, znodes: int) -> int:
    """Time until which the counts are paid, after so many more znodes have been counted."""
    is_known = now_ms < recounted_ms <= now_ms + CLOCKS_MS
    return (recounted_ms if is_known else now_ms) + znodes // RECOUNT_PER_MS
