"""When sessions end of themselves: who is heard of, and who is not any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from database.kv.results import Error

Ended: TypeAlias = Callable[[Error], None]
"""SESSION_EXPIRED: the session is over, by expiry or because it was closed. SESSION_MOVED: it has been attached anew, to whatever
server. Called on the event loop, at most once, while the command that did it is applied; must not raise."""


class Expiry(Protocol):
    """What the connections of this server say about their sessions."""

    def attach(self, session: int, generation: int, ended: Ended) -> None:
        """A connection of this server serves the session from now on. The former one, if any, is told SESSION_MOVED."""
        ...

    def detach(self, session: int, generation: int) -> None:
        """It does not any more; the session goes on without, until it expires. Nobody is told."""
        ...

    def heard(self, session: int) -> None:
        """Something came from the client. Costs next to nothing; what has been heard is told to all replicas about once a second."""
        ...
