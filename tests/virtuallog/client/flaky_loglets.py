"""Loglets that lose or delay appends, for the tests of appenders."""

from __future__ import annotations

import random
from collections.abc import Sequence

import attrs
import pytest
import trio.lowlevel

from tests.virtuallog.client.world import World, post_everything
from virtuallog.client.virtual_log import VirtualLog
from virtuallog.contract.batch import Batch
from virtuallog.contract.chain import SegmentId
from virtuallog.contract.errors import MalformedError, UnavailableError
from virtuallog.contract.loglet import Loglet, Placed
from virtuallog.contract.ports import Environment
from virtuallog.contract.types import LogletOffset, Tail
from virtuallog_loglets.memory import MemoryLoglet, MemoryProvider


@pytest.fixture(params=["waits", "posts"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test on loglets with and without posted appends."""
    if request.param == "posts":
        post_everything(monkeypatch)


@attrs.define
class Flaky:
    """A loglet that loses appends or their answers at random, and delays them."""

    inner: MemoryLoglet
    random: random.Random
    loss: float

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        await trio.sleep(self.random.random() / 100)
        if self.random.random() < self.loss:
            raise UnavailableError("lost on the way there")
        places = await self.inner.append(batch, opens=opens, expected_tail=expected_tail)
        await trio.sleep(self.random.random() / 100)
        if self.random.random() < self.loss:
            raise UnavailableError("lost on the way back")
        return places

    async def check_tail(self) -> Tail:
        return await self.inner.check_tail()

    async def wait_tail(self, past: LogletOffset) -> Tail:
        return await self.inner.wait_tail(past)

    async def read(self, start: LogletOffset, stop: LogletOffset, max_bytes: int) -> Sequence[Placed]:
        return await self.inner.read(start, stop, max_bytes)

    async def seal(self) -> None:
        await self.inner.seal()

    async def prefix_trim(self, offset: LogletOffset) -> LogletOffset:
        return await self.inner.prefix_trim(offset)


@attrs.define
class FlakyProvider(MemoryProvider):
    loss: float = 0.3

    def open(self, segment: SegmentId, config: bytes, environment: Environment) -> Loglet:  # type: ignore[override]
        inner = MemoryProvider.open(self, segment, config, environment)
        return Flaky(inner, environment.random, self.loss)


def flaky(nursery: trio.Nursery, loss: float) -> World:
    return World(nursery, providers={"memory": FlakyProvider(loss=loss), "sparse": FlakyProvider("sparse", 4, loss)})


@attrs.define
class Slow(Flaky):
    """A loglet that takes a while to place a batch, or to refuse it for good."""

    refuses: bytes = b"(nothing)"

    async def append(self, batch: Batch, *, opens: bool, expected_tail: LogletOffset | None = None) -> range:
        refused = self.refuses in batch.blob
        await trio.sleep(0.1 if refused else 0.3)
        if refused:
            raise MalformedError("refused for good")
        return await self.inner.append(batch, opens=opens, expected_tail=expected_tail)


def slow_log(w: World, refuses: bytes = b"(nothing)") -> VirtualLog:
    """A client on an active `Slow` loglet."""
    log, segment = w.client(), w.register.chain.last
    inner = w.providers[segment.kind].open(segment.id, b"", log.view.environment)
    assert isinstance(inner, MemoryLoglet)
    log.view._loglets[segment.id] = Slow(inner, random.Random(0), loss=0.0, refuses=refuses)
    return log
