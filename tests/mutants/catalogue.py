"""All planted bugs, and the hunt for one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from tests.mutants import (
    archive,
    bounds,
    changes,
    copies,
    forgotten,
    healing,
    identity,
    intruders,
    leases,
    membership,
    metastore,
    native,
    paxos,
    readers,
    refusals,
    residence,
    restarts,
    revival,
    rights,
    sequencer,
    stopping,
    strangers,
    striped,
    virtual_log,
    wal,
    weak_seal,
    zelos,
    zookeeper,
)
from tests.mutants.mutant import Mutant
from virtuallog_simulation.runner import run_seed

MUTANTS: Final[tuple[Mutant, ...]] = (
    *weak_seal.MUTANTS,
    *native.MUTANTS,
    *sequencer.MUTANTS,
    *wal.MUTANTS,
    *metastore.MUTANTS,
    *virtual_log.MUTANTS,
    *changes.MUTANTS,
    *readers.MUTANTS,
    *identity.MUTANTS,
    *residence.MUTANTS,
    *stopping.MUTANTS,
    *healing.MUTANTS,
    *membership.MUTANTS,
    *copies.MUTANTS,
    *paxos.MUTANTS,
    *striped.MUTANTS,
    *zookeeper.MUTANTS,
    *archive.MUTANTS,
    *zelos.MUTANTS,
    *leases.MUTANTS,
    *strangers.MUTANTS,
    *intruders.MUTANTS,
    *bounds.MUTANTS,
    *rights.MUTANTS,
    *refusals.MUTANTS,
    *restarts.MUTANTS,
    *revival.MUTANTS,
    *forgotten.MUTANTS,
)


@attrs.frozen(kw_only=True)
class Found:
    """How a planted bug was found."""

    seed: int
    check: str
    """One that stands for the promise that the bug breaks."""


def hunt(mutant: Mutant, likely: Sequence[int] = ()) -> Found | None:
    """A seed with which a check that stands for the broken promise objects; None if there is none up to `mutant.within`.

    Args:
        mutant: what is planted.
        likely: seeds to try first. Without any, the lowest seed is found.
    """
    for seed in (*(seed for seed in likely if seed <= mutant.within), *range(1, mutant.within + 1)):
        violations = run_seed(seed, mutant.scenario, mutant.patches, options=mutant.options).violations
        checks = sorted({violation.check for violation in violations} & mutant.found_by)
        if checks:
            return Found(seed=seed, check=checks[0])
    return None
