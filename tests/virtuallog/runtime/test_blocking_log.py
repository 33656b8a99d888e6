"""The blocking client behind its block, and one that the end of the block interrupts."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import pytest
import trio

from tests.virtuallog.client.world import world
from virtuallog.blocking import BlockingLog
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.errors import UnavailableError
from virtuallog.runtime.bridge_errors import ClientClosedError
from virtuallog.runtime.loop_thread import open_in_thread


@asynccontextmanager
async def client() -> AsyncIterator[VirtualLog]:
    async with world() as made:
        yield made.client()


def test_a_call_behind_the_block_is_refused() -> None:
    """By an error of this library, as every other one; a session that ends later raises nothing."""
    with open_in_thread(client, "client") as loop:
        log = BlockingLog(loop)
        session = log.appender()
        appender = session.__enter__()
        assert appender.append([b"a"]) == range(1)
    assert not log.is_open
    for call in (log.check_tail, log.register, lambda: log.append(b"b"), lambda: appender.append([b"b"])):
        with pytest.raises(ClientClosedError):
            call()
    session.__exit__(None, None, None)


def test_a_call_that_the_end_of_the_block_interrupts_has_an_unknown_outcome() -> None:
    """It raises an error of this library in the calling thread, not one of the event loop."""
    began = threading.Event()

    async def wait(_: VirtualLog) -> None:
        began.set()
        await trio.sleep_forever()

    with ThreadPoolExecutor(1) as pool:
        with open_in_thread(client, "client") as loop:
            found = pool.submit(BlockingLog(loop).run, wait)
            assert began.wait(60)
        with pytest.raises(UnavailableError):
            found.result(60)
