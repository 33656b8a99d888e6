"""What is run for a seed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import attrs

from simulation.world.world import World
from virtuallog.errors import InvalidSettingError


@attrs.frozen(kw_only=True)
class Scenario:
    """A story told to a fresh world. It ends by running its checks (`World.check`)."""

    name: str
    about: str
    story: Callable[[World], Awaitable[None]]
    limit_seconds: float
    """Simulated time after which the story is stuck, which is a violation by itself."""
    draws_bounds: bool = True
    """Whether bounds of the product may be small (`simulation.bounds`). Not where a story tells what must happen after each step."""


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
    from simulation.stories.amnesia import AMNESIA
    from simulation.stories.ballots import BALLOTS
    from simulation.stories.belated import BELATED
    from simulation.stories.bereft import BEREFT, NERVOUS
    from simulation.stories.burden import BURDEN
    from simulation.stories.cancelled import CANCELLED
    from simulation.stories.cluster import CLUSTER
    from simulation.stories.comeback import COMEBACK
    from simulation.stories.contended import CONTENDED
    from simulation.stories.copied import COPIED
    from simulation.stories.crossed import CROSSED
    from simulation.stories.drained import DRAINED
    from simulation.stories.emptied import EMPTIED
    from simulation.stories.estranged import ESTRANGED, EXPELLED, VACANT
    from simulation.stories.forgetful import FORGETFUL
    from simulation.stories.hollow import HOLLOW
    from simulation.stories.intruders import INTRUDERS
    from simulation.stories.kinds import ARCHIVE, STRIPED, ZOOKEEPER
    from simulation.stories.large import DROPPED, TORN
    from simulation.stories.leased import LEASED
    from simulation.stories.minority import MINORITY
    from simulation.stories.mixed import MIXED
    from simulation.stories.native import LOADED, NATIVE, REPAIR
    from simulation.stories.operated import OPERATED
    from simulation.stories.outbid import OUTBID
    from simulation.stories.overtaken import OVERTAKEN, RESTART, UNEVEN
    from simulation.stories.paxos import DUEL, PAXOS
    from simulation.stories.reborn import REBORN
    from simulation.stories.rebuilt import REBUILT
    from simulation.stories.register import REGISTER
    from simulation.stories.replaced import REPLACED
    from simulation.stories.retired import RETIRED
    from simulation.stories.returned import RETURNED, UNSEATED
    from simulation.stories.revived import REVIVED
    from simulation.stories.rights import RIGHTS
    from simulation.stories.sealed import BROKEN_DISK, SEALED
    from simulation.stories.strangers import STRANGERS
    from simulation.stories.stripes import HALVES, STRIPES
    from simulation.stories.superseded import SUPERSEDED
    from simulation.stories.trimmed import TRIMMED
    from simulation.stories.usurped import USURPED
    from simulation.stories.weak_seal import WEAK_SEAL
    from simulation.stories.wiped import WIPED
    from simulation.stories.zelos import ZELOS
    from simulation.stories.znodes import ZNODES

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
    from simulation.conformance import chain, clauses, faults

    return (*clauses.SCENARIOS, *faults.SCENARIOS, *chain.SCENARIOS)
