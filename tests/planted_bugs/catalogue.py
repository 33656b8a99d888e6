"""All planted bugs, and the hunt for one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from tests.planted_bugs.database import (
    access_rights,
    bounds,
    database,
    leases,
    log_authorship,
    registrar,
    session_expiry,
    session_floor,
    tables,
    unauthorized_clients,
)
from tests.planted_bugs.loglets import (
    archive,
    native,
    paxos,
    raft,
    rereplication,
    sequencer,
    striped,
    wal,
    weak_seal,
    zookeeper,
)
from tests.planted_bugs.mutant import Mutant
from tests.planted_bugs.server import healing, identity, identity_fence, membership, register_import, restarts, stops
from tests.planted_bugs.virtuallog import chain_changes, metastore, readers, rejections, virtual_log
from virtuallog_simulation.runs.runner import run_seed

MUTANTS: Final[tuple[Mutant, ...]] = (
    *weak_seal.MUTANTS,
    *native.MUTANTS,
    *sequencer.MUTANTS,
    *wal.MUTANTS,
    *metastore.MUTANTS,
    *virtual_log.MUTANTS,
    *chain_changes.MUTANTS,
    *readers.MUTANTS,
    *identity.MUTANTS,
    *identity_fence.MUTANTS,
    *stops.MUTANTS,
    *healing.MUTANTS,
    *membership.MUTANTS,
    *rereplication.MUTANTS,
    *paxos.MUTANTS,
    *raft.MUTANTS,
    *striped.MUTANTS,
    *zookeeper.MUTANTS,
    *archive.MUTANTS,
    *database.MUTANTS,
    *leases.MUTANTS,
    *session_expiry.MUTANTS,
    *unauthorized_clients.MUTANTS,
    *log_authorship.MUTANTS,
    *bounds.MUTANTS,
    *access_rights.MUTANTS,
    *rejections.MUTANTS,
    *restarts.MUTANTS,
    *register_import.MUTANTS,
    *session_floor.MUTANTS,
    *registrar.MUTANTS,
    *tables.MUTANTS,
)


@attrs.frozen(kw_only=True)
class Found:
    """Seed, scenario and check with which a planted bug was found."""

    seed: int
    check: str
    """One that stands for the promise that the bug breaks."""


def hunt(mutant: Mutant, likely: Sequence[int] = ()) -> Found | None:
    """A seed with which a check that stands for the broken promise objects; None if none is found up to `mutant.within`.
    likely: seeds to try first. Without any, the lowest seed is found.
    """
    for seed in (*(seed for seed in likely if seed <= mutant.within), *range(1, mutant.within + 1)):
        violations = run_seed(seed, mutant.scenario, mutant.patches, options=mutant.options).violations
        checks = sorted({violation.check for violation in violations} & mutant.found_by)
        if checks:
            return Found(seed=seed, check=checks[0])
    return None
