"""Methods of a raft log: its messages paired with its Cap'n Proto interfaces."""

from __future__ import annotations

from typing import Any, Final

from virtuallog.contract.caller_roles import Role
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.schema import load
from virtuallog_loglets.raft.messages import (
    AppendRecords,
    ChangeLogMember,
    CopyRecords,
    GetLogMembership,
    LeaderReply,
    LogMembership,
    RaftAppend,
    RaftCheckTail,
    RaftGetStanding,
    RaftRecords,
    RaftSeal,
    RaftStanding,
    RaftTrim,
    RaftWaitTail,
    ReadRaftRecords,
    RecordsAppended,
    RequestVote,
    RetireReplica,
    StandNow,
    TransferAnswer,
    TransferLogLeadership,
    VoteAnswer,
)

SCHEMA: Final[Any] = load("virtuallog_loglets.raft", "raft.capnp")

PEER: Final = Interface(
    schema=SCHEMA.RaftPeer,
    methods=(
        Method(name="requestVote", request=RequestVote, reply=VoteAnswer),
        Method(name="appendRecords", request=AppendRecords, reply=RecordsAppended),
        Method(name="standNow", request=StandNow, reply=TransferAnswer),
    ),
)
REPLICA: Final = Interface(
    schema=SCHEMA.RaftReplica,
    methods=(
        Method(name="append", request=RaftAppend, reply=LeaderReply, role=Role.CLIENT, appends=True),
        Method(name="checkTail", request=RaftCheckTail, reply=LeaderReply, role=Role.CLIENT),
        Method(name="seal", request=RaftSeal, reply=LeaderReply, role=Role.ADMIN),
        Method(name="getStanding", request=RaftGetStanding, reply=RaftStanding, role=Role.CLIENT),
        Method(name="waitTail", request=RaftWaitTail, reply=RaftStanding, role=Role.CLIENT),
        Method(name="readRecords", request=ReadRaftRecords, reply=RaftRecords, role=Role.CLIENT),
        Method(name="trim", request=RaftTrim, reply=RaftStanding, role=Role.ADMIN),
        Method(name="copyRecords", request=CopyRecords, reply=RaftStanding, role=Role.ADMIN),
    ),
)
MEMBERSHIP: Final = Interface(
    schema=SCHEMA.RaftMembership,
    methods=(
        Method(name="getMembership", request=GetLogMembership, reply=LogMembership, role=Role.CLIENT),
        Method(name="changeMember", request=ChangeLogMember, reply=LeaderReply, role=Role.ADMIN),
        Method(name="transferLeadership", request=TransferLogLeadership, reply=LeaderReply, role=Role.ADMIN),
        Method(name="retire", request=RetireReplica, reply=RaftStanding),
    ),
)
"""Members of a log that is used by itself; under a virtual log the chain names them."""
