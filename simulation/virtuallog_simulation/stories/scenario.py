"""What is run for a seed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs

from virtuallog.errors import InvalidSettingError
from virtuallog_simulation.world.world import World


@attrs.frozen(kw_only=True)
class Scenario:
    """A story told to a fresh world. It ends by running its checks (`World.check`)."""

    name: str
    about: str
    story: Callable[[World], Awaitable[None]]
    limit_seconds: float
    """Simulated time after which the story is stuck, which is a violation by itself."""
    needs: str = ""
    """Module that the story imports, and that only an extra brings; empty if there is none."""
    draws_bounds: bool = True
    """Whether bounds of the product may be small (`virtuallog_simulation.bounds`). Not where a story tells what must happen after each step."""


def find(name: str) -> Scenario:
    """The scenario of this name.

    Raises:
        InvalidSettingError: there is none.
    """
    for scenario in (*all_scenarios(), *_kit()):
        if scenario.name == name:
            return scenario
    raise InvalidSettingError("scenario", f"no '{name}' (known: {', '.join(s.name for s in all_scenarios())})")


DEFAULT: Final = "cluster"


def all_scenarios() -> tuple[Scenario, ...]:
    """Every scenario there is. Imported here, as the stories import this module."""
    from virtuallog_simulation.stories.amnesia import AMNESIA
    from virtuallog_simulation.stories.ballots import BALLOTS
    from virtuallog_simulation.stories.belated import BELATED
    from virtuallog_simulation.stories.bereft import BEREFT, NERVOUS
    from virtuallog_simulation.stories.burden import BURDEN
    from virtuallog_simulation.stories.cancelled import CANCELLED
    from virtuallog_simulation.stories.cluster import CLUSTER
    from virtuallog_simulation.stories.comeback import COMEBACK
    from virtuallog_simulation.stories.contended import CONTENDED
    from virtuallog_simulation.stories.copied import COPIED
    from virtuallog_simulation.stories.crossed import CROSSED
    from virtuallog_simulation.stories.drained import DRAINED
    from virtuallog_simulation.stories.emptied import EMPTIED
    from virtuallog_simulation.stories.estranged import ESTRANGED, EXPELLED, VACANT
    from virtuallog_simulation.stories.forgetful import FORGETFUL
    from virtuallog_simulation.stories.hollow import HOLLOW
    from virtuallog_simulation.stories.intruders import INTRUDERS
    from virtuallog_simulation.stories.kinds import ARCHIVE, STRIPED, ZOOKEEPER
    from virtuallog_simulation.stories.large import DROPPED, TORN
    from virtuallog_simulation.stories.leased import LEASED
    from virtuallog_simulation.stories.minority import MINORITY
    from virtuallog_simulation.stories.mixed import MIXED
    from virtuallog_simulation.stories.native import LOADED, NATIVE, REPAIR
    from virtuallog_simulation.stories.operated import OPERATED
    from virtuallog_simulation.stories.outbid import OUTBID
    from virtuallog_simulation.stories.overtaken import OVERTAKEN, RESTART, UNEVEN
    from virtuallog_simulation.stories.paxos import DUEL, PAXOS
    from virtuallog_simulation.stories.reborn import REBORN
    from virtuallog_simulation.stories.rebuilt import REBUILT
    from virtuallog_simulation.stories.register import REGISTER
    from virtuallog_simulation.stories.replaced import REPLACED
    from virtuallog_simulation.stories.retired import RETIRED
    from virtuallog_simulation.stories.returned import RETURNED, UNSEATED
    from virtuallog_simulation.stories.revived import REVIVED
    from virtuallog_simulation.stories.rights import RIGHTS
    from virtuallog_simulation.stories.sealed import BROKEN_DISK, SEALED
    from virtuallog_simulation.stories.strangers import STRANGERS
    from virtuallog_simulation.stories.stripes import HALVES, STRIPES
    from virtuallog_simulation.stories.superseded import SUPERSEDED
    from virtuallog_simulation.stories.trimmed import TRIMMED
    from virtuallog_simulation.stories.usurped import USURPED
    from virtuallog_simulation.stories.weak_seal import WEAK_SEAL
    from virtuallog_simulation.stories.wiped import WIPED
    from virtuallog_simulation.stories.zelos import ZELOS
    from virtuallog_simulation.stories.znodes import ZNODES

    return (
        AMNESIA,
        ARCHIVE,
        BALLOTS,
        BELATED,
        BEREFT,
        BROKEN_DISK,
        BURDEN,
        CANCELLED,
        CLUSTER,
        COMEBACK,
        CONTENDED,
        COPIED,
        CROSSED,
        DRAINED,
        DROPPED,
        DUEL,
        EMPTIED,
        ESTRANGED,
        EXPELLED,
        FORGETFUL,
        HALVES,
        LEASED,
        INTRUDERS,
        HOLLOW,
        LOADED,
        MINORITY,
        MIXED,
        NATIVE,
        NERVOUS,
        OPERATED,
        OUTBID,
        OVERTAKEN,
        PAXOS,
        REBORN,
        REBUILT,
        REGISTER,
        REPAIR,
        REPLACED,
        RESTART,
        RETIRED,
        RETURNED,
        REVIVED,
        RIGHTS,
        SEALED,
        STRANGERS,
        STRIPED,
        STRIPES,
        SUPERSEDED,
        TORN,
        TRIMMED,
        UNEVEN,
        UNSEATED,
        USURPED,
        VACANT,
        WEAK_SEAL,
        WIPED,
        ZELOS,
        ZNODES,
        ZOOKEEPER,
    )


def _kit() -> tuple[Scenario, ...]:
    """What the conformance kit tells of a provider: found by name, but no part of "all"."""
    from virtuallog_simulation.conformance import chain, clauses, faults

    return (*clauses.SCENARIOS, *faults.SCENARIOS, *chain.SCENARIOS)
