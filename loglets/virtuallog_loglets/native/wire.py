"""Pairs the messages of a NativeLoglet with the methods of its Cap'n Proto interfaces."""

from __future__ import annotations

from typing import Any, Final

from virtuallog.rpc.interface import Interface, Method
from virtuallog.rpc.roles import Role
from virtuallog.rpc.schema import load
from virtuallog_loglets.native.messages import (
    Append,
    Appended,
    GetState,
    ReadWaves,
    Repair,
    Seal,
    State,
    Store,
    Stored,
    Trim,
    WaitTail,
    Waves,
)

SCHEMA: Final[Any] = load("virtuallog_loglets.native", "native.capnp")

LOG_SERVER: Final = Interface(
    schema=SCHEMA.LogServer,
    methods=(
        Method(name="store", request=Store, reply=Stored),
        Method(name="seal", request=Seal, reply=State, role=Role.ADMIN),
        Method(name="getState", request=GetState, reply=State, role=Role.CLIENT),
        Method(name="waitTail", request=WaitTail, reply=State, role=Role.CLIENT, distrusted={"known_tail": 0}),
        Method(name="repair", request=Repair, reply=Stored, role=Role.ADMIN),
        Method(name="readWaves", request=ReadWaves, reply=Waves, role=Role.CLIENT),
        Method(name="trim", request=Trim, reply=State, role=Role.ADMIN),
    ),
)
SEQUENCER: Final = Interface(
    schema=SCHEMA.Sequencer,
    methods=(Method(name="append", request=Append, reply=Appended, role=Role.CLIENT, appends=True),),
)
