"""The judge's own client of a Zelos: what it makes of what servers send."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest
import trio.testing

from virtuallog.contract.errors import MalformedError
from virtuallog.testing.checker.history import History
from virtuallog_simulation.workload.database.connection import Connection
from virtuallog_simulation.workload.database.requests import Granted

PONG = b"\xff\xff\xff\xfe" + bytes(8) + bytes(4)
"""The answer to a ping."""


@asynccontextmanager
async def frames(*found: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
    async def each() -> AsyncGenerator[bytes, None]:
        for frame in found:
            yield frame

    async with aclosing(each()) as them:
        yield them


def connection() -> Connection:
    stream, _ = trio.testing.memory_stream_pair()
    return Connection(1, stream, Granted(1, 1000, b""), History(), "client", 0)


async def test_an_answer_that_nobody_asked_for_breaks_the_protocol() -> None:
    """While the connection is open the judge must notice it."""
    async with frames(PONG) as received:
        with pytest.raises(MalformedError, match="request -2, where None"):
            await connection().receive(received)


async def test_answers_that_come_after_a_send_has_failed_concern_nobody() -> None:
    """Seed 243 of `zelos`, at 12b3b5d: the stream could not be written to any more, while answers could still be read."""
    broken = connection()
    broken.close()

    async with frames(PONG) as received:
        await broken.receive(received)

    assert broken._history.events == []
