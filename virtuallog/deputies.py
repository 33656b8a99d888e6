"""What a client that may not do something itself asks a node for.

With TLS, a certificate of the role `client` does for appends and reads. To complete a seal, a repair or a trim that
somebody left half done takes more (docs/security.md): nodes do it, and a client waits, or asks one here.
"""

from __future__ import annotations

from typing import Final

from virtuallog.control import FindTrimPoint
from virtuallog.errors import RetryableError, UnavailableError
from virtuallog.types import LogPosition
from virtuallog.view import View

ASK_SECONDS: Final = 5.0
"""For one node: it has to ask a majority of the servers of each segment that it knows to be trimmed."""


async def ask_for_trim_point(view: View) -> LogPosition:
    """The trim point, from the first node that tells it.

    Raises:
        UnavailableError: none does.
    """
    problem: RetryableError = UnavailableError("no node is known")
    for node in sorted((await view.current()).nodes):
        try:
            found = await view.environment.services.call(node, FindTrimPoint(), ASK_SECONDS)
            return LogPosition(found.position)
        except RetryableError as error:
            problem = error
    raise UnavailableError(f"no node has told where the log begins: {problem}")
