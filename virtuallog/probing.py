"""Whether a loglet that is only planned could be used: what a kind says of it whose loglets are kept where the cluster knows nothing.

A loglet that cannot be reached cannot be sealed either, so a chain that has one at its end goes neither on nor back. Plans of kinds
that are kept on nodes look at who lives; of any other place a plan is a wish, and a typo ends the log.
"""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

import attrs
import trio

from virtuallog.api import LogletProvider
from virtuallog.errors import InvalidSettingError, VirtualLogError
from virtuallog.ports import Environment

PROBE_SECONDS: Final = 6.0
"""For an answer: a call that finds nobody says so before. Nothing is sealed meanwhile."""


@runtime_checkable
class ProbesLoglets(Protocol):
    """A `LogletProvider` that can tell whether a plan of its own would do."""

    async def probe(self, config: bytes, environment: Environment) -> None:
        """On return a new loglet of this config would have taken appends. Nothing has come into being that is one.

        Asked before the active loglet is sealed, by whoever wants the log to go on here; not by those who finish a change that
        is half done, as appends wait for them. The environment's nursery ends soon after. Safe to repeat; cancelled after some seconds.

        Raises:
            InvalidSettingError, ForbiddenError, UnsupportedError: it would not, and what is to blame.
        """
        ...


async def probe(provider: LogletProvider, config: bytes, environment: Environment) -> None:
    """Return if nothing speaks against a loglet of this config. What was opened to find out is closed again.

    Raises:
        InvalidSettingError, ForbiddenError, UnsupportedError: something does; nothing was done.
    """
    if not isinstance(provider, ProbesLoglets):
        return
    async with trio.open_nursery() as nursery:
        problem = await _find_problem(provider, provider.kind, config, attrs.evolve(environment, nursery=nursery))
        nursery.cancel_scope.cancel()
    if problem is not None:
        raise problem


async def _find_problem(
    provider: ProbesLoglets, kind: str, config: bytes, environment: Environment
) -> VirtualLogError | None:
    """Not raised: what a nursery lets out is in a group."""
    with environment.clock.timeout(PROBE_SECONDS):
        try:
            await provider.probe(config, environment)
        except VirtualLogError as error:
            return error
        return None
    return InvalidSettingError(kind, f"the log stays where it is: no answer from there in {PROBE_SECONDS:g} s")
