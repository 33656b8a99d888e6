"""Pairs the messages of a replicated log with the methods of its Cap'n Proto interfaces.

A learned record is believed: it is taken in without a vote. So `learn` is for administrators, as a native repair is, and for
nodes, which are trusted with more than that.
"""

from __future__ import annotations

from typing import Any, Final

from virtuallog.rpc.interface import Interface, Method
from virtuallog.rpc.roles import Role
from virtuallog.rpc.schema import load
from virtuallog_loglets.paxos.messages import (
    Append,
    GetStanding,
    Learn,
    Promise,
    Promised,
    ReadRecords,
    Records,
    Recover,
    Recovered,
    Seal,
    Settle,
    Standing,
    Taken,
    TrimSealed,
    Truncate,
    WaitLearned,
    Write,
    Written,
)

SCHEMA: Final[Any] = load("virtuallog_loglets.paxos", "paxos.capnp")

REPLICA: Final = Interface(
    schema=SCHEMA.PaxosReplica,
    methods=(
        Method(name="promise", request=Promise, reply=Promised),
        Method(name="write", request=Write, reply=Written),
        Method(name="learn", request=Learn, reply=Standing, role=Role.ADMIN),
        Method(name="recover", request=Recover, reply=Recovered),
        Method(name="getStanding", request=GetStanding, reply=Standing, role=Role.CLIENT),
        Method(name="waitLearned", request=WaitLearned, reply=Standing, role=Role.CLIENT),
        Method(name="readRecords", request=ReadRecords, reply=Records, role=Role.CLIENT),
        Method(name="trimSealed", request=TrimSealed, reply=Standing, role=Role.ADMIN),
    ),
)
COORDINATOR: Final = Interface(
    schema=SCHEMA.PaxosCoordinator,
    methods=(
        Method(name="append", request=Append, reply=Taken, role=Role.CLIENT, appends=True),
        Method(name="settle", request=Settle, reply=Taken, role=Role.CLIENT),
        Method(name="seal", request=Seal, reply=Taken, role=Role.ADMIN),
        Method(name="truncate", request=Truncate, reply=Taken, role=Role.ADMIN),
    ),
)
