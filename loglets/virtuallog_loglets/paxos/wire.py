"""Cap'n Proto interfaces of a replicated log: pairs messages with methods.

A learned record is believed: a replica takes it in without a vote. So `learn` is for administrators, as a native
repair is, and for nodes, which are trusted with more than that.
"""

from __future__ import annotations

from typing import Any, Final

from virtuallog.contract.caller_roles import Role
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.schema import load
from virtuallog_loglets.paxos.messages import (
    CoordinatorReply,
    GetStanding,
    Learn,
    PaxosAppend,
    PaxosRecords,
    PaxosRecover,
    PaxosRecovered,
    PaxosSeal,
    PaxosSettle,
    PaxosTruncate,
    PaxosWrite,
    PaxosWritten,
    Promise,
    Promised,
    ReadRecords,
    Standing,
    TrimSealed,
    WaitLearned,
)

SCHEMA: Final[Any] = load("virtuallog_loglets.paxos", "paxos.capnp")

REPLICA: Final = Interface(
    schema=SCHEMA.PaxosReplica,
    methods=(
        Method(name="promise", request=Promise, reply=Promised),
        Method(name="write", request=PaxosWrite, reply=PaxosWritten),
        Method(name="learn", request=Learn, reply=Standing, role=Role.ADMIN),
        Method(name="recover", request=PaxosRecover, reply=PaxosRecovered),
        Method(name="getStanding", request=GetStanding, reply=Standing, role=Role.CLIENT),
        Method(name="waitLearned", request=WaitLearned, reply=Standing, role=Role.CLIENT),
        Method(name="readRecords", request=ReadRecords, reply=PaxosRecords, role=Role.CLIENT),
        Method(name="trimSealed", request=TrimSealed, reply=Standing, role=Role.ADMIN),
    ),
)
COORDINATOR: Final = Interface(
    schema=SCHEMA.PaxosCoordinator,
    methods=(
        Method(name="append", request=PaxosAppend, reply=CoordinatorReply, role=Role.CLIENT, appends=True),
        Method(name="settle", request=PaxosSettle, reply=CoordinatorReply, role=Role.CLIENT),
        Method(name="seal", request=PaxosSeal, reply=CoordinatorReply, role=Role.ADMIN),
        Method(name="truncate", request=PaxosTruncate, reply=CoordinatorReply, role=Role.ADMIN),
    ),
)
