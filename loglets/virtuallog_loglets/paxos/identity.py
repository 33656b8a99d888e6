"""Where something lies in a log that is used by itself, as its users see it.                                          Pure.

Source: Mesos, `include/mesos/log/log.hpp`.
"""

from __future__ import annotations

import struct
from typing import Final

import attrs

from virtuallog.errors import MalformedError

_IDENTITY: Final = struct.Struct(">Q")


@attrs.frozen(order=True)
class Position:
    """A place in the log. Opaque but for its order."""

    value: int
    """For whoever looks at the log with other tools."""

    def identity(self) -> bytes:
        """Eight bytes that name it for ever; in the order of the positions."""
        return _IDENTITY.pack(self.value)

    @classmethod
    def from_identity(cls, identity: bytes) -> Position:
        """What `identity` was made from.

        Raises:
            MalformedError: it is none.
        """
        if len(identity) != _IDENTITY.size:
            raise MalformedError(f"the identity of a position has {_IDENTITY.size} bytes, this one {len(identity)}")
        return cls(_IDENTITY.unpack(identity)[0])

    def __str__(self) -> str:
        return str(self.value)
