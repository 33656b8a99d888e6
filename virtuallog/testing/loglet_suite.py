"""The conformance suite for loglets: tests the promises of `virtuallog.contract.loglet.Loglet`.

For authors of loglets, ours and third-party ones. It needs a fixture that makes fresh loglets, and
no test framework; docs/howto/write-a-loglet.md tells how to run it on your own loglet. Each clause is an
async function with the clause of the contract as its docstring; under pytest, parametrize over
`CLAUSES` and call `run_clause`.

Beyond the examples, every operation is cancelled at each of its awaits, and random histories of
many clients are judged by `virtuallog.testing.checker.linearizability`. `RESTART_CLAUSES` test the
state after a power loss, on fixtures that own their servers. `virtuallog conformance` runs all of
it on simulated machines, and much more under every class of faults.
"""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, TypeAlias, TypeVar

import attrs

from virtuallog.contract.chain import SegmentId
from virtuallog.contract.ports import Clock, Environment
from virtuallog.contract.provider import LogletProvider
from virtuallog.testing.clauses import appends, cancellation, concurrency, reads, restarts, seals, tails
from virtuallog.testing.clauses.fixture import LogletFixture, Opener
from virtuallog.testing.clauses.restarts import RestartClause, RestartingFixture

__all__ = [
    "CLAUSES", "Clause", "LogletFixture", "Opener", "ProviderFixture", "RESTART_CLAUSES", "RestartClause",
    "RestartingFixture", "Verdict", "run_clause", "run_suite",
]  # fmt: skip

Clause: TypeAlias = Callable[[LogletFixture], Awaitable[None]]
FixtureMaker: TypeAlias = Callable[[], AbstractAsyncContextManager[LogletFixture]]
FixtureT = TypeVar("FixtureT", bound=LogletFixture)

CLAUSES: Final[Sequence[Clause]] = (
    *appends.CLAUSES,
    *tails.CLAUSES,
    *seals.CLAUSES,
    *reads.CLAUSES,
    *cancellation.CLAUSES,
    *concurrency.CLAUSES,
)

RESTART_CLAUSES: Final[Sequence[RestartClause]] = restarts.CLAUSES
"""Clauses for fixtures that can restart their servers."""

CLAUSE_SECONDS: Final = 120.0
"""Timeout of one clause on the fixture's clock. It ends an operation that hangs or is unavailable
for ever."""


@attrs.frozen(kw_only=True)
class Verdict:
    """Result of one clause."""

    clause: str
    """Name of the clause's function."""
    promise: str
    """Docstring of that function."""
    kept: bool
    message: str
    """The broken expectation; empty if none was."""


@attrs.define
class ProviderFixture:
    """Fresh loglets from a provider. Implements `LogletFixture`.

    Nodes that ask for the config of a segment (`NodeEnvironment.segment_config`) find it in `configs`.
    """

    provider: LogletProvider
    config: bytes
    environment: Environment
    configs: dict[SegmentId, tuple[str, bytes]] = attrs.field(factory=dict, init=False)
    _versions: itertools.count[int] = attrs.field(factory=lambda: itertools.count(1), init=False)

    @property
    def contiguous(self) -> bool:
        return self.provider.contiguous

    @property
    def clock(self) -> Clock:
        return self.environment.clock

    @property
    def random(self) -> random.Random:
        return self.environment.random

    async def fresh(self) -> Opener:
        segment = SegmentId(next(self._versions), self.random.getrandbits(63))
        self.configs[segment] = (self.provider.kind, self.config)
        return lambda: self.provider.open(segment, self.config, self.environment)


async def run_clause(clause: Callable[[FixtureT], Awaitable[None]], fixture: FixtureT) -> None:
    """Run one clause. Raises AssertionError if the loglet breaks it."""
    with fixture.clock.timeout(CLAUSE_SECONDS) as scope:
        await clause(fixture)
    if scope.cancelled_caught:
        raise AssertionError(f"not done within {CLAUSE_SECONDS:g} s")


async def run_suite(make_fixture: FixtureMaker, clauses: Sequence[Clause] = CLAUSES) -> list[Verdict]:
    """Run the clauses one after the other, each with a fixture of its own, and report on all of them."""
    verdicts = []
    for clause in clauses:
        try:
            async with make_fixture() as fixture:
                await run_clause(clause, fixture)
            message = ""
        except* Exception as broken:
            message = _innermost(broken)
        promise = inspect.getdoc(clause) or ""
        verdicts.append(Verdict(clause=_name(clause), promise=promise, kept=not message, message=message))
    return verdicts


def _name(clause: Clause) -> str:
    return getattr(clause, "__name__", repr(clause))


def _innermost(error: BaseException) -> str:
    """Describe the first error within groups: nurseries wrap the errors of their tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
