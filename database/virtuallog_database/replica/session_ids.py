"""Ids and passwords of sessions, drawn by the server that proposes one.

The top byte of an id is the node, as in ZooKeeper. In the id of a local session it is a marker:
such a session belongs to one connection alone and is never in the log.
"""

from __future__ import annotations

import random
from typing import Final

from virtuallog_database.tree.commands import PASSWORD_BYTES

_NODES: Final = 0x7E
"""Number of node bytes. A top byte from 1 to 0x7e keeps ids positive, and none of them 0, which
means no session."""
_LOCAL: Final = 0x7F
_RANDOM_BITS: Final = 56


def draw_session_id(node: int, source: random.Random) -> int:
    """Draw an id that is practically unique; the log refuses a duplicate."""
    return (1 + (node - 1) % _NODES) << _RANDOM_BITS | source.getrandbits(_RANDOM_BITS)


def draw_local_id(source: random.Random) -> int:
    """Draw the id of a local session, which no session of the log has."""
    return _LOCAL << _RANDOM_BITS | source.getrandbits(_RANDOM_BITS)


def is_local(session: int) -> bool:
    """True if this is the id of a local session, of any server."""
    return session >> _RANDOM_BITS == _LOCAL


def draw_password(source: random.Random) -> bytes:
    return source.randbytes(PASSWORD_BYTES)
