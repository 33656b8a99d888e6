"""The history of a run: what clients of the log, of its loglets and of the register asked and heard, and the faults.

The words are shipped, as authors of loglets need them too: `virtuallog.testing.actions` and `.history`.
"""

from __future__ import annotations

from virtuallog.testing.actions import (
    Action,
    Append,
    CheckTail,
    Follow,
    Get,
    LogletAppend,
    LogletRead,
    LogletSeal,
    LogletTail,
    LogletTrim,
    Put,
    Read,
    Reconfigure,
    Trim,
)
from virtuallog.testing.history import Event, Failed, Fault, History, Invoked, Operation, Recorder, Returned, Unknown

__all__ = [
    "Action",
    "Append",
    "CheckTail",
    "Event",
    "Failed",
    "Fault",
    "Follow",
    "Get",
    "History",
    "Invoked",
    "LogletAppend",
    "LogletRead",
    "LogletSeal",
    "LogletTail",
    "LogletTrim",
    "Operation",
    "Put",
    "Read",
    "Reconfigure",
    "Recorder",
    "Returned",
    "Trim",
    "Unknown",
]
