"""Every scenario of the simulator, by name. No module below `scenarios` imports this one."""

from __future__ import annotations

from typing import Final

from virtuallog.contract.errors import InvalidSettingError
from virtuallog_simulation.scenarios.cluster.cancelled_appends import CANCELLED
from virtuallog_simulation.scenarios.cluster.cloned_directory import COPIED
from virtuallog_simulation.scenarios.cluster.disk_loss import WIPED
from virtuallog_simulation.scenarios.cluster.load import CLUSTER
from virtuallog_simulation.scenarios.cluster.mixed_kinds import MIXED
from virtuallog_simulation.scenarios.cluster.rebuild import REBUILT
from virtuallog_simulation.scenarios.cluster.sequencer_loss import BEREFT, NERVOUS
from virtuallog_simulation.scenarios.cluster.sequencer_restart import REBORN
from virtuallog_simulation.scenarios.cluster.single_kind import ARCHIVE, STRIPED, ZOOKEEPER
from virtuallog_simulation.scenarios.cluster.store_loss import HOLLOW
from virtuallog_simulation.scenarios.conformance import chain, clauses, faults
from virtuallog_simulation.scenarios.database.access_control import STRANGERS
from virtuallog_simulation.scenarios.database.append_guard import INTRUDERS
from virtuallog_simulation.scenarios.database.command_cost import BURDEN
from virtuallog_simulation.scenarios.database.expiring_sessions import EXPIRING
from virtuallog_simulation.scenarios.database.late_copies import BELATED
from virtuallog_simulation.scenarios.database.leases import LEASED
from virtuallog_simulation.scenarios.database.load import DATABASE
from virtuallog_simulation.scenarios.database.registrars import REGISTRARS
from virtuallog_simulation.scenarios.database.rights import RIGHTS
from virtuallog_simulation.scenarios.database.server_restarts import COMEBACK
from virtuallog_simulation.scenarios.database.tables import TABLES
from virtuallog_simulation.scenarios.fast_disks import FAST_CLUSTER, FAST_NATIVE, FAST_PAXOS, FAST_RAFT
from virtuallog_simulation.scenarios.loglet.large_entries import DROPPED, TORN
from virtuallog_simulation.scenarios.loglet.minority_wave import MINORITY
from virtuallog_simulation.scenarios.loglet.native import LOADED, NATIVE, REPAIR
from virtuallog_simulation.scenarios.loglet.seals import BROKEN_DISK, SEALED
from virtuallog_simulation.scenarios.loglet.session_retirement import RETIRED
from virtuallog_simulation.scenarios.loglet.stale_sequencer import OVERTAKEN, RESTART, UNEVEN
from virtuallog_simulation.scenarios.loglet.striped import HALVES, STRIPES
from virtuallog_simulation.scenarios.loglet.trims import TRIMMED
from virtuallog_simulation.scenarios.loglet.weak_seal import WEAK_SEAL
from virtuallog_simulation.scenarios.loglet.zookeeper import ZNODES
from virtuallog_simulation.scenarios.operators.concurrent_operators import OPERATED
from virtuallog_simulation.scenarios.operators.disaster_recovery import REVIVED
from virtuallog_simulation.scenarios.operators.drain import DRAINED
from virtuallog_simulation.scenarios.operators.multiple_drains import EMPTIED
from virtuallog_simulation.scenarios.operators.removed_live_node import ESTRANGED, EXPELLED, VACANT
from virtuallog_simulation.scenarios.operators.replaced_live_node import USURPED
from virtuallog_simulation.scenarios.operators.replacement import RAFT_REPLACED, REPLACED
from virtuallog_simulation.scenarios.operators.returned_disk import RETURNED, UNSEATED
from virtuallog_simulation.scenarios.paxos.forgotten_promise import FORGETFUL
from virtuallog_simulation.scenarios.paxos.message_loss import OUTBID
from virtuallog_simulation.scenarios.paxos.race import DUEL, PAXOS
from virtuallog_simulation.scenarios.paxos.stale_coordinator import SUPERSEDED
from virtuallog_simulation.scenarios.paxos.store_loss import AMNESIA
from virtuallog_simulation.scenarios.paxos.truncation import TRUNCATED
from virtuallog_simulation.scenarios.raft.copies import RAFT_COPIES
from virtuallog_simulation.scenarios.raft.elections import RAFT_ELECTIONS
from virtuallog_simulation.scenarios.raft.former_leader import RAFT_SUPERSEDED
from virtuallog_simulation.scenarios.raft.log_members import RAFT_MEMBERS
from virtuallog_simulation.scenarios.raft.race import RAFT
from virtuallog_simulation.scenarios.raft.seals import RAFT_SEALS
from virtuallog_simulation.scenarios.register.contention import CONTENDED
from virtuallog_simulation.scenarios.register.crossed_ballots import CROSSED
from virtuallog_simulation.scenarios.register.message_order import BALLOTS
from virtuallog_simulation.scenarios.register.race import REGISTER
from virtuallog_simulation.world.scenario import Scenario


def find(name: str) -> Scenario:
    """The scenario of this name.

    Raises:
        InvalidSettingError: there is none.
    """
    for scenario in (*all_scenarios(), *_kit()):
        if scenario.name == name:
            return scenario
    raise InvalidSettingError("scenario", f"no '{name}' (known: {', '.join(s.name for s in all_scenarios())})")


def all_scenarios() -> tuple[Scenario, ...]:
    """Every scenario of this package, in the order in which they are listed and run."""
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
        FAST_CLUSTER,
        FAST_NATIVE,
        FAST_PAXOS,
        FAST_RAFT,
        FORGETFUL,
        HALVES,
        LEASED,
        EXPIRING,
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
        RAFT,
        RAFT_COPIES,
        RAFT_ELECTIONS,
        RAFT_MEMBERS,
        RAFT_REPLACED,
        RAFT_SEALS,
        RAFT_SUPERSEDED,
        REBORN,
        REBUILT,
        REGISTER,
        REGISTRARS,
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
        TABLES,
        TORN,
        TRIMMED,
        TRUNCATED,
        UNEVEN,
        UNSEATED,
        USURPED,
        VACANT,
        WEAK_SEAL,
        WIPED,
        DATABASE,
        ZNODES,
        ZOOKEEPER,
    )


DEFAULT: Final = "cluster"


def _kit() -> tuple[Scenario, ...]:
    """Scenarios of the conformance kit: found by name, but not part of "all"."""
    return (*clauses.SCENARIOS, *faults.SCENARIOS, *chain.SCENARIOS)
