"""What a server grants all its connections together. What each may take is in `server.py`; docs/limits.md has all bounds."""

from __future__ import annotations

import attrs

from virtuallog.errors import InvalidSettingError


@attrs.frozen(kw_only=True)
class ServerLimits:
    """Sizes in bytes, times in seconds."""

    connections_max: int = 1024
    """At a time. A node has one of each other node and of each client; more is a leak, or an attack. Each costs a
    descriptor and some 20 KB, with TLS 160 KiB. For one more, another one has to go (see `admission.py`)."""

    held_bytes_max: int = 256 << 20
    """What all connections together may make the node hold: frames that are not whole, calls without an answer, replies
    that are not taken. Ten honest clients hold a few MiB each; a connection may hold some 50 MiB when it is alone."""

    silent_seconds: float = 10.0
    """Until a connection has asked something. Our clients do so with their first bytes; TLS takes two round trips."""

    stalled_seconds: float = 30.0
    """Until a frame that has begun is whole, and until 256 KiB of replies are taken. Half a MiB a second at least for the
    largest frame, 9 KB a second for replies: whoever is slower cannot follow this log anyway."""

    def __attrs_post_init__(self) -> None:
        if self.connections_max < 1 or self.held_bytes_max < 1:
            raise InvalidSettingError("limits of connections", "must be positive")
