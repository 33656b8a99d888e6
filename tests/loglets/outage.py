"""A loglet of any kind on three nodes while two of them are down."""

from __future__ import annotations

from typing import Any

import pytest

from tests.loglets.cluster import LogletCluster, writer
from virtuallog.contract.errors import UnavailableError
from virtuallog.contract.loglet import Loglet
from virtuallog.contract.types import LogletOffset


async def seal_after_an_outage(cluster: LogletCluster[Any, Any], loglet: Loglet) -> None:
    """Without nodes 1 and 2 nothing can be done, nor is it said to have failed; once they are back the loglet can be sealed."""
    cluster.crash(1)
    cluster.crash(2)
    for operation in (loglet.check_tail, loglet.seal, lambda: loglet.prefix_trim(LogletOffset(1))):
        with pytest.raises(UnavailableError):
            await operation()
    with pytest.raises(UnavailableError):
        await writer(loglet, b"v").append(b"b")
    await cluster.start(1)
    await cluster.start(2)
    await loglet.seal()
