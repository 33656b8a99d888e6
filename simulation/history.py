"""The history of a run: what clients of the log, of its loglets and of the register asked and heard, and the faults.

The words are shipped, as authors of loglets need them too: `virtuallog.testing.actions` and `.history`.
"""

from __future__ import annotations

from virtuallog.testing.actions import (
    Action,
    Append,
    ChangeAsked,
    CheckTail,
    CloseAsked,
    ExtendAsked,
    FindTrimPoint,
    Follow,
    Get,
    LogletAppend,
    LogletRead,
    LogletSeal,
    LogletTail,
    LogletTrim,
    MembersAsked,
    ModifyAsked,
    Put,
    Read,
    Reconfigure,
    Trim,
    TruncateAsked,
)
from virtuallog.testing.history import Event, Failed, Fault, History, Invoked, Operation, Recorder, Returned, Unknown

__all__ = [
    "Action",
    "Append",
    "ChangeAsked",
    "CheckTail",
    "CloseAsked",
    "Event",
    "ExtendAsked",
    "Failed",
    "Fault",
    "FindTrimPoint",
    "Follow",
    "Get",
    "History",
    "Invoked",
    "LogletAppend",
    "LogletRead",
    "LogletSeal",
    "LogletTail",
    "LogletTrim",
    "MembersAsked",
    "ModifyAsked",
    "Operation",
    "Put",
    "Read",
    "Reconfigure",
    "Recorder",
    "Returned",
    "Trim",
    "TruncateAsked",
    "Unknown",
]
