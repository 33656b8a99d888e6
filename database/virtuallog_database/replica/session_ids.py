"""Ids and passwords of sessions, drawn by the server that proposes one. The top byte tells which node that was, as in ZooKeeper; of a local
session, which is one connection's alone and never in the log, it says that."""

from __future__ import annotations

import random
from typing import Final

from virtuallog_database.tree.commands import PASSWORD_BYTES

_NODES: Final = 0x7E
"""A top byte from 1 to 0x7e keeps ids positive, and none is 0, which stands for no session."""
_LOCAL: Final = 0x7F
_RANDOM_BITS: Final = 56


def draw_session_id(node: int, source: random.Random) -> int:
    """Not taken by anybody, as good as surely: the log refuses one that is."""
    return (1 + (node - 1) % _NODES) << _RANDOM_BITS | source.getrandbits(_RANDOM_BITS)


def draw_local_id(source: random.Random) -> int:
    """An id of a local session: no session of the log has it."""
    return _LOCAL << _RANDOM_BITS | source.getrandbits(_RANDOM_BITS)


def is_local(session: int) -> bool:
    """Whether this is the id of a local session, of any server."""
    return session >> _RANDOM_BITS == _LOCAL


def draw_password(source: random.Random) -> bytes:
    return source.randbytes(PASSWORD_BYTES)
