"""Methods of a NativeLoglet: its messages paired with its Cap'n Proto interfaces."""

from __future__ import annotations

from typing import Any, Final

from virtuallog.contract.caller_roles import Role
from virtuallog.contract.capnp_interface import Interface, Method
from virtuallog.contract.schema import load
from virtuallog_loglets.native.messages import (
    NativeAppend,
    NativeAppended,
    NativeGetState,
    NativeReadWaves,
    NativeRepair,
    NativeSeal,
    NativeState,
    NativeStore,
    NativeStored,
    NativeTrim,
    NativeWaitTail,
    NativeWaves,
)

SCHEMA: Final[Any] = load("virtuallog_loglets.native", "native.capnp")

LOG_SERVER: Final = Interface(
    schema=SCHEMA.LogServer,
    methods=(
        Method(name="store", request=NativeStore, reply=NativeStored),
        Method(name="seal", request=NativeSeal, reply=NativeState, role=Role.ADMIN),
        Method(name="getState", request=NativeGetState, reply=NativeState, role=Role.CLIENT),
        Method(
            name="waitTail", request=NativeWaitTail, reply=NativeState, role=Role.CLIENT, distrusted={"known_tail": 0}
        ),
        Method(name="repair", request=NativeRepair, reply=NativeStored, role=Role.ADMIN),
        Method(name="readWaves", request=NativeReadWaves, reply=NativeWaves, role=Role.CLIENT),
        Method(name="trim", request=NativeTrim, reply=NativeState, role=Role.ADMIN),
    ),
)
SEQUENCER: Final = Interface(
    schema=SCHEMA.Sequencer,
    methods=(Method(name="append", request=NativeAppend, reply=NativeAppended, role=Role.CLIENT, appends=True),),
)
