"""Configurations: bounds with a name, and how many states there are within them.

Counts are those of complete explorations, states that differ in names only counted once. They change when the core does the same
in other steps, and are measured again then; `tests/simulation/explorer` holds those of the small ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from virtuallog_simulation.explorer.metastore.protocol import MetastoreBounds, MetastoreProtocol
from virtuallog_simulation.explorer.native.protocol import NativeProtocol
from virtuallog_simulation.explorer.native.state import NativeBounds
from virtuallog_simulation.explorer.paxos.protocol import PaxosProtocol
from virtuallog_simulation.explorer.paxos.state import PaxosBounds
from virtuallog_simulation.explorer.protocol import Protocol
from virtuallog_simulation.explorer.raft.protocol import RaftProtocol
from virtuallog_simulation.explorer.raft.state import RaftBounds
from virtuallog_simulation.explorer.registrar.protocol import RegistrarProtocol
from virtuallog_simulation.explorer.registrar.state import RegistrarBounds


@attrs.frozen(kw_only=True)
class ExplorerConfiguration:
    """A protocol within bounds."""

    name: str
    about: str
    """Part of the protocol that its bounds reach."""
    make: Callable[[], Protocol[Any]]
    states: int
    """Distinct states of the complete exploration; 0 for one that is only there for schedules, and has never been completed."""
    depth: int
    """Steps to the farthest state."""
    is_large: bool
    """True if it takes more than some seconds: `make explore` and not a test runs it."""

    @property
    def is_directed(self) -> bool:
        """True if it is for a schedule alone: there are far more states than can be searched."""
        return self.states == 0


_LARGE: Final = 20_000
"""States from which on a configuration is large."""


def _raft(name: str, about: str, states: int, depth: int, **bounds: Any) -> ExplorerConfiguration:
    chosen = RaftBounds(**bounds)
    return ExplorerConfiguration(
        name=f"raft-{name}", about=about, make=lambda: RaftProtocol.of(chosen), states=states, depth=depth,
        is_large=states >= _LARGE,
    )  # fmt: skip


def _metastore(name: str, about: str, states: int, depth: int, **bounds: Any) -> ExplorerConfiguration:
    chosen = MetastoreBounds(**bounds)
    return ExplorerConfiguration(
        name=f"metastore-{name}", about=about, make=lambda: MetastoreProtocol.of(chosen), states=states, depth=depth,
        is_large=states >= _LARGE,
    )  # fmt: skip


def _native(name: str, about: str, states: int, depth: int, **bounds: Any) -> ExplorerConfiguration:
    chosen = NativeBounds(**bounds)
    return ExplorerConfiguration(
        name=f"native-{name}", about=about, make=lambda: NativeProtocol.of(chosen), states=states, depth=depth,
        is_large=states >= _LARGE,
    )  # fmt: skip


def _paxos(name: str, about: str, states: int, depth: int, **bounds: Any) -> ExplorerConfiguration:
    chosen = PaxosBounds(**bounds)
    return ExplorerConfiguration(
        name=f"paxos-{name}", about=about, make=lambda: PaxosProtocol.of(chosen), states=states, depth=depth,
        is_large=states >= _LARGE,
    )  # fmt: skip


def _registrar(name: str, about: str, states: int, depth: int, **bounds: Any) -> ExplorerConfiguration:
    chosen = RegistrarBounds(**bounds)
    return ExplorerConfiguration(
        name=f"registrar-{name}" if name else "registrar", about=about, make=lambda: RegistrarProtocol.of(chosen), states=states, depth=depth,
        is_large=states >= _LARGE,
    )  # fmt: skip


RAFT: Final = (
    _raft("append", "one term, one batch", 3_954, 18, batches=1),
    _raft("election", "two terms without batches", 11_245, 26, terms=2),
    _raft("crash", "a restart in the first term", 3_321, 16, crashes=1),
    _raft("seal", "a batch beside a seal, under a leader that begins", 1_970, 15, first_leader=1, batches=1, seals=1),
    _raft("trim", "a trim beside a read", 6_404, 16, first_leader=1, batches=1, reads=1, trims=1),
    _raft("disk", "writes that are synced one by one", 2_387, 23, queued_disk=True),
    _raft("pre-vote", "elections that begin with a pre-vote", 19_578, 35, terms=2, asks=True),
    _raft("duplicate", "requests that arrive twice", 11_636, 26, terms=2, duplicates=True),
    _raft("late", "messages that a leader takes for lost while they are under way", 13_778, 26, terms=2, late=True),
    _raft("disk-crash", "a crash between any two writes", 18_434, 26, crashes=1, queued_disk=True),
    _raft("reorder", "two messages in flight, under a leader that begins", 2_267, 19, first_leader=1, batches=1,
          in_flight=2),
    _raft("append-in-flight", "two messages in flight", 46_914, 23, batches=1, in_flight=2),
    _raft("reorder-2", "two messages in flight, two batches", 56_703, 26, first_leader=1, batches=2, in_flight=2),
    _raft("disk-append", "a batch whose writes are synced one by one", 78_200, 31, batches=1, queued_disk=True),
    _raft("append-2", "two terms, one batch", 138_027, 31, terms=2, batches=1),
    _raft("terms", "three terms without batches", 195_928, 33, terms=3),
    _raft("election-2", "two terms, two messages in flight", 320_248, 28, terms=2, in_flight=2),
    _raft("restart", "a restart in two terms", 102_016, 28, terms=2, crashes=1),
    _raft("stand-to-seal", "a replica stands against a leader, to seal", 157_224, 24, first_leader=1, terms=2, batches=1,
          seals=1, stand_to_seal=True, standers=(2,)),
    _raft("read", "a leader that is deposed, and reads", 136_453, 24, first_leader=1, standers=(2,), terms=2, batches=1, reads=1),
    _raft("read-2", "the same with two messages in flight", 7_109_756, 31, first_leader=1, standers=(2,), terms=2, batches=1,
          reads=1, in_flight=2),
    _raft("fig8", "records of older terms: two replicas stand, a message holds one record", 1_129_823, 45, terms=4, standers=(1, 3),
          single_records=True),
    _raft("stale", "answers that are late by two terms", 0, 0, first_leader=1, standers=(1, 3), terms=5, batches=3,
          in_flight=3, single_records=True),
    _raft("diverged", "a follower with records that a deposed leader left", 0, 0, first_leader=1, standers=(2,), terms=2,
          batches=2, reads=1),
    _raft("own-vote", "a crash of a leader whose own vote is not synced", 0, 0, crashes=1, queued_disk=True, batches=1,
          seals=1, in_flight=2),
)  # fmt: skip

METASTORE: Final = (
    _metastore("put", "two puts of one version, two messages in flight", 3_264, 18, in_flight=2),
    _metastore("duplicate", "requests that arrive twice", 10_275, 18, in_flight=2, duplicates=True),
    _metastore("put-3", "three messages in flight", 37_996, 19, in_flight=3),
    _metastore("again", "each put begins anew once", 285_388, 30, in_flight=2, ballots=2),
    _metastore("members", "two versions, the first of which changes the members", 2_302_234, 48, in_flight=2, versions=2,
               members=(1, 2, 3), later_members=(2, 3, 4)),
)  # fmt: skip

NATIVE: Final = (
    _native("append", "two waves", 6_337, 17, batches=2),
    _native("check", "a tail check beside a wave", 7_476, 21, batches=1, clients=1, checks=1),
    _native("seal", "a seal beside a wave, and its repair", 4_336, 23, batches=1, clients=1, seals=1, in_flight=1),
    _native("repair", "a repair that takes a read or a store for lost", 8_010, 28, batches=1, clients=1, seals=1,
            timeouts=1, in_flight=1, rounds=4),
    _native("check-2", "a tail check beside two waves: known tails are confirmed", 152_231, 33, batches=2, clients=1, checks=1,
            in_flight=1),
    _native("trim", "a check, and a trim of what it found", 2_989, 20, batches=1, clients=1, checks=1, trims=1,
            in_flight=1),
    _native("crash", "a crash between any two writes, and a wave that is sent twice", 2_082, 15, batches=1, crashes=1,
            resends=1, queued_disk=True),
    _native("duplicate", "a request that arrives twice", 873, 13, batches=1, crashes=1, duplicates=1,
            queued_disk=True),
    _native("disk", "a seal, and writes that are synced one by one", 13_277, 33, batches=1, clients=1, seals=1,
            in_flight=1, queued_disk=True),
    _native("crash-2", "two waves, one of which is sent twice, and a crash", 17_170, 19, batches=2, crashes=1, resends=1,
            in_flight=1),
    _native("check-and-seal", "a check and a seal of one client", 17_984, 31, batches=1, clients=1, checks=1, seals=1,
            in_flight=1),
    _native("seal-reorder", "a seal and two messages in flight", 27_635, 24, batches=1, clients=1, seals=1),
    _native("disk-crash", "a seal, and a crash between any two writes", 53_229, 34, batches=1, clients=1, seals=1,
            crashes=1, in_flight=1, queued_disk=True),
    _native("disk-reorder", "a seal, two messages in flight, writes that are synced one by one", 60_233, 29, batches=1,
            clients=1, seals=1, queued_disk=True),
    _native("full-disk", "a disk that refuses a write", 170_261, 37, batches=1, clients=1, seals=1, resends=1,
            refusals=1, in_flight=1, queued_disk=True),
    _native("two-seals", "two clients that seal and repair", 44_629, 33, batches=1, clients=2, seals=2, in_flight=1),
    _native("check-seal-trim", "a check, a seal and a trim of one client", 52_985, 32, batches=1, clients=1, checks=1,
            seals=1, trims=1, in_flight=1),
    _native("seal-2", "a seal beside two waves", 573_476, 37, batches=2, clients=1, seals=1, in_flight=1),
    _native("check-seal", "a check beside a seal of another client", 361_072, 40, batches=1, clients=2, checks=1, seals=1,
            in_flight=1),
    _native("known-tail", "a known tail of a repair behind a seal, which reaches the sequencer", 0, 0, batches=1,
            clients=2, seals=2, trims=1, in_flight=3),
    _native("confirm", "five servers: an open tail that rests on a known tail", 0, 0, servers=5, batches=1, clients=3,
            checks=1, seals=2, trims=1, in_flight=6),
)  # fmt: skip

PAXOS: Final = (
    _paxos("append", "two batches, two messages in flight", 599, 13, first_leader=1, batches=2, in_flight=2),
    _paxos("election", "the first election, a batch, and a crash", 1_921, 16, elections=1, batches=1, crashes=1),
    _paxos("duel", "two elections, two messages in flight", 33_660, 19, elections=2, in_flight=2),
    _paxos("failover", "a batch, and an election against its leader", 1_794, 15, first_leader=1, batches=1, elections=1),
    _paxos("outbid", "two batches beside an election", 21_936, 21, first_leader=1, standers=(2,), batches=2, elections=1),
    _paxos("refill", "an election that fills again", 8_798, 18, first_leader=1, standers=(2,), batches=1, elections=1,
           refills=1),
    _paxos("copy", "an election that copies what others have learned", 10_623, 18, first_leader=1, batches=1, elections=1,
           looks=True),
    _paxos("repeat", "a batch that is offered again, beside an election", 4_557, 19, first_leader=1, standers=(2,), batches=1,
           repeats=1, elections=1),
    _paxos("mend", "an election, and a node that fills a hole without one", 6_362, 17, first_leader=1, standers=(2,),
           batches=1, elections=1, mends=1),
    _paxos("duplicate", "an election, and a request that arrives twice", 4_175, 16, first_leader=1, batches=1, elections=1,
           duplicates=1),
    _paxos("crash", "an election and a restart", 11_228, 17, first_leader=1, batches=1, elections=1, crashes=1),
    _paxos("disk", "an election, and writes that are synced in groups", 14_637, 28, first_leader=1, standers=(2,), batches=1,
           elections=1, queued_disk=True),
    _paxos("disk-crash", "the first election, a batch, and a crash between any two syncs", 9_221, 28, elections=1, batches=1,
           crashes=1, queued_disk=True),
    _paxos("seal", "a batch beside a seal", 748, 13, first_leader=1, batches=1, seals=1, in_flight=2),
    _paxos("seal-failover", "a seal, and an election against its leader", 1_424, 14, first_leader=1, seals=1, elections=1),
    _paxos("seal-duel", "a batch, a seal, and an election", 29_214, 21, first_leader=1, batches=1, seals=1, elections=1),
    _paxos("tail", "a coordinator that is outbid, and answers with a tail", 19_914, 18, first_leader=1, standers=(2,),
           batches=1, tails=1, elections=1),
    _paxos("check", "a tail check beside a batch", 13_646, 26, first_leader=1, batches=1, clients=1, checks=1),
    _paxos("check-seal", "a tail check beside a seal", 11_611, 25, first_leader=1, seals=1, clients=1, checks=1),
    _paxos("disk-failover", "a batch, an election, and a crash between any two syncs", 85_026, 30, first_leader=1, standers=(2,),
           batches=1, elections=1, crashes=1, queued_disk=True),
    _paxos("again", "two batches, and two elections of one rival", 486_265, 27, first_leader=1, standers=(2,), batches=2,
           elections=2),
    _paxos("check-failover", "a tail check beside a batch and an election", 0, 0, first_leader=1, standers=(2,), batches=1,
           elections=1, clients=1, checks=1),
)  # fmt: skip

REGISTRAR: Final = (
    _registrar("", "two owners with an operation each", 11_393, 32),
    _registrar("fence", "two recoveries, all messages lost or late", 1_342, 26, operations=(), in_flight=4),
    _registrar("same-name", "two recoveries of owners with one name", 1_037, 27, operations=(), same_name=True),
    _registrar("3", "three recoveries", 7_023, 23, owners=3, operations=(), fences=1),
    _registrar("replace", "two owners, one of which crashes, or ends and is replaced", 4_988, 21, operations=(), fences=1,
               replacements=1),
    _registrar("alone", "an operation that is refused beside that of another", 10_798, 31, operations=("alone",)),
    _registrar("ensure", "operations that change nothing where another was first", 3_442, 19, operations=("ensure",), fences=1),
    _registrar("abort", "a registrar ends where it has no answer", 7_535, 21, fences=1, aborts=True),
    _registrar("late", "four messages in flight", 14_863, 32, in_flight=4),
    _registrar("queue", "two operations each, in one batch or two", 18_615, 28, operations=("add", "add"), fences=1),
    _registrar("replace-add", "the same as replace, with an operation each", 86_678, 30, fences=1, replacements=1),
)  # fmt: skip

CONFIGURATIONS: Final = {each.name: each for each in (*RAFT, *NATIVE, *PAXOS, *METASTORE, *REGISTRAR)}
